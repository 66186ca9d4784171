"""The search behind a conjugate without formula: the x in K with the least scale f(x) - slope.x, and a proof.

Accelerated projected gradients come first; where f has a kink at the maximiser, cutting planes through the points
visited take over. Either way every gradient is a cut, mixtures of cuts are cuts, and the best one found proves the
bound: the progress of the search decides its tightness, never its validity. (For the gradient at the point itself,
bound minus value is the Frank-Wolfe gap.)
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.convex._piecewise import MaxAffine
from bidual.problem.convex._sets import AbstractCompact

_GAP = 1e-11  # relative to the sizes that occur: the gap at which a search stops
_STEPS = 1500  # accelerated gradients before cutting planes are tried
_KINK = 1e-8  # steps below this share of the first one indicate a kink
_ROUNDS = 60  # linear programs
_PLANES = 120  # cutting planes kept


class SearchGoal(NamedTuple):
    """The data of a search: the set, f with its gradient, and the slope and scale of the conjugate."""

    K: AbstractCompact
    tangent: Callable[[np.ndarray], tuple[float, np.ndarray]]
    slope: Float[np.ndarray, "n"]
    scale: float


class SearchResult(NamedTuple):
    """The best point so far with its f and its loss, the best cut with its bound, and all cuts as (g, constant)."""

    point: Float[np.ndarray, "n"]
    value: float
    loss: float
    slope: Float[np.ndarray, "n"]
    constant: float
    bound: float
    planes: tuple[tuple[Float[np.ndarray, "n"], float], ...]
    size: float  # of the numbers that occur

    def done(self) -> bool:
        """Return whether bound and value agree to the available digits."""
        return self.bound + self.loss <= _GAP * self.size


class Tangent(NamedTuple):
    """The loss scale f - slope.x at a point, and its gradient."""

    loss: float
    slope: Float[np.ndarray, "n"]


def descend(goal: SearchGoal) -> SearchResult:
    """Run accelerated projected gradients; the step is halved while the curvature is larger (FISTA, restarted)."""
    K = goal.K
    x = y = K.center
    value, g = goal.tangent(x)
    size = float((np.abs(goal.slope) + goal.scale * np.abs(g)) @ K.reach) + goal.scale * abs(value)
    found, here = _visit(goal, SearchResult(x, math.inf, math.inf, g, 0.0, math.inf, (), size), x)
    first = step = K.diameter / max(float(np.linalg.norm(here.slope)), 1e-300)
    momentum = 1.0
    for _ in range(_STEPS):
        if found.done() or step <= _KINK * first:
            break
        ahead = K.project(y - step * here.slope)
        found, there = _visit(goal, found, ahead)
        move = ahead - y
        # Gradients keep their digits near the end, where differences of losses have none left.
        if float((there.slope - here.slope) @ move) > float(move @ move) / step:
            step /= 2
            continue
        uphill = float(here.slope @ (ahead - x)) > 0
        following = 1.0 if uphill else 0.5 * (1 + math.sqrt(1 + 4 * momentum**2))
        ratio = 0.0 if uphill else (momentum - 1) / following
        x, y, momentum = ahead, K.project(ahead + ratio * (ahead - x)), following
        found, here = (found, there) if ratio == 0.0 else _visit(goal, found, y)
        step *= 1.1
    return found


def refine(goal: SearchGoal, found: SearchResult) -> SearchResult:
    """Run cutting planes: maximise the model of all planes, repeatedly."""
    for _ in range(_ROUNDS):
        if found.done():
            break
        found = found._replace(planes=_select_highest_planes(found))
        rows, constants = np.array([g for g, _ in found.planes]), np.array([constant for _, constant in found.planes])
        try:
            model = MaxAffine(rows, constants, goal.K).cut(goal.slope, goal.scale)
        except ProblemError:  # planes too close to each other for the linear program: proven bounds stay valid
            break
        found = _keep_better_cut(goal, found, model.slope, model.constant - model.slack)
        found, _ = _visit(goal, found, model.point)
    return found


def _select_highest_planes(found: SearchResult) -> tuple[tuple[Float[np.ndarray, "n"], float], ...]:
    """Return the planes that are highest at the best point, without duplicates: a search along a kink repeats few."""
    table = np.array([np.append(g, constant) for g, constant in found.planes])
    size = max(float(np.abs(table).max()), 1e-300)
    _, once = np.unique(np.round(table / size, 10), axis=0, return_index=True)
    heights = table[once] @ np.append(found.point, 1.0)
    return tuple(found.planes[once[i]] for i in np.argsort(heights)[::-1][:_PLANES])


def _visit(goal: SearchGoal, found: SearchResult, x: Float[np.ndarray, "n"]) -> tuple[SearchResult, Tangent]:
    value, g = goal.tangent(x)
    loss, constant = goal.scale * value - float(goal.slope @ x), value - float(g @ x)
    if loss < found.loss:
        found = found._replace(point=x, value=value, loss=loss)
    found = _keep_better_cut(goal, found._replace(planes=(*found.planes, (g, constant))), g, constant)
    return found, Tangent(loss, goal.scale * g - goal.slope)


def _keep_better_cut(goal: SearchGoal, found: SearchResult, g: Float[np.ndarray, "n"], constant: float) -> SearchResult:
    """Keep the cut if it proves more."""
    bound = goal.K.support(goal.slope - goal.scale * g) - goal.scale * constant
    return found._replace(slope=g, constant=constant, bound=bound) if bound < found.bound else found
