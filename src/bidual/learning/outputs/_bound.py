"""The bound that no policy can beat: the optimistic problem solved in the final set, and certified there.

Values from the way there would be looser: the set is smallest at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from bidual._base.deadline import Deadline
from bidual.certificate import Record, lower_bound
from bidual.dual import Duals, FullyCorrective, Reply
from bidual.loop.primal_dual import Iteration, primal_dual, run_corrective
from bidual.models import AbstractCounted, AbstractKnowledge, ControlKnowledge, Counts, Latents
from bidual.planners import BackwardInduction, choose_optimistic_planner
from bidual.planners.control import RiccatiOptimist
from bidual.problem.convex import TOLERANCE, AbstractProgram, ConvexProgram
from bidual.solving.result import record_of

_NODES = 200  # of the search for the best law of a class, per plan


class DualBound(NamedTuple):
    """A proved bound: no feasible policy has less than `lower`; every policy violates by `conflict` units."""

    lower: float | None
    conflict: float | None
    record: Record | None  # the multipliers that prove it
    counts: Counts | None  # in the set that these episodes leave
    plans: int
    controls: ControlKnowledge | None = None  # likewise, where states are vectors

    def or_better(self, later: "DualBound", *, signals_consistent: bool) -> "DualBound":
        """Return the better of two bounds: the true law is in all sets at once, so both hold.

        Unless a signal proved since not to be a function of the transition: earlier bounds assumed it was.
        """
        if not signals_consistent:
            return later
        if self.conflict is not None or later.conflict is not None:
            return max(self, later, key=lambda one: one.conflict or 0.0)
        return max(later, self, key=lambda one: -np.inf if one.lower is None else one.lower)


@final
@dataclass(frozen=True)
class FinalBound:
    """Settings for solving the optimistic problem.

    Args:
        gap: to which it is solved, relative to the larger of 1 and its value; five times that for bounds on the way.
        max_plans: after which the best multipliers so far are taken: any of them prove a bound.
        time_limit: seconds, likewise.
    """

    gap: float = 2e-5
    max_plans: int = 300
    time_limit: float = 30.0

    @property
    def rough(self) -> "FinalBound":
        """Looser settings for bounds on the way: any multipliers prove one; curved problems converge slowly."""
        return FinalBound(5 * self.gap, self.max_plans, 0.1 * self.time_limit)

    def within(self, deadline: Deadline) -> "FinalBound":
        """Return the same with no more time than there is until a moment; at least one plan is made."""
        return replace(self, time_limit=min(self.time_limit, deadline.left))

    def __call__(self, program: AbstractProgram, knowledge: AbstractKnowledge) -> DualBound:
        """Solve, and derive the bound from the multipliers with the checker."""
        return knowledge.final_bound(self, program)

    def nothing(self) -> DualBound:
        """Return no bound, for knowledge that proves none."""
        return DualBound(None, None, None, None, 0)

    def over_counts(self, program: AbstractProgram, knowledge: AbstractCounted) -> DualBound:
        """Return the bound over all laws of numbered states that may be true."""
        possible = knowledge.confidence_set
        assert not isinstance(possible, Latents)  # which certify nothing
        deadline = Deadline.after(self.time_limit)
        duals, plans = self._solve(_choose_loop(program, knowledge, deadline), deadline)
        if duals.conflict.value > TOLERANCE:
            record = record_of(program, duals.conflict, 0.0)
            conflict = lower_bound(program, record, possible, knowledge.pieces)
            if conflict is not None and conflict > 0:
                return DualBound(None, conflict, record, knowledge.counts, plans)
        if not np.isfinite(duals.optimum.value):
            return DualBound(None, None, None, None, plans)
        record = record_of(program, duals.optimum, 1.0)
        lower = lower_bound(program, record, possible, knowledge.pieces)
        return DualBound(lower, None, record, knowledge.counts, plans)

    def over_laws(self, program: AbstractProgram, knowledge: ControlKnowledge) -> DualBound:
        """Solve the same problem over all linear laws by Riccati's recursion, for quadratic signals."""
        laws, nothing = knowledge.laws, self.nothing()
        if laws is None or program.linear is None:
            return nothing
        loop = primal_dual(program.linear, knowledge.stage, laws, RiccatiOptimist(), FullyCorrective())
        duals, plans = self._solve(loop, Deadline.after(self.time_limit))
        if not np.isfinite(duals.optimum.value):
            return nothing._replace(plans=plans)
        record = record_of(program, duals.optimum, 1.0)
        lower = lower_bound(program, record, laws, knowledge.pieces)
        if lower is None or not np.isfinite(lower):
            return nothing._replace(plans=plans)
        return DualBound(lower, None, record, None, plans, knowledge)

    def _solve(self, loop: Iterator[Iteration[Any]], deadline: Deadline) -> tuple[Duals[Any], int]:
        """Run a loop until its bounds close, prove a conflict or the time is over; return the duals and the plans."""
        turn = None
        for turn in loop:
            duals = turn.duals
            bound = duals.optimum.value
            closed = duals.feasible and duals.f - bound <= self.gap * max(1.0, abs(duals.f))
            clash = not duals.feasible and duals.conflict.value > TOLERANCE
            # A master that fails asks for the uniform policy, which it has already: it will not do better.
            if closed or clash or duals.stalled or duals.soft or turn.number >= self.max_plans or deadline.passed:
                break
        assert turn is not None  # the loop has no end of its own
        return turn.duals, turn.number


def _choose_loop(program: AbstractProgram, knowledge: AbstractCounted, deadline: Deadline) -> Iterator[Iteration[Any]]:
    """Choose the corrective loop for the program, over the confidence set."""
    psi, model, planner = (
        knowledge.layout,
        knowledge.confidence_set,
        choose_optimistic_planner(knowledge.confidence_set, _NODES, deadline),
    )
    known = () if program.curved is None else _start_uniform(program.curved, knowledge)
    return run_corrective(program, psi, model, planner, known)


def _start_uniform(program: ConvexProgram, knowledge: AbstractCounted) -> tuple[Reply, ...]:
    """Return the uniform policy in the smoothed model as a start: plans at the edge of a domain defeat the master.

    Such an edge is a visit of 0 under a logarithm. The origin of a bound plays no part in its proof.
    """
    if not knowledge.counts.episodes and knowledge.initial is None:
        return ()
    model, psi = knowledge.estimate
    theta = program.image.adjoint(np.zeros(program.image.size))
    return (Reply(theta, None, BackwardInduction().soft(model, model.restrict(psi), theta)),)
