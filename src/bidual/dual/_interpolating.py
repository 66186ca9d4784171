"""The dual player of problems with one limit: two ways to the multiplier, in turns.

The dual function d(gamma) = min over policies of f + gamma g is a function of one number, and every plan gives a value
and a slope of it. Where the best mixture is of two plans, their tangents meet at the master's own multiplier: on a
function with few corners that is where the maximum is, after as many plans as there are corners on the way. Over many
states there are so many corners that d is next to smooth, and the maximum of the cubic through both values and both
slopes is far nearer (at 10 000 states 6 plans in place of 12). So the cubic is asked as long as that closes the gap
fourfold with every plan, and the tangents whenever it does not, which ends on every piecewise linear function.

The first plan is for the objective alone. If it breaks the limit, the next multiplier is half of what the plan earns
for each unit of what it pays, then ten times that. If the limit is still broken, the fully corrective player takes
over, which proves a clash if there is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.dual._base import AbstractDual, Bound, Duals, Reply, read_image
from bidual.dual._fully_corrective import FullyCorrective, Plans, list_origins
from bidual.dual._segment import Segment, find_segment, has_one_row, place_between
from bidual.planners import Plan
from bidual.problem.convex import AffineProgram

_SHARE = 0.5  # of what is earned for each unit that is paid
_GROWTH = 10.0  # from one guess to the next
_GUESSES = 2
_PROGRESS = 0.25  # of the gap before: a cubic that leaves more gives way to the tangents


class Crossing(NamedTuple):
    """The images and multipliers of all plans so far, and the state of the choice of the next multiplier."""

    f: Float[np.ndarray, "k"]
    g: Float[np.ndarray, "k"]
    gammas: Float[np.ndarray, "k"]  # NaN where a plan was computed for a cost of another problem
    gamma: float  # the multiplier of the next plan
    guesses: int
    gap: float  # after the last plan
    cubic: bool  # whether the next multiplier is that of the cubic
    pair: tuple[int, int]  # the plans that are mixed


@final
@dataclass(frozen=True)
class Interpolating(AbstractDual[AffineProgram, Any]):
    """Column generation at the maximum of a cubic in turns with the multiplier of the master.

    With another number of rows, an equality, or a limit that guesses do not meet, the fully corrective player takes
    over.
    """

    def init(self, program: AffineProgram) -> Duals[Any]:
        """Return the state whose first plan is for the objective alone."""
        if not has_one_row(program):
            return _CORRECTIVE.init(program)
        nothing = np.zeros(0)
        memory = Crossing(nothing, nothing, nothing, 0.0, 0, np.inf, False, (-1, -1))
        return _build_state(program, memory, None, Bound(-np.inf, np.zeros(1)), stalled=False)

    def restart(self, program: AffineProgram, known: Sequence[Reply]) -> Duals[Any]:
        """Return the state at the best mixture of known plans, with the bounds that still hold."""
        images = [read_image(program, reply.plan) for reply in known]
        gammas, fits = list_origins(program, known)
        if not has_one_row(program):
            return _CORRECTIVE.restart(program, known)
        f, g = np.array([image[0] for image in images]), np.array([image[1][0] for image in images])
        gammas = np.where(fits, gammas[:, 0], np.nan)
        bounds = f + gammas * g
        best = -1 if np.isnan(bounds).all() else int(np.nanargmax(bounds))
        optimum = Bound(-np.inf, np.zeros(1)) if best < 0 else Bound(float(bounds[best]), gammas[best : best + 1])
        return self.resume(program, f, g, gammas, optimum)

    def resume(
        self,
        program: AffineProgram,
        f: Float[np.ndarray, "k"],
        g: Float[np.ndarray, "k"],
        gammas: Float[np.ndarray, "k"],
        optimum: Bound,
    ) -> Duals[Any]:
        """Return the state of plans with these images and multipliers, and of this bound."""
        return _choose(program, Crossing(f, g, gammas, 0.0, 0, np.inf, False, (-1, -1)), optimum)

    def step(self, program: AffineProgram, duals: Duals[Any], plan: Plan) -> Duals[Any]:
        """Add the plan to the master and choose the next multiplier."""
        memory = duals.memory
        if isinstance(memory, Plans):
            return _CORRECTIVE.step(program, duals, plan)
        f_new, (g_new,) = read_image(program, plan)
        # The plan is the cheapest for theta, so its Lagrangian is the minimum: a dual bound.
        bound = Bound(float(f_new + memory.gamma * g_new), np.array([memory.gamma]))
        optimum = bound if bound.value > duals.optimum.value else duals.optimum
        known = bool(np.any((memory.f == f_new) & (memory.g == g_new)))
        after = memory._replace(
            f=np.append(memory.f, f_new), g=np.append(memory.g, g_new), gammas=np.append(memory.gammas, memory.gamma)
        )
        return _choose(program, after, optimum, known=known)


_CORRECTIVE = FullyCorrective()


def _choose(program: AffineProgram, memory: Crossing, optimum: Bound, *, known: bool = False) -> Duals[Any]:
    """Return the state after these plans, with the next multiplier."""
    segment = find_segment(program, memory.f, memory.g)
    if segment is None:
        return _guess(program, memory, optimum)
    value = float(segment.weights(memory.f.size) @ memory.f)
    gap = value - optimum.value
    # The tangents brought nothing new: they touch up to rounding.
    stalled = not memory.cubic and (known or segment[:2] == memory.pair) and memory.gamma == segment.gamma
    helps = memory.pair == (-1, -1) or not memory.cubic or gap <= _PROGRESS * memory.gap
    between = _between(memory, segment) if helps and not known else None
    gamma = float(segment.gamma if between is None else between)
    memory = memory._replace(gamma=gamma, gap=gap, cubic=between is not None, pair=segment[:2])
    return _build_state(program, memory, segment, optimum, stalled=stalled)


def _guess(program: AffineProgram, memory: Crossing, optimum: Bound) -> Duals[Any]:
    """Return the state with a larger multiplier, while no plan keeps the limit; else that of the corrective player."""
    tried = np.nanmax(memory.gammas, initial=0.0)
    earned, spent = abs(float(memory.f[0]) - program.offset), abs(float(memory.g[0] + program.limits[0]))
    start = _SHARE * earned / spent if spent > 0 else 0.0
    gamma = float(max(_GROWTH * tried, start))
    if memory.guesses == _GUESSES or not (np.isfinite(gamma) and gamma > tried):
        resumed = _CORRECTIVE.resume(program, memory.f, memory.g[:, None], optimum)
        return _CORRECTIVE.init(program) if resumed is None else resumed
    return _build_state(program, memory._replace(gamma=gamma, guesses=memory.guesses + 1), None, optimum, stalled=False)


def _between(memory: Crossing, segment: Segment) -> float | None:
    """Return the multiplier at the maximum of the cubic through the two plans; None where it gives no new one."""
    low, high = segment.low, segment.high
    ends = float(memory.gammas[high]), float(memory.gammas[low])
    share = place_between(ends, (memory.f[high], memory.f[low]), (memory.g[high], memory.g[low]))
    found = None if share is None else ends[0] + share * (ends[1] - ends[0])
    return None if found is None or found in memory.gammas else found


def _build_state(
    program: AffineProgram, memory: Crossing, segment: Segment | None, optimum: Bound, *, stalled: bool
) -> Duals[Any]:
    """Return the state with this mixture; without one, the last plan stands for it."""
    k = memory.f.size
    weights = np.eye(1, k, k - 1)[0] if segment is None else segment.weights(k)
    return Duals(
        theta=program.theta(np.array([memory.gamma]), 1.0),
        soft=False,
        weights=weights,
        feasible=segment is not None,
        f=float(weights @ memory.f) if k else np.inf,
        g=np.array([weights @ memory.g]),
        auxiliary=np.zeros(0),
        optimum=optimum,
        conflict=Bound(0.0, np.zeros(1)),
        stalled=stalled,
        memory=memory,
        gamma=np.array([memory.gamma]),
    )
