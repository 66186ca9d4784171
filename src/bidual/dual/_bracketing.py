"""The dual player of price curves: many problems that differ in one limit, over one pool of plans.

The dual function of such a family is d(gamma) = min over policies of f + gamma . (rows . Psi), less gamma . limits, and
only the last term depends on the limit. So every plan gives a value and a slope of d at every limit, and when a limit
is searched, there are plans on both sides of its multiplier. The master mixes two of them, computed for gamma_1 and
gamma_2. Its own multiplier is where their two tangents meet: about half-way, wherever the maximum is. The cubic
through both values and both slopes is a better model, so the next plan is for its maximum. Where that plan is not
new, d has a corner between the two, and the next plan is for the master's own multiplier: there it is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final, overload

import numpy as np
from jaxtyping import Float

from bidual.dual._base import AbstractDual, Bound, Duals, Reply
from bidual.dual._fully_corrective import FullyCorrective, Plans, list_origins
from bidual.dual._segment import Segment, find_segment, has_one_row, place_between
from bidual.planners import Plan
from bidual.problem.convex import AffineProgram

_ATTEMPTS = 6  # plans at one limit; then the master's own multipliers, which end on every piecewise linear function
_CLOSE = 0.1  # so close to one end, as a share of the way, the other end is almost never replaced: go beyond
_FAR = 4.0  # of the master's own multiplier, where the plan that keeps the limit was computed for the limit alone


@final
class PlanPool(Sequence[Reply]):
    """A pool of plans with their images, which are the same at every limit."""

    def __init__(self, program: AffineProgram, replies: Sequence[Reply]) -> None:
        self.program, self._replies = program, tuple(replies)
        m, size = program.limits.size, program.objective.size
        matrix = np.concatenate([program.objective.reshape(1, size), program.rows.reshape(m, size)])
        images = np.array([matrix @ r.plan.embedding.reshape(size) for r in self._replies]).reshape(-1, m + 1)
        self.f, self.left_sides = images[:, 0] + program.offset, images[:, 1:]
        gammas, fits = list_origins(program, self._replies)
        self.gammas = np.where(fits[:, None], gammas, np.nan)

    def __len__(self) -> int:
        return len(self._replies)

    @overload
    def __getitem__(self, index: int) -> Reply: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Reply]: ...
    def __getitem__(self, index: int | slice) -> Reply | Sequence[Reply]:
        """Return plans in the order of their arrival."""
        return self._replies[index]

    def prepend(self, replies: Sequence[Reply]) -> "PlanPool":
        """Return the pool with these plans in front: of equal ones the first is mixed, with its multipliers."""
        if not replies:
            return self
        new = PlanPool(self.program, replies)
        new._replies += self._replies
        new.f, new.left_sides = np.append(new.f, self.f), np.concatenate([new.left_sides, self.left_sides])
        new.gammas = np.concatenate([new.gammas, self.gammas])
        return new

    def fits(self, program: AffineProgram) -> bool:
        """Check whether only the limits differ from those of `program`."""
        return program.rows is self.program.rows and program.objective is self.program.objective


class Bracket(NamedTuple):
    """The images and multipliers of all plans so far, and the state of the choice of the next multiplier."""

    f: Float[np.ndarray, "k"]
    g: Float[np.ndarray, "k"]
    gammas: Float[np.ndarray, "k"]  # NaN where a plan was computed for a cost of another problem
    gamma: float  # the multiplier of the next plan
    segment: Segment
    attempts: int  # plans so far
    missed: bool  # the last plan was known
    far: bool  # a multiplier beyond the master's own has led to a plan that keeps the limit
    streak: int  # plans in a row that have replaced the same end: positive for `high`, negative for `low`


# The memory is a Bracket, or Plans where the fully corrective player has taken over.
@final
@dataclass(frozen=True)
class Bracketing(AbstractDual[AffineProgram, Any]):
    """Column generation with the next plan at the maximum of the cubic between two plans.

    With more than one row, or without a known plan that keeps the limit, the fully corrective player takes over.
    """

    def init(self, program: AffineProgram) -> Duals[Any]:
        """Return the state whose first plan is for the objective alone."""
        return _CORRECTIVE.init(program)

    def restart(self, program: AffineProgram, known: Sequence[Reply]) -> Duals[Any]:
        """Return the state at the best mixture of known plans, with the bounds that still hold."""
        pool = known if isinstance(known, PlanPool) and known.fits(program) else PlanPool(program, known)
        g = pool.left_sides - program.limits
        optimum = _take_best_bound(pool, g, program.limits.size)
        segment = find_segment(program, pool.f, g[:, 0]) if has_one_row(program) else None
        if segment is None:
            return _CORRECTIVE.resume(program, pool.f, g, optimum) or self.init(program)
        return _request_plan(
            program, Bracket(pool.f, g[:, 0], pool.gammas[:, 0], 0.0, segment, 0, False, False, 0), optimum
        )

    def step(self, program: AffineProgram, duals: Duals[Any], plan: Plan) -> Duals[Any]:
        """Add the plan to the master and solve it again."""
        memory = duals.memory
        if isinstance(memory, Plans):
            return _CORRECTIVE.step(program, duals, plan)
        f_new, g_new = program.values(plan.embedding)
        g_new = float(g_new[0])
        f, g, gammas = np.append(memory.f, f_new), np.append(memory.g, g_new), np.append(memory.gammas, memory.gamma)
        segment = find_segment(program, f, g)
        assert segment is not None  # the plan that kept the limit is still there
        missed = segment[:2] == memory.segment[:2] or bool(np.any((memory.f == f_new) & (memory.g == g_new)))
        beyond = memory.gamma > memory.segment.gamma and bool(np.isnan(memory.gammas[memory.segment.low]))
        far = beyond and g_new <= program.resolution[0]
        # The plan is the cheapest for theta, so its Lagrangian is the minimum: a dual bound. That of a step too far
        # is dropped, because its multiplier is not the price.
        bound = Bound(f_new + memory.gamma * g_new, np.array([memory.gamma]))
        optimum = bound if bound.value > duals.optimum.value and not far else duals.optimum
        streak = _count_streak(memory.streak, memory.segment, segment)
        after = Bracket(f, g, gammas, 0.0, segment, memory.attempts + 1, missed, memory.far or far, streak)
        # The master's own multiplier brought nothing new: its tangents touch up to rounding.
        return _request_plan(program, after, optimum, stalled=missed and memory.gamma == memory.segment.gamma)


_CORRECTIVE = FullyCorrective()


def _take_best_bound(pool: PlanPool, g: Float[np.ndarray, "k m"], m: int) -> Bound:
    bounds = pool.f + np.sum(pool.gammas * g, axis=1)
    if np.isnan(bounds).all():
        return Bound(-np.inf, np.zeros(m))
    best = int(np.nanargmax(bounds))
    return Bound(float(bounds[best]), pool.gammas[best])


def _count_streak(streak: int, before: Segment, after: Segment) -> int:
    low, high = before.low != after.low, before.high != after.high
    if low == high:
        return 0 if low else streak
    return max(streak, 0) + 1 if high else min(streak, 0) - 1


def _request_plan(program: AffineProgram, memory: Bracket, optimum: Bound, *, stalled: bool = False) -> Duals[Any]:
    """Return the state after this mixture, with the cost of the next plan."""
    own = memory.segment.gamma
    between = None if memory.missed or memory.attempts >= _ATTEMPTS else _choose_multiplier_between(memory)
    if between is None and np.isnan(memory.gammas[memory.segment.low]) and not memory.far:
        between = _FAR * own
    memory = memory._replace(gamma=own if between is None else between)
    weights, gamma = memory.segment.weights(memory.f.size), np.array([memory.gamma])
    return Duals(
        theta=program.theta(gamma, 1.0),
        soft=False,
        weights=weights,
        feasible=True,
        f=float(weights @ memory.f),
        g=np.array([weights @ memory.g]),
        auxiliary=np.zeros(0),
        optimum=optimum,
        conflict=Bound(0.0, np.zeros(1)),
        stalled=stalled,
        memory=memory,
        gamma=gamma,
    )


def _choose_multiplier_between(memory: Bracket) -> float | None:
    """Choose a multiplier between those of the two plans; None where these give none."""
    low, high = memory.segment.low, memory.segment.high
    # More plans keep the limit the more it costs to break it, so `high` belongs to the smaller multiplier.
    gamma_1, gamma_2 = float(memory.gammas[high]), float(memory.gammas[low])
    g_1, g_2 = float(memory.g[high]), float(memory.g[low])
    t = place_between((gamma_1, gamma_2), (memory.f[high], memory.f[low]), (g_1, g_2))
    return None if t is None else gamma_1 + _extrapolate(t, memory.streak) * (gamma_2 - gamma_1)


def _extrapolate(t: float, streak: int) -> float:
    """Move t further from its close end, so that the other end gets close as well: more so after each failure."""
    if t <= 0.5 and (streak >= 2 or t < _CLOSE):
        return min(t * (1 + 2.0 ** max(streak - 1, 0)), 0.5)
    if t > 0.5 and (streak <= -2 or t > 1 - _CLOSE):
        return max(1 - (1 - t) * (1 + 2.0 ** max(-streak - 1, 0)), 0.5)
    return t
