"""The bound that no policy can beat: the optimistic problem solved in the final set, and certified there.

Values from the way there would be looser: the set is smallest at the end.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from bidual._conclude import record_of
from bidual.certificate import Record, lower_bound
from bidual.control import RiccatiOptimist
from bidual.convex import TOLERANCE, AffineProgram, ConvexProgram
from bidual.dual import ConicCorrective, Duals, FullyCorrective, Reply
from bidual.models import AbstractCounted, AbstractKnowledge, ControlKnowledge, Counts, Latents
from bidual.planners import BackwardInduction, optimist
from bidual.primal_dual import Iteration, primal_dual

_NODES = 200  # of the search for the best law of a class, per plan


class Shown(NamedTuple):
    """What the set shows: no feasible policy pays less than `lower`; every policy violates by `conflict` units."""

    lower: float | None
    conflict: float | None
    record: Record | None  # the multipliers that prove it
    counts: Counts | None  # in the set that these episodes leave
    plans: int
    controls: ControlKnowledge | None = None  # likewise, where states are vectors

    def or_better(self, later: "Shown", *, told: bool) -> "Shown":
        """The better of two bounds: the true law is in all sets at once, so both hold.

        Unless a signal was seen since to be no function of the transition: what was shown before rests on that.
        """
        if not told:
            return later
        if self.conflict is not None or later.conflict is not None:
            return max(self, later, key=lambda one: one.conflict or 0.0)
        return max(later, self, key=lambda one: -np.inf if one.lower is None else one.lower)


@final
@dataclass(frozen=True)
class FinalBound:
    """How the optimistic problem is solved.

    Args:
        gap: to which it is solved, relative to the larger of 1 and its value; five times that at looks on the way.
        max_plans: after which the best multipliers so far are taken: any of them prove a bound.
        time_limit: seconds, likewise.
    """

    gap: float = 2e-5
    max_plans: int = 300
    time_limit: float = 30.0

    @property
    def rough(self) -> "FinalBound":
        """For looks on the way: any multipliers prove a bound, and curved problems take long to the last digit."""
        return FinalBound(5 * self.gap, self.max_plans, 0.1 * self.time_limit)

    def __call__(self, program: AffineProgram | ConvexProgram, knowledge: AbstractKnowledge) -> Shown:
        """Solve, and let the checker derive the bound from the multipliers."""
        if isinstance(knowledge, ControlKnowledge):
            return self._over_laws(program, knowledge)
        # Where a signal is no function of the transition its mean is not known.
        if not (isinstance(knowledge, AbstractCounted) and knowledge.told and knowledge.certifies):
            return Shown(None, None, None, None, 0)
        possible = knowledge.optimistic
        assert not isinstance(possible, Latents)  # which certify nothing
        duals, plans = self._solved(_loop(program, knowledge))
        if duals.conflict.value > TOLERANCE:
            record = record_of(program, duals.conflict, 0.0)
            conflict = lower_bound(program, record, possible, knowledge.pieces)
            if conflict is not None and conflict > 0:
                return Shown(None, conflict, record, knowledge.counts, plans)
        if not np.isfinite(duals.optimum.value):
            return Shown(None, None, None, None, plans)
        record = record_of(program, duals.optimum, 1.0)
        lower = lower_bound(program, record, possible, knowledge.pieces)
        return Shown(lower, None, record, knowledge.counts, plans)

    def _over_laws(self, program: AffineProgram | ConvexProgram, knowledge: ControlKnowledge) -> Shown:
        """Linear dynamics and quadratic signals: the same problem over all linear laws, by Riccati's recursion."""
        laws, nothing = knowledge.laws, Shown(None, None, None, None, 0)
        if laws is None or not isinstance(program, AffineProgram):
            return nothing
        loop = primal_dual(program, knowledge.stage, laws, RiccatiOptimist(), FullyCorrective())
        duals, plans = self._solved(loop)
        if not np.isfinite(duals.optimum.value):
            return nothing._replace(plans=plans)
        record = record_of(program, duals.optimum, 1.0)
        lower = lower_bound(program, record, laws, knowledge.pieces)
        if lower is None or not np.isfinite(lower):
            return nothing._replace(plans=plans)
        return Shown(lower, None, record, None, plans, knowledge)

    def _solved(self, loop: Iterator[Iteration[Any]]) -> tuple[Duals[Any], int]:
        started, turn = time.perf_counter(), None
        for turn in loop:
            duals = turn.duals
            bound = duals.optimum.value
            closed = duals.feasible and duals.f - bound <= self.gap * max(1.0, abs(duals.f))
            clash = not duals.feasible and duals.conflict.value > TOLERANCE
            late = time.perf_counter() - started > self.time_limit
            # A master that fails asks for the uniform policy, which it has already: it will not do better.
            if closed or clash or duals.stalled or duals.soft or turn.number >= self.max_plans or late:
                break
        assert turn is not None  # the loop has no end of its own
        return turn.duals, turn.number


def _loop(program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> Iterator[Iteration[Any]]:
    """The corrective loop that suits the program, over all laws that may be true."""
    psi, model, planner = knowledge.layout, knowledge.optimistic, optimist(knowledge.optimistic, _NODES)
    if isinstance(program, AffineProgram):
        return primal_dual(program, psi, model, planner, FullyCorrective())
    return primal_dual(program, psi, model, planner, ConicCorrective(), _uniform(program, knowledge))


def _uniform(program: ConvexProgram, knowledge: AbstractCounted) -> tuple[Reply, ...]:
    """The uniform policy in the smoothed model, to begin with: plans at the edge of a domain defeat the master.

    The logarithm of a visit that is 0 is one. Where a bound comes from has no part in its proof.
    """
    if not knowledge.counts.episodes and knowledge.initial is None:
        return ()
    model, psi = knowledge.estimate
    theta = program.image.adjoint(np.zeros(program.image.size))
    return (Reply(theta, None, BackwardInduction().soft(model, model.restrict(psi), theta)),)
