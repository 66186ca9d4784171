"""Occupancies of a stationary policy over an unbounded time: how often, as far as it counts, every pair occurs."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.resolvent import Resolvent
from bidual.world.mdp import Discounted, TabularMDP


def occupy(mdp: TabularMDP, policy: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
    """Compute the expected number of times of every state and action, those of step t counted discount^t times."""
    assert isinstance(mdp.criterion, Discounted)  # the one criterion that there is
    lists, S = mdp.successors, mdp.num_states
    flow = mdp.criterion.discount * policy[:, :, None] * lists.probabilities[0]
    starts = np.broadcast_to(np.arange(S)[:, None, None], flow.shape)
    used = flow > 0
    chain = sp.coo_array((flow[used], (starts[used], lists.states[0][used])), shape=(S, S))
    visits = Resolvent(sp.csr_array(chain))(mdp.initial, transposed=True)
    return np.maximum(visits, 0.0)[:, None] * policy
