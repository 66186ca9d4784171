"""Occupancies of a stationary policy over an unbounded time: how often, as far as it counts, every pair occurs."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.resolvent import Resolvent
from bidual.world.mdp import TabularMDP, reach


def occupy(mdp: TabularMDP, policy: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
    """Compute how often the policy takes every action in every state: discounted, until the end, or on average."""
    steps, (_, S, A) = mdp.steps, mdp.successors.shape
    law = np.where(steps.pairs, policy, 0.0)
    mix = sp.csr_array((law.ravel(), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A))
    chain = sp.csr_array(mix @ steps.kernel)
    chain.eliminate_zeros()
    # A policy may stay for ever in states where it never arrives.
    reached = reach(chain, np.ones((S, 1), dtype=bool), steps.start > 0)
    visits = Resolvent(sp.csr_array(sp.diags_array(reached.astype(float)) @ chain))(steps.start, transposed=True)
    occupancy = np.maximum(visits, 0.0)[:, None] * law
    return occupancy if steps.anchor is None else occupancy / occupancy.sum()
