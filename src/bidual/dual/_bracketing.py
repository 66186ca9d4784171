"""The dual player of price curves: many problems that differ in one limit, over one pool of plans.

The dual function of such a family is d(gamma) = min over policies of f + gamma . (rows . Psi), less gamma . limits, and
only the last term knows the limit. So every plan gives a value and a slope of d at every limit, and by the time a
limit is looked at, there are plans on both sides of its multiplier. The master mixes two of them, made for gamma_1 and
gamma_2. Its own multiplier is where their two tangents meet: about half-way, wherever the maximum is. The cubic
through both values and both slopes knows better, and its maximum is asked for instead. Where that plan is not new, d
has a corner between the two, and the master's own multiplier is asked for next: there it is exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final, overload

import numpy as np
from jaxtyping import Float

from bidual.convex import AffineProgram
from bidual.dual._base import AbstractDual, Bound, Duals, Reply
from bidual.dual._fully_corrective import FullyCorrective, Plans, origins
from bidual.dual._segment import Segment, best_segment
from bidual.planners import Plan

_ATTEMPTS = 6  # plans at one limit; then the master's own multipliers, which end on every piecewise linear function
_CLOSE = 0.1  # so close to one end, as a share of the way, the other end is as good as never replaced: go beyond
_FAR = 4.0  # of the master's own multiplier, where the plan that keeps the limit was made for the limit alone


@final
class Pool(Sequence[Reply]):
    """Plans with their images, which are the same at every limit."""

    def __init__(self, program: AffineProgram, replies: Sequence[Reply]) -> None:
        self.program, self._replies = program, tuple(replies)
        m, size = program.limits.size, program.objective.size
        matrix = np.concatenate([program.objective.reshape(1, size), program.rows.reshape(m, size)])
        images = np.array([matrix @ r.plan.embedding.reshape(size) for r in self._replies]).reshape(-1, m + 1)
        self.f, self.paid = images[:, 0] + program.offset, images[:, 1:]
        gammas, fits = origins(program, self._replies)
        self.gammas = np.where(fits[:, None], gammas, np.nan)

    def __len__(self) -> int:
        return len(self._replies)

    @overload
    def __getitem__(self, index: int) -> Reply: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Reply]: ...
    def __getitem__(self, index: int | slice) -> Reply | Sequence[Reply]:
        """The plans in the order they came."""
        return self._replies[index]

    def joined(self, replies: Sequence[Reply]) -> "Pool":
        """The pool with these plans in front: of equal plans the first is mixed, and their multipliers are known."""
        if not replies:
            return self
        new = Pool(self.program, replies)
        new._replies += self._replies
        new.f, new.paid = np.append(new.f, self.f), np.concatenate([new.paid, self.paid])
        new.gammas = np.concatenate([new.gammas, self.gammas])
        return new

    def fits(self, program: AffineProgram) -> bool:
        """Whether only the limits differ from those of `program`."""
        return program.rows is self.program.rows and program.objective is self.program.objective


class Bracket(NamedTuple):
    """The images of all plans so far and the multipliers they were made for, and how the next were chosen."""

    f: Float[np.ndarray, "k"]
    g: Float[np.ndarray, "k"]
    gammas: Float[np.ndarray, "k"]  # NaN where a plan was made for a cost of another problem
    gamma: float  # the multiplier the next plan is made for
    segment: Segment
    attempts: int  # plans so far
    missed: bool  # the last plan was known
    far: bool  # a multiplier beyond the master's own has led to a plan that keeps the limit
    sided: int  # plans in a row that have replaced the same end: positive for `high`, negative for `low`


# The memory is a Bracket, or Plans where the fully corrective player has taken over.
@final
@dataclass(frozen=True)
class Bracketing(AbstractDual[AffineProgram, Any]):
    """Column generation that asks where the cubic between two plans has its maximum.

    Where there is more than one row, or no known plan keeps the limit, the fully corrective player takes over.
    """

    def init(self, program: AffineProgram) -> Duals[Any]:
        """Start from the objective alone."""
        return _CORRECTIVE.init(program)

    def restart(self, program: AffineProgram, known: Sequence[Reply]) -> Duals[Any]:
        """Start from the best mixture of known plans, with the bounds that still hold."""
        pool = known if isinstance(known, Pool) and known.fits(program) else Pool(program, known)
        g = pool.paid - program.limits
        optimum = _best_bound(pool, g, program.limits.size)
        segment = _segment(program, pool.f, g[:, 0]) if _one_row(program) else None
        if segment is None:
            return _CORRECTIVE.resume(program, pool.f, g, optimum) or self.init(program)
        return _asked(program, Bracket(pool.f, g[:, 0], pool.gammas[:, 0], 0.0, segment, 0, False, False, 0), optimum)

    def step(self, program: AffineProgram, duals: Duals[Any], plan: Plan) -> Duals[Any]:
        """Add the plan and mix again."""
        memory = duals.memory
        if isinstance(memory, Plans):
            return _CORRECTIVE.step(program, duals, plan)
        f_new, g_new = program.values(plan.embedding)
        g_new = float(g_new[0])
        f, g, gammas = np.append(memory.f, f_new), np.append(memory.g, g_new), np.append(memory.gammas, memory.gamma)
        segment = _segment(program, f, g)
        assert segment is not None  # the plan that kept the limit is still there
        missed = segment[:2] == memory.segment[:2] or bool(np.any((memory.f == f_new) & (memory.g == g_new)))
        beyond = memory.gamma > memory.segment.gamma and bool(np.isnan(memory.gammas[memory.segment.low]))
        far = beyond and g_new <= program.resolution[0]
        # The plan is the cheapest for theta, so its Lagrangian is the minimum: a dual bound. That of a step too far
        # is not taken, for its multiplier is not the price.
        bound = Bound(f_new + memory.gamma * g_new, np.array([memory.gamma]))
        optimum = bound if bound.value > duals.optimum.value and not far else duals.optimum
        sided = _sided(memory.sided, memory.segment, segment)
        after = Bracket(f, g, gammas, 0.0, segment, memory.attempts + 1, missed, memory.far or far, sided)
        # The master's own multiplier brought nothing new: its tangents touch, or arithmetic sees no more.
        return _asked(program, after, optimum, stalled=missed and memory.gamma == memory.segment.gamma)


_CORRECTIVE = FullyCorrective()


def _one_row(program: AffineProgram) -> bool:
    return program.limits.size == 1 and not program.equality[0]


def _best_bound(pool: Pool, g: Float[np.ndarray, "k m"], m: int) -> Bound:
    bounds = pool.f + np.sum(pool.gammas * g, axis=1)
    if np.isnan(bounds).all():
        return Bound(-np.inf, np.zeros(m))
    best = int(np.nanargmax(bounds))
    return Bound(float(bounds[best]), pool.gammas[best])


def _segment(program: AffineProgram, f: Float[np.ndarray, "k"], g: Float[np.ndarray, "k"]) -> Segment | None:
    # What cannot be told from 0 keeps the limit.
    return best_segment(f, np.where(np.abs(g) <= program.resolution[0], 0.0, g))


def _sided(sided: int, before: Segment, after: Segment) -> int:
    low, high = before.low != after.low, before.high != after.high
    if low == high:
        return 0 if low else sided
    return max(sided, 0) + 1 if high else min(sided, 0) - 1


def _asked(program: AffineProgram, memory: Bracket, optimum: Bound, *, stalled: bool = False) -> Duals[Any]:
    """The state after this mixture: where the next plan is wanted."""
    own = memory.segment.gamma
    between = None if memory.missed or memory.attempts >= _ATTEMPTS else _between(memory)
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


def _between(memory: Bracket) -> float | None:
    """A multiplier between those of the two plans; None where these say nothing."""
    low, high = memory.segment.low, memory.segment.high
    # More plans keep the limit the more it costs to break it, so `high` was made for the smaller multiplier.
    gamma_1, gamma_2 = float(memory.gammas[high]), float(memory.gammas[low])
    g_1, g_2 = float(memory.g[high]), float(memory.g[low])
    way = gamma_2 - gamma_1
    if not (way > 0 and g_1 > 0 > g_2):  # NaN too
        return None
    rise = float(memory.f[low] + gamma_2 * g_2 - memory.f[high] - gamma_1 * g_1)
    t = _top(g_1 * way, g_2 * way, rise)
    return gamma_1 + _beyond(t, memory.sided) * way


def _top(slope_1: float, slope_2: float, rise: float) -> float:
    """Where between 0 and 1 a cubic with these slopes at the ends, and this rise between them, is highest."""
    # Its slope is slope_1 + b t + c t^2: positive at 0 and negative at 1, so it has one root between them.
    c = 3 * (slope_1 + slope_2) - 6 * rise
    b = slope_2 - slope_1 - c
    q = -0.5 * (b + math.copysign(math.sqrt(max(b * b - 4 * slope_1 * c, 0.0)), b))
    roots = [slope_1 / q if q else math.inf, q / c if c else math.inf]
    return next((t for t in roots if 0 < t < 1), 0.5)


def _beyond(t: float, sided: int) -> float:
    """Further from the end that is close, so that the other will be close as well: more so after each failure."""
    if t <= 0.5 and (sided >= 2 or t < _CLOSE):
        return min(t * (1 + 2.0 ** max(sided - 1, 0)), 0.5)
    if t > 0.5 and (sided <= -2 or t > 1 - _CLOSE):
        return max(1 - (1 - t) * (1 + 2.0 ** max(-sided - 1, 0)), 0.5)
    return t
