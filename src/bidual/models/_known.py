"""`Known`: a model that holds exactly one transition law.

The arrays are laid out for the planner: successor lists as [K, A, R], where R counts only the states that some
policy can reach. That order makes the innermost axis long and contiguous, which is what XLA's loops want.
"""

from dataclasses import dataclass
from typing import final

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.types import DeviceArray, float64, place_on_device
from bidual.models._base import AbstractModel, Layout
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP, find_reachable
from bidual.world.policies import DeterministicPolicy


@final
@dataclass(frozen=True, eq=False)
class Known(AbstractModel):
    """A known model, restricted to the R reachable states; constructed by `known`."""

    __repr__ = describe_briefly

    states: Int[DeviceArray, "next K A R"]
    probabilities: Float[DeviceArray, "law K A R"]
    allowed: Bool[DeviceArray, "A R"] | None  # None: every action everywhere, which spares the planner a mask
    initial: Float[DeviceArray, "R"]
    kept: Int[np.ndarray, "R"]
    fallback: Int[np.ndarray, "S"]

    def restrict(self, psi: Psi) -> Layout:
        """Return features over the reachable states."""
        return Layout(psi, place_on_device(psi.signals[:, :, self.kept].swapaxes(2, 3)), self.kept)

    def policy(self, actions: Int[DeviceArray, "H R"]) -> DeterministicPolicy:
        """Return the planned actions, and the first allowed one where no policy arrives."""
        planned = np.asarray(actions)
        full = np.repeat(self.fallback.astype(planned.dtype)[None], len(planned), axis=0)
        full[:, self.kept] = planned
        return DeterministicPolicy(full, self.states.shape[2])

    def spread(self, table: Float[np.ndarray, "H A R"]) -> Float[np.ndarray, "H S A"]:
        """Extend a table over the reachable states to all states, with 0 elsewhere."""
        full = np.zeros((len(table), self.fallback.size, table.shape[1]))
        full[:, self.kept] = table.swapaxes(1, 2)
        return full


@float64
def known(mdp: TabularMDP) -> Known:
    """Return the model that holds `mdp` and nothing else."""
    lists = mdp.successors
    kept = np.flatnonzero(find_reachable(mdp))
    states, probabilities, allowed = lists.states, lists.probabilities, lists.allowed
    if kept.size < mdp.num_states:
        # A kept state may lead out of the kept set only in a step that is too late to matter; those successors
        # are redirected to any kept state, which keeps values finite and changes nothing that is reached.
        number = np.zeros(mdp.num_states, dtype=np.int32)
        number[kept] = np.arange(kept.size, dtype=np.int32)
        states, probabilities, allowed = number[states[:, kept]], probabilities[:, kept], allowed[kept]
    mask = None if allowed.all() else np.ascontiguousarray(allowed.T)
    arrays = (_to_planner_order(states), _to_planner_order(probabilities), mask, mdp.initial[kept])
    return Known(*jax.device_put(arrays), kept=kept, fallback=np.argmax(lists.allowed, axis=1))


def _to_planner_order(lists: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(lists, (1, 2, 3), (3, 2, 1)))
