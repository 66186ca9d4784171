"""Optimism by a bonus: plan in the smoothed model, with a reward for every state and action that was seldom tried.

|sum (phat - P) V| <= width(V) sqrt(log(2/delta) / (2 n)) (Hoeffding), where V is the cost to go and its width is at
most the range of the value of an episode. Subtracting that from the objective and from every inequality makes
the problem optimistic. It is the classical alternative to sets of laws: cheaper to plan with, and wider.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.keys import Draw
from bidual.loop.explorers._base import AbstractExplorer, Choice, Corrective
from bidual.loop.explorers._replanning import (
    AbstractReplanning,
    Growth,
    PlanningTask,
    ReplanState,
    plan_over_all_laws,
    sample_policy,
)
from bidual.models import AbstractCounted
from bidual.planners import BackwardInduction, ExtendedValueIteration
from bidual.problem.convex import AbstractProgram, AffineProgram
from bidual.problem.features import Psi


class CountBonus(NamedTuple):
    """The problem with one more signal, the bonus, and the memory of planning."""

    program: AffineProgram
    lazy: ReplanState


@final
@dataclass(frozen=True)
class Hoeffding(AbstractExplorer[CountBonus]):
    """An explorer for linear problems in the smoothed model, with a bonus for uncertainty."""

    inner: Corrective = field(default_factory=Corrective)
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """None is proved for the smoothed model: the bonus covers the error of frequencies."""
        return "with a bonus in the smoothed model: no rate is proved"

    def init(self, program: AbstractProgram, knowledge: AbstractCounted) -> CountBonus:
        """Return a memory without plans; the ranges of values per episode set the size of the bonus."""
        rows = program.linear
        if rows is None:
            raise ProblemError(
                "a bonus is known for linear objectives and constraints only: explore this problem with Optimistic()"
            )
        return CountBonus(_append_bonus(rows, knowledge), ReplanState(None, None, self.inner.init(rows)))

    def __call__(
        self, program: AbstractProgram, memory: CountBonus, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, CountBonus]:
        """Plan with the present bonus, if the last plan is out of date."""
        if knowledge.initial is None and not knowledge.counts.episodes:
            # There is no model to plan in before the start states are known.
            nothing = ReplanState(None, None, self.inner.init(memory.program))
            make_task = partial(plan_over_all_laws, knowledge)
            choice, _ = sample_policy(self.inner, self.replanning, program, nothing, knowledge, draw, make_task)
            return choice, memory
        choice, lazy = sample_policy(
            self.inner,
            self.replanning,
            memory.program,
            memory.lazy,
            knowledge,
            draw,
            lambda: _make_bonus_task(knowledge),
        )
        return choice, memory._replace(lazy=lazy)


def _append_bonus(program: AffineProgram, knowledge: AbstractCounted) -> AffineProgram:
    """Append one more signal; a unit of it is worth the range of the value of an episode."""
    position = knowledge.pieces.stage.shape[1]
    rows = np.concatenate([program.objective[None], program.rows])
    ranges = np.where(np.append(False, program.equality), 0.0, _compute_ranges(rows, knowledge))
    wider = np.insert(rows, position, np.broadcast_to(-ranges[:, None], rows.shape[:2]), axis=2)
    return replace(program, objective=wider[0], rows=wider[1:])


def _compute_ranges(rows: Float[np.ndarray, "r H d"], knowledge: AbstractCounted) -> Float[np.ndarray, "r"]:
    model, planner = knowledge.all_supported_laws, ExtendedValueIteration()
    if model is None:
        raise ProblemError("a bonus for the counts of states needs states that are observed: give another explorer")
    layout = model.restrict(knowledge.pieces)
    return np.array([-planner(model, layout, -row).lower - planner(model, layout, row).lower for row in rows])


def _make_bonus_task(knowledge: AbstractCounted) -> PlanningTask:
    model, psi = knowledge.estimate
    bonus = _compute_bonus(knowledge, len(psi.signals))
    signals = np.concatenate([np.broadcast_to(psi.signals, (len(bonus), *psi.signals.shape[1:])), bonus], axis=1)
    return model, model.restrict(Psi(signals, psi.visits, psi.occupancy)), BackwardInduction()


def _compute_bonus(knowledge: AbstractCounted, steps: int) -> Float[np.ndarray, "steps 1 S A"]:
    """Compute sqrt(log(2 rows n (n + 1) / delta) / (2 n)) for every law, and 1 where that is more or n is 0."""
    counts = knowledge.counts
    n, unsure = counts.pairs, counts.support.unsure
    seen = np.maximum(n, 1.0)
    rows = max(len(n) * int(unsure.sum()), 1)
    width = np.sqrt(np.log(2 * rows * seen * (seen + 1) / knowledge.delta) / (2 * seen))
    bonus = np.where(unsure, np.where(n > 0, np.minimum(width, 1.0), 1.0), 0.0)
    return np.broadcast_to(bonus[:, None], (max(steps, len(bonus)), 1, *bonus.shape[1:]))
