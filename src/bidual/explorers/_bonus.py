"""Optimism by a bonus: plan in the smoothed model, and pay for every state and action that was seldom tried.

|sum (phat - P) V| <= width(V) sqrt(log(2/delta) / (2 n)) (Hoeffding), where V is what is still to be paid and its width
is at most the range of what an episode can pay. Subtracting that from the objective and from every inequality makes
the problem optimistic. It is the classical alternative to sets of laws: cheaper to plan with, and wider.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual._keys import Draw
from bidual.convex import AffineProgram, ConvexProgram
from bidual.explorers._base import AbstractExplorer, Choice
from bidual.explorers._inner import Corrective
from bidual.explorers._lazy import Lazy, World, all_laws, planned
from bidual.explorers._replanning import AbstractReplanning, Growth
from bidual.features import Psi
from bidual.models import AbstractCounted
from bidual.planners import BackwardInduction, ExtendedValueIteration


class Bonus(NamedTuple):
    """The problem with one more signal, the bonus, and the memory of planning."""

    program: AffineProgram
    lazy: Lazy


@final
@dataclass(frozen=True)
class Hoeffding(AbstractExplorer[Bonus]):
    """Solve a linear problem in the smoothed model, with a bonus for what is not known well."""

    inner: Corrective = field(default_factory=Corrective)
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """None is proved for the smoothed model: the bonus covers what frequencies can be off by."""
        return "with a bonus in the smoothed model: no rate is proved"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> Bonus:
        """Nothing planned; the ranges of what an episode can pay say how large a bonus has to be."""
        if not isinstance(program, AffineProgram):
            raise ProblemError(
                "a bonus is known for linear objectives and constraints only: explore this problem with Optimistic()"
            )
        return Bonus(_with_bonus(program, knowledge), Lazy(None, None, self.inner.init(program)))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Bonus, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, Bonus]:
        """Plan with the bonus of today, where the last plan has aged."""
        if knowledge.initial is None and not knowledge.counts.episodes:
            # There is no model to plan in before it is known where episodes start.
            nothing = Lazy(None, None, self.inner.init(memory.program))
            return planned(self.inner, self.replanning, program, nothing, knowledge, draw, lambda: all_laws(knowledge))[
                0
            ], memory
        choice, lazy = planned(
            self.inner, self.replanning, memory.program, memory.lazy, knowledge, draw, lambda: _world(knowledge)
        )
        return choice, memory._replace(lazy=lazy)


def _with_bonus(program: AffineProgram, knowledge: AbstractCounted) -> AffineProgram:
    """One more signal after the others; a unit of it is worth the range of what an episode can pay."""
    position = knowledge.pieces.stage.shape[1]
    rows = np.concatenate([program.objective[None], program.rows])
    ranges = np.where(np.append(False, program.equality), 0.0, _ranges(rows, knowledge))
    wider = np.insert(rows, position, np.broadcast_to(-ranges[:, None], rows.shape[:2]), axis=2)
    return replace(program, objective=wider[0], rows=wider[1:])


def _ranges(rows: Float[np.ndarray, "r H d"], knowledge: AbstractCounted) -> Float[np.ndarray, "r"]:
    model, planner = knowledge.anything, ExtendedValueIteration()
    layout = model.restrict(knowledge.pieces)
    return np.array([-planner(model, layout, -row).lower - planner(model, layout, row).lower for row in rows])


def _world(knowledge: AbstractCounted) -> World:
    model, psi = knowledge.estimate
    bonus = _bonus(knowledge, len(psi.signals))
    signals = np.concatenate([np.broadcast_to(psi.signals, (len(bonus), *psi.signals.shape[1:])), bonus], axis=1)
    return model, model.restrict(Psi(signals, psi.visits, psi.occupancy)), BackwardInduction()


def _bonus(knowledge: AbstractCounted, steps: int) -> Float[np.ndarray, "steps 1 S A"]:
    """For every law: sqrt(log(2 rows n (n + 1) / delta) / (2 n)), and 1 where that is more or n is 0."""
    counts = knowledge.counts
    n, unsure = counts.pairs, counts.support.unsure
    seen = np.maximum(n, 1.0)
    rows = max(len(n) * int(unsure.sum()), 1)
    width = np.sqrt(np.log(2 * rows * seen * (seen + 1) / knowledge.delta) / (2 * seen))
    bonus = np.where(unsure, np.where(n > 0, np.minimum(width, 1.0), 1.0), 0.0)
    return np.broadcast_to(bonus[:, None], (max(steps, len(bonus)), 1, *bonus.shape[1:]))
