"""Euclidean distances, as functions on K: to a point (also squared), to a box, to a ball.

Their conjugates need one root of one number. With d the distance, x(p) = argmax over K of p slope.x - d(x)^2 / 2 runs
along the frontier between a large slope.x and a small d(x), and at d(x(p)) = scale p it maximises slope.x - scale d(x)
itself: there the slope of the frontier is d / p = scale.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex._cones import EPS
from bidual.problem.convex._function import AbstractFunction, Cut
from bidual.problem.convex._sets import AbstractCompact
from bidual.problem.convex._vectors import check_number, check_vector

_LAST_BIT = 4 * EPS
_SPAN = 1e-40  # roots below this share of the largest one are 0: the maximiser is at the kink


@final
@dataclass(frozen=True, eq=False)
class SquaredDistance(AbstractFunction):
    """weight * |x - target|^2."""

    __repr__ = describe_briefly

    target: Float[np.ndarray, "n"]
    K: AbstractCompact
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a target of another size and a weight that is not positive."""
        check_vector(self.target, self.K.size, "the target")
        check_number(self.weight, "the weight", positive=True)

    @property
    def lipschitz(self) -> float:
        """The norm of the gradient at the farthest point."""
        return 2 * self.weight * self.K.farthest(self.target)

    @property
    def largest(self) -> float:
        """The value at the point farthest from the target."""
        return self.weight * self.K.farthest(self.target) ** 2

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return self.weight * float(np.sum((x - self.target) ** 2))

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return 2 * self.weight * (x - self.target)

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the cut at the target moved by the slope, in K."""
        x, excess = self.K.nearest(slope / (2 * scale * self.weight), self.target, self.target)
        # w |y - t|^2 >= 2 w e.(y - t) - w |e|^2 for every e.
        g = 2 * self.weight * excess
        constant = -float(g @ self.target) - self.weight * float(excess @ excess)
        size = float(np.abs(g) @ np.abs(self.target)) + self.weight * float(excess @ excess)
        return Cut(x, g, constant, (x.size + 8) * EPS * size)


@final
@dataclass(frozen=True, eq=False)
class DistanceToBox(AbstractFunction):
    """The Euclidean distance to {x: lower <= x <= upper}; bounds may be infinite."""

    __repr__ = describe_briefly

    lower: Float[np.ndarray, "n"]
    upper: Float[np.ndarray, "n"]
    K: AbstractCompact

    def __post_init__(self) -> None:
        """Refuse an empty box, a box of another size, and NaN."""
        for bound, what in ((self.lower, "the box's lower bound"), (self.upper, "the box's upper bound")):
            check_vector(bound, self.K.size, what, finite=False)
        for i in np.flatnonzero(~(self.lower <= self.upper) | (self.lower == np.inf) | (self.upper == -np.inf)):
            raise ProblemError(f"the box is empty: its bounds on entry {i} are {self.lower[i]} and {self.upper[i]}")

    @property
    def lipschitz(self) -> float:
        """The constant 1, as for every distance."""
        return 1.0

    @property
    def largest(self) -> float:
        """The value at a corner of the bounds of K."""
        least, most = self.K.bounds
        return float(np.linalg.norm(np.maximum(0.0, np.maximum(most - self.upper, self.lower - least))))

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return float(np.linalg.norm(self._compute_excess(x)))

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return _normalise_direction(self._compute_excess(x))

    def _compute_excess(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return np.maximum(x - self.upper, 0.0) + np.minimum(x - self.lower, 0.0)

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the cut at the root, with the box's own support function."""
        lower, upper = self._replace_infinite()
        x, g, _ = _solve_at_root(self.K, slope, scale, lower, upper, self.largest)
        # dist(y) = max over |g| <= 1 of g.y - max over z in the box of g.z
        terms = np.maximum(g * lower, g * upper)
        return Cut(x, g, -float(np.sum(terms)), (x.size + 8) * EPS * float(np.abs(terms).sum()))

    def _replace_infinite(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Return the box with infinite bounds replaced by those of K: on K the distance is the same."""
        least, most = self.K.bounds
        lower = np.where(np.isinf(self.lower), np.minimum(least, self.upper), self.lower)
        return lower, np.where(np.isinf(self.upper), np.maximum(most, lower), self.upper)


@final
@dataclass(frozen=True, eq=False)
class Distance(AbstractFunction):
    """The Euclidean distance |x - target|."""

    __repr__ = describe_briefly

    target: Float[np.ndarray, "n"]
    K: AbstractCompact

    def __post_init__(self) -> None:
        """Refuse a target of another size."""
        check_vector(self.target, self.K.size, "the target")

    @property
    def lipschitz(self) -> float:
        """The constant 1, as for every distance."""
        return 1.0

    @property
    def largest(self) -> float:
        """The value at the point farthest from the target."""
        return self.K.farthest(self.target)

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return float(np.linalg.norm(x - self.target))

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return _normalise_direction(x - self.target)

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the cut at the root."""
        x, g, _ = _solve_at_root(self.K, slope, scale, self.target, self.target, self.largest)
        return _cut_ball(x, g, self.target, 0.0)


@final
@dataclass(frozen=True, eq=False)
class DistanceToBall(AbstractFunction):
    """The Euclidean distance to {x: |x - center| <= radius}."""

    __repr__ = describe_briefly

    center: Float[np.ndarray, "n"]
    radius: float
    K: AbstractCompact

    def __post_init__(self) -> None:
        """Refuse a center of another size and a radius below 0."""
        check_vector(self.center, self.K.size, "the center")
        check_number(self.radius, "the radius")

    @property
    def lipschitz(self) -> float:
        """The constant 1, as for every distance."""
        return 1.0

    @property
    def largest(self) -> float:
        """The value at the point farthest from the center."""
        return max(0.0, self.K.farthest(self.center) - self.radius)

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return max(0.0, float(np.linalg.norm(x - self.center)) - self.radius)

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        away = x - self.center
        return _normalise_direction(away) if np.linalg.norm(away) > self.radius else np.zeros_like(x)

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the cut at the root, or inside the ball where that is better."""
        center, reach = self.center, self.K.farthest(self.center)
        x, g, p = _solve_at_root(self.K, slope, scale, center, center, reach)
        if scale * p >= self.radius:
            return _cut_ball(x, g, center, self.radius)
        # Inside the ball distance costs nothing: on along the frontier, to the sphere or to the best of K.
        end = self._find_end(slope, p)
        x, excess = self._at(slope, end)
        if np.linalg.norm(excess) < self.radius:
            return Cut(x, np.zeros_like(x), 0.0, 0.0)
        p = find_root(lambda p: float(np.linalg.norm(self._at(slope, p)[1])) - self.radius, p, end)
        x, excess = self._at(slope, p)
        return _cut_ball(x, excess / (scale * p), center, self.radius)

    def _at(self, slope: Float[np.ndarray, "n"], p: float) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        return self.K.nearest(p * slope, self.center, self.center)

    def _find_end(self, slope: Float[np.ndarray, "n"], start: float) -> float:
        """Find a p whose point is outside the ball, or optimal in K to rounding (some p is, for K is a polyhedron)."""
        best = self.K.support(slope) - 8 * EPS * float(np.abs(slope) @ self.K.reach)
        p = start
        for _ in range(100):
            x, excess = self._at(slope, p)
            if np.linalg.norm(excess) >= self.radius or float(slope @ x) >= best:
                break
            p *= 16.0
        return p


def _normalise_direction(vector: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Return the unit vector, and 0 at the kink, where 0 is a subgradient of every distance."""
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 0 else np.zeros_like(vector)


def _cut_ball(x: Float[np.ndarray, "n"], g: Float[np.ndarray, "n"], center: Float[np.ndarray, "n"], r: float) -> Cut:
    """Return the cut of one g in dist(y) = max over |g| <= 1 of g.(y - center) - radius |g|."""
    terms = np.append(g * center, r * float(np.linalg.norm(g)))
    return Cut(x, g, -float(terms.sum()), (x.size + 8) * EPS * float(np.abs(terms).sum()))


def _solve_at_root(
    K: AbstractCompact,
    slope: Float[np.ndarray, "n"],
    scale: float,
    lower: Float[np.ndarray, "n"],
    upper: Float[np.ndarray, "n"],
    reach: float,
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], float]:
    """Return the maximiser of slope.x - scale * distance to [lower, upper], its slope g, |g| <= 1, and the root p."""
    end = 2 * (reach or 1.0) / scale  # no point of K is farther away than `reach`, rounding included
    p = find_root(lambda p: scale * p - float(np.linalg.norm(K.nearest(p * slope, lower, upper)[1])), _SPAN * end, end)
    x, excess = K.nearest(p * slope, lower, upper)
    # Where p is at its least the maximiser is at the kink, and the excess still determines the subgradient.
    return x, excess / max(scale * p, float(np.linalg.norm(excess))), p


def find_root(gain: Callable[[float], float], low: float, high: float) -> float:
    """Find the sign change of `gain`, to the last bit; return `low` where there is none.

    Geometric steps until the ends differ by a factor of 4 only, because roots may be many orders below `high`; then
    Brent's method.
    """
    at_high = gain(high)
    if at_high == 0:
        return high
    if gain(low) * at_high >= 0:
        return low
    while high > 4 * low:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if gain(middle) * at_high > 0 else (middle, high)
    answer = root_scalar(gain, bracket=(low, high), method="brentq", xtol=_LAST_BIT * low, rtol=_LAST_BIT)
    return float(answer.root)
