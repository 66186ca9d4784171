"""`Known`: a model that holds exactly one transition law.

The arrays are laid out for the planner: successor lists as [K, A, R], where R counts only the states that some
policy can reach. That order makes the innermost axis long and contiguous, which is what XLA's loops want.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import jax
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.types import DeviceArray, float64, place_on_device
from bidual.models._base import AbstractModel, Layout
from bidual.models._lists import Law, Tail, build_kernels, cut_lists
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP, list_reachable, restrict_model
from bidual.world.policies import DeterministicPolicy

_FIRST, _COMPILED = "model in main memory", "model for compiled code"
_WORTH_COMPILING = 400_000  # entries of the lists: compiling takes as long as a dozen plans without, then


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
    tail: Tail | None = None  # successors beyond the width of the lists

    @property
    def law(self) -> Law:
        """The law as compiled code takes it."""
        return Law(self.states, self.probabilities, self.tail)

    @property
    def in_main_memory(self) -> bool:
        """Whether the model is laid out for NumPy and not for compiled code."""
        return isinstance(self.probabilities, np.ndarray)

    @cached_property
    def kernels(self) -> tuple[sp.csr_array, ...]:
        """The law of every step, or the one law of all steps, as sparse (A R, R) matrices."""
        return build_kernels(self.law)

    def restrict(self, psi: Psi) -> Layout:
        """Return features over the reachable states."""
        signals: Any = np.ascontiguousarray(psi.signals[:, :, self.kept].swapaxes(2, 3))
        return Layout(psi, signals if self.in_main_memory else place_on_device(signals), self.kept)

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


def known(mdp: TabularMDP) -> Known:
    """Return the model that holds `mdp` and nothing else, laid out for compiled code."""
    return _place(_lay_out(mdp))


@float64
def known_for_next_solve(mdp: TabularMDP) -> Known:
    """Return the same, kept with `mdp`; the first time in main memory, if compiling would take longer than solving."""
    memory = mdp.memory
    if _COMPILED in memory:
        return memory.get(_COMPILED, lambda: known(mdp))
    again = _FIRST in memory
    first = memory.get(_FIRST, lambda: _lay_out(mdp))
    if not again and mdp.successors.states.size <= _WORTH_COMPILING:
        return first
    memory.forget(_FIRST)
    return memory.get(_COMPILED, lambda: _place(first))


def _lay_out(mdp: TabularMDP) -> Known:
    """Lay the model out for the planner, in main memory."""
    kept = list_reachable(mdp)
    lists = restrict_model(mdp, kept).successors
    states, probabilities, allowed = lists.states, lists.probabilities, lists.allowed
    mask = None if allowed.all() else np.ascontiguousarray(allowed.T)
    law = cut_lists(_to_planner_order(states), _to_planner_order(probabilities), allowed.T)
    fallback = np.argmax(mdp.actions, axis=1)
    arrays: tuple[Any, ...] = (law.states, law.probabilities, mask, mdp.initial[kept])
    return Known(*arrays, kept=kept, fallback=fallback, tail=law.tail)


@float64
def _place(model: Known) -> Known:
    """Place a model on the device of compiled code."""
    *arrays, tail = jax.device_put((model.states, model.probabilities, model.allowed, model.initial, model.tail))
    return Known(*arrays, kept=model.kept, fallback=model.fallback, tail=tail)


def _to_planner_order(lists: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(lists, (1, 2, 3), (3, 2, 1)))
