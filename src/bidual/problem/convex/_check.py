"""Search for counterexamples to the claims of a function: convexity, finite values, the Lipschitz constant."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.convex._function import AbstractFunction
from bidual.problem.convex._sets import AbstractCompact

_DIGITS = 1e-7  # relative to the numbers compared: cone solvers give about eight digits


def check_convex(fn: AbstractFunction, *, samples: int = 100, seed: int = 0) -> None:
    """Check a function at random points and vertices of its set K.

    Values and gradients must be finite, values at midpoints at most the mean of the ends, tangents below the
    function, slopes below the Lipschitz constant (where there is one), and conjugates must obey Fenchel and Young:
    slope.x - f(x) <= conjugate(slope) everywhere, with equality at the maximiser. Samples prove nothing, but
    every counterexample is one.

    Args:
        fn: the function.
        samples: the number of pairs of points.
        seed: the seed of the points.

    Raises:
        ProblemError: with the points and numbers of a counterexample.
    """
    if samples < 1:
        raise ProblemError(f"a check needs at least one sample; got samples={samples}")
    rng = np.random.default_rng(seed)
    lipschitz = _read_lipschitz(fn)
    for _ in range(samples):
        x, y = sample(fn.K, rng), sample(fn.K, rng)
        _check_pair(fn, x, y, lipschitz)
    for _ in range(max(1, samples // 10)):
        _check_conjugate(fn, sample(fn.K, rng), sample(fn.K, rng), rng)


def sample(K: AbstractCompact, rng: np.random.Generator) -> Float[np.ndarray, "n"]:
    """Draw a vertex, or a random mixture of vertices, and move it halfway to the center half of the time."""
    count = int(rng.integers(1, 5))
    weights = rng.dirichlet(np.full(count, 0.5))
    x = weights @ np.array([K.maximiser(rng.normal(size=K.size)) for _ in range(count)])
    return x if rng.random() < 0.5 else 0.5 * (x + K.center)


def _read_lipschitz(fn: AbstractFunction) -> float:
    try:
        return fn.lipschitz
    except ProblemError:  # none is declared, so there is none to check
        return math.inf


def _check_pair(fn: AbstractFunction, x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"], lipschitz: float) -> None:
    middle = 0.5 * (x + y)
    at_x, at_y, at_middle = (
        _evaluate_finite(fn.value, x),
        _evaluate_finite(fn.value, y),
        _evaluate_finite(fn.value, middle),
    )
    room = _DIGITS * (1 + abs(at_x) + abs(at_y) + abs(at_middle))
    if at_middle > 0.5 * (at_x + at_y) + room:
        raise ProblemError(
            f"the function is not convex: between x = {_list(x)} with f(x) = {at_x:.10g} and y = {_list(y)} with "
            f"f(y) = {at_y:.10g} its value at the midpoint is {at_middle:.10g}, above their mean "
            f"{0.5 * (at_x + at_y):.10g}"
        )
    g = fn.gradient(x)
    if not np.all(np.isfinite(g)):
        raise ProblemError(f"the gradient at x = {_list(x)} is {_list(g)}; it must be finite on all of K")
    below = at_x + float(g @ (y - x))
    if at_y < below - room - _DIGITS * float(np.abs(g) @ np.abs(y - x)):
        raise ProblemError(
            f"the function is not convex, or its gradient is wrong: the tangent at x = {_list(x)}, with "
            f"f(x) = {at_x:.10g} and gradient {_list(g)}, is {below:.10g} at y = {_list(y)}, above f(y) = {at_y:.10g}"
        )
    distance = float(np.linalg.norm(x - y))
    if abs(at_x - at_y) > lipschitz * distance + room:
        raise ProblemError(
            f"the Lipschitz constant {lipschitz:.10g} is too small: f = {at_x:.10g} at x = {_list(x)} and {at_y:.10g} "
            f"at y = {_list(y)}, which is a slope of {abs(at_x - at_y) / distance:.10g}"
        )


def _check_conjugate(
    fn: AbstractFunction, x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"], rng: np.random.Generator
) -> None:
    """Raise `ProblemError` where a point of K lies above the bound of the conjugate."""
    slope = fn.gradient(x) + rng.normal(size=x.size) * float(rng.random())
    bound, best = fn.conjugate(slope), fn.conjugate_argmax(slope)
    room = _DIGITS * (1 + float(np.abs(slope) @ fn.K.reach) + abs(bound))
    for point in (x, y):
        reached = float(slope @ point) - _evaluate_finite(fn.value, point)
        if reached > bound + room:
            raise ProblemError(
                f"the function is not convex, or its conjugate is wrong: slope.x - f(x) = {reached:.10g} at "
                f"x = {_list(point)} exceeds the conjugate {bound:.10g} of the slope {_list(slope)}"
            )
    reached = float(slope @ best) - _evaluate_finite(fn.value, best)
    # The maximiser of a function without formula is found by a search; 10 times the digits leave it room.
    if bound > reached + 10 * room:
        raise ProblemError(
            f"the conjugate of the slope {_list(slope)} is only known to lie between {reached:.10g}, reached at "
            f"x = {_list(best)}, and {bound:.10g}: the function is not convex, or hard to maximise over"
        )


def _evaluate_finite(value: Callable[[np.ndarray], float], x: Float[np.ndarray, "n"]) -> float:
    number = value(x)
    if not math.isfinite(number):
        raise ProblemError(f"the function is {number} at x = {_list(x)}; it must be finite on all of K")
    return number


def _list(x: Float[np.ndarray, "n"]) -> str:
    return np.array2string(x, precision=6, separator=", ", threshold=8)
