"""`Known`: exactly one transition law may be true.

The arrays are laid out for the planner: successor lists as [K, A, R], where R counts only the states that some
policy can reach. That order makes the innermost axis long and contiguous, which is what XLA's loops want.
"""

from dataclasses import dataclass
from typing import final

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._types import Placed, float64, placed
from bidual.features import Psi
from bidual.mdp import TabularMDP, reachable
from bidual.models._base import AbstractModel, Layout
from bidual.policies import DeterministicPolicy


@final
@dataclass(frozen=True, eq=False)
class Known(AbstractModel):
    """A known model, restricted to the R reachable states. Made by `known`."""

    states: Int[Placed, "next K A R"]
    probabilities: Float[Placed, "law K A R"]
    allowed: Bool[Placed, "A R"] | None  # None: every action everywhere, which spares the planner a mask
    initial: Float[Placed, "R"]
    kept: Int[np.ndarray, "R"]
    fallback: Int[np.ndarray, "S"]

    def restrict(self, psi: Psi) -> Layout:
        """Features over the reachable states."""
        return Layout(psi, placed(psi.signals[:, :, self.kept].swapaxes(2, 3)), self.kept)

    def policy(self, actions: Int[Placed, "H R"]) -> DeterministicPolicy:
        """The planned actions, and the first allowed one where no policy arrives."""
        planned = np.asarray(actions)
        full = np.repeat(self.fallback.astype(planned.dtype)[None], len(planned), axis=0)
        full[:, self.kept] = planned
        return DeterministicPolicy(full, self.states.shape[2])

    def spread(self, table: Float[np.ndarray, "H A R"]) -> Float[np.ndarray, "H S A"]:
        """A table over the reachable states as one over all states, 0 elsewhere."""
        full = np.zeros((len(table), self.fallback.size, table.shape[1]))
        full[:, self.kept] = table.swapaxes(1, 2)
        return full


@float64
def known(mdp: TabularMDP) -> Known:
    """The model that holds `mdp` and nothing else."""
    lists = mdp.successors
    kept = np.flatnonzero(reachable(mdp))
    states, probabilities, allowed = lists.states, lists.probabilities, lists.allowed
    if kept.size < mdp.num_states:
        # A kept state may lead out of the kept set only in a step that is too late to matter; those successors
        # are redirected to any kept state, which keeps values finite and changes nothing that is reached.
        number = np.zeros(mdp.num_states, dtype=np.int32)
        number[kept] = np.arange(kept.size, dtype=np.int32)
        states, probabilities, allowed = number[states[:, kept]], probabilities[:, kept], allowed[kept]
    mask = None if allowed.all() else np.ascontiguousarray(allowed.T)
    arrays = (_planner_order(states), _planner_order(probabilities), mask, mdp.initial[kept])
    return Known(*jax.device_put(arrays), kept=kept, fallback=np.argmax(lists.allowed, axis=1))


def _planner_order(lists: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(lists, (1, 2, 3), (3, 2, 1)))
