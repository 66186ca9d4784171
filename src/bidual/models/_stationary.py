"""`Stationary`: a known law over an unbounded time, restricted to the states that some policy can reach.

Time ends at random: after every step with probability 1 - discount. What is left of the law is a kernel M with rows
that sum to less than 1, whose powers vanish, and everything that is planned is (I - M)^-1 of it. It stays in NumPy and
SciPy: a system is solved in tens of sparse products, too few to compile anything for.
"""

from dataclasses import dataclass
from typing import cast, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual.models._base import AbstractModel, Layout
from bidual.problem.features import Psi
from bidual.world.mdp import Discounted, TabularMDP, find_reachable
from bidual.world.policies import DeterministicPolicy


@final
@dataclass(frozen=True, eq=False)
class Stationary(AbstractModel):
    """A known law over an unbounded time, over its R reachable states; constructed by `stationary`."""

    __repr__ = describe_briefly

    kernel: sp.csr_array  # (R A, R): the law of the next state, times the chance that there is one
    allowed: Bool[np.ndarray, "R A"]
    initial: Float[np.ndarray, "R"]
    kept: Int[np.ndarray, "R"]
    fallback: Int[np.ndarray, "S"]

    def restrict(self, psi: Psi) -> Layout:
        """Return features over the reachable states."""
        return Layout(psi, cast("Array", psi.signals[:, :, self.kept].swapaxes(2, 3)), self.kept)

    def policy(self, actions: Int[np.ndarray, "1 R"]) -> DeterministicPolicy:
        """Return the planned actions, and the first allowed one where no policy arrives."""
        full = self.fallback.astype(actions.dtype)[None].copy()
        full[:, self.kept] = actions
        return DeterministicPolicy(full, self.allowed.shape[1], stationary=True)

    def spread(self, table: Float[np.ndarray, "1 A R"]) -> Float[np.ndarray, "1 S A"]:
        """Extend a table over the reachable states to all states, with 0 elsewhere."""
        full = np.zeros((1, self.fallback.size, table.shape[1]))
        full[:, self.kept] = table.swapaxes(1, 2)
        return full


def stationary(mdp: TabularMDP) -> Stationary:
    """Return the model that holds `mdp`, which has no horizon, and nothing else."""
    assert isinstance(mdp.criterion, Discounted)  # the one criterion that there is
    lists = mdp.successors
    kept = np.flatnonzero(find_reachable(mdp))
    number = np.zeros(mdp.num_states, dtype=np.int32)
    number[kept] = np.arange(kept.size, dtype=np.int32)
    chances = mdp.criterion.discount * lists.probabilities[0, kept]
    # Padding may name states that are not reachable; with probability 0 it does not matter which.
    states = np.where(chances > 0, number[lists.states[0, kept]], 0)
    R, A, K = states.shape
    kernel = sp.csr_array((chances.ravel(), states.ravel(), np.arange(R * A + 1) * K), shape=(R * A, R))
    return Stationary(kernel, lists.allowed[kept], mdp.initial[kept], kept, np.argmax(lists.allowed, axis=1))
