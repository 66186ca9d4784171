"""Convex sets for `feasibility`: functions from a point, a CVXPY variable, to the constraints that hold it inside.

All compare entry by entry: arrays must have the shape of the point or broadcast to it. Where the distance to a set is a
function in closed form, the set gives that, and the problem needs no variable for the nearest point.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

import cvxpy as cp
import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual._base.spelling import list_possible
from bidual.tasks.problems._declare import Number, Written, check_named, is_number

Members = cp.Constraint | Sequence[Written] | Mapping[str, Written]
Distance = Literal["l2", "l1", "linf", "squared"]

_NORMS: dict[str, Callable[[cp.Expression], cp.Expression]] = {
    "l2": cp.norm,
    "l1": cp.norm1,
    "linf": cp.norm_inf,
    "squared": cp.sum_squares,
}
_DUAL_NORMS = {"l2": 2, "l1": np.inf, "linf": 1, "squared": 2}  # of a face's normal, by which its distance is measured


def measure_vector(distance: str, difference: cp.Expression) -> cp.Expression:
    """Return the norm of that name (or the sum of squares) of a vector, or of a matrix row by row as a vector."""
    if not isinstance(distance, str) or distance not in _NORMS:
        raise ProblemError(f"there is no distance {distance!r}{list_possible(distance, _NORMS)}")
    return _NORMS[distance](cp.vec(difference, order="C"))  # as a vector: norms of matrices are something else


class AbstractSet(abc.ABC):
    """A convex set: constraints on a point, and where there is a closed form the distance to it."""

    @abc.abstractmethod
    def __call__(self, v: cp.Variable) -> Members:
        """Return the constraints that hold a point inside."""

    @abc.abstractmethod
    def distance(self, y: cp.Expression, distance: Distance) -> cp.Expression | None:
        """Return the distance from y to the set; None where it takes a variable for the nearest point."""


ConvexSet = AbstractSet | Callable[[cp.Variable], Members]


@final
@dataclass(frozen=True, eq=False)
class BoxSet(AbstractSet):
    """The points between two others."""

    __repr__ = describe_briefly

    lower: float | Float[np.ndarray, "..."]
    upper: float | Float[np.ndarray, "..."]

    def __call__(self, v: cp.Variable) -> dict[str, Written]:
        """Return one constraint for each end that is finite somewhere."""
        least, most = self._read_ends(v)
        entries, named = cp.vec(v, order="C"), {}
        if np.isfinite(least).any():
            named["lower"] = entries[np.isfinite(least)] >= least[np.isfinite(least)]
        if np.isfinite(most).any():
            named["upper"] = entries[np.isfinite(most)] <= most[np.isfinite(most)]
        return named

    def distance(self, y: cp.Expression, distance: Distance) -> cp.Expression | None:
        """Return the norm of what every entry is beyond its ends; |y - middle| - half, where there are both.

        Each entry of y occurs once, so that the problem has no more numbers than y.
        """
        least, most = self._read_ends(y)
        y, beyond = cp.vec(y, order="C"), []
        both = np.isfinite(least) & np.isfinite(most)
        if both.any():
            middle, half = (most[both] + least[both]) / 2, (most[both] - least[both]) / 2
            beyond.append(cp.pos(cp.abs(_select(y, both) - middle) - half))
        for sign, end in ((1.0, most), (-1.0, least)):
            alone = np.isfinite(end) & ~both
            if alone.any():
                beyond.append(cp.pos(sign * (_select(y, alone) - end[alone])))
        if not beyond:
            return None
        return measure_vector(distance, beyond[0] if len(beyond) == 1 else cp.hstack(beyond))

    def _read_ends(self, y: cp.Expression) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        least, most = _fit("box", "lower", self.lower, y), _fit("box", "upper", self.upper, y)
        if np.any(least > most):
            raise ProblemError("box is empty: an entry of lower is above that of upper; exchange them?")
        return least, most


@final
@dataclass(frozen=True, eq=False)
class BallSet(AbstractSet):
    """The points within a Euclidean distance of a centre."""

    __repr__ = describe_briefly

    centre: Float[np.ndarray, "..."]
    radius: float

    def __call__(self, v: cp.Variable) -> dict[str, Written]:
        """Return the constraint on the norm."""
        return {"ball": cp.norm(self._subtract_centre(v)) <= self.radius}

    def distance(self, y: cp.Expression, distance: Distance) -> cp.Expression | None:
        """Return the distance from the centre beyond the radius, for Euclidean distances; other balls have corners."""
        if self.radius == 0:
            return measure_vector(distance, self._subtract_centre(y))
        if distance not in ("l2", "squared"):
            return None
        beyond = cp.pos(cp.norm(self._subtract_centre(y)) - self.radius)
        return cp.square(beyond) if distance == "squared" else beyond

    def _subtract_centre(self, y: cp.Expression) -> cp.Expression:
        return cp.vec(y, order="C") - _fit("ball", "centre", self.centre, y)


@final
@dataclass(frozen=True, eq=False)
class PolyhedronSet(AbstractSet):
    """The points v with A v <= b."""

    __repr__ = describe_briefly

    A: Float[np.ndarray, "faces n"]
    b: Float[np.ndarray, "faces"]

    def __call__(self, v: cp.Variable) -> dict[str, Written]:
        """Return one constraint, of all faces."""
        return {"faces": self._apply(v) <= self.b}

    def distance(self, y: cp.Expression, distance: Distance) -> cp.Expression | None:
        """Return what a half-space's one inequality is off by, over the dual norm of its normal."""
        if len(self.A) != 1 or distance not in _DUAL_NORMS or not self.A.any():
            return None
        beyond = cp.pos((self._apply(y)[0] - self.b[0]) / np.linalg.norm(self.A[0], _DUAL_NORMS[distance]))
        return cp.square(beyond) if distance == "squared" else beyond

    def _apply(self, y: cp.Expression) -> cp.Expression:
        if self.A.shape[1] != y.size:
            raise ProblemError(f"polyhedron: A has {self.A.shape[1]} columns, but the embedding has {y.size} entries")
        return self.A @ cp.vec(y, order="C")


@final
@dataclass(frozen=True, eq=False)
class HullSet(AbstractSet):
    """The mixtures of points."""

    __repr__ = describe_briefly

    corners: Float[np.ndarray, "k *shape"]

    def __call__(self, v: cp.Variable) -> dict[str, Written]:
        """Return the point as a mixture, whose shares are a variable of their own."""
        self._check(v)
        share = cp.Variable(len(self.corners), name="share", nonneg=True)
        mixed = self.corners.reshape(len(self.corners), -1).T @ share
        return {"hull": cp.vec(v, order="C") == mixed, "shares": cp.sum(share) == 1}

    def distance(self, y: cp.Expression, distance: Distance) -> cp.Expression | None:
        """Return the distance to a single point."""
        self._check(y)
        return measure_vector(distance, y - self.corners[0]) if len(self.corners) == 1 else None

    def _check(self, y: cp.Expression) -> None:
        shape = self.corners.shape[1:]
        if shape != y.shape:
            raise ProblemError(f"hull: each point has shape {shape}, but the embedding has {y.shape}")


def box(lower: ArrayLike | Number | None = None, upper: ArrayLike | Number | None = None) -> AbstractSet:
    """Return the points between `lower` and `upper`; None or an infinite entry is no bound."""
    if lower is None and upper is None:
        raise ProblemError("box needs lower, upper or both: without them every point is inside")
    low = -np.inf if lower is None else _read_numbers("box", "lower", lower)
    high = np.inf if upper is None else _read_numbers("box", "upper", upper)
    return BoxSet(low, high)


def ball(centre: ArrayLike | Number, radius: Number) -> AbstractSet:
    """Return the points whose Euclidean distance from `centre` is at most `radius`."""
    if not (is_number(radius) and 0 <= radius < np.inf):
        raise ProblemError(f"ball: the radius must be a number, at least 0; got {radius!r}")
    return BallSet(_require_finite("ball", "centre", centre), float(radius))


def polyhedron(A: ArrayLike, b: ArrayLike) -> AbstractSet:
    """Return the points v with ``A @ v <= b``; for an embedding by step, v is the vector of all entries by step."""
    rows, right = _require_finite("polyhedron", "A", A), _require_finite("polyhedron", "b", b)
    if rows.ndim != 2 or right.shape != rows.shape[:1]:
        raise ProblemError(
            f"polyhedron: A must be a matrix and b have one entry per row; got {rows.shape} and {right.shape}"
        )
    return PolyhedronSet(rows, right)


def hull(points: ArrayLike) -> AbstractSet:
    """Return the convex hull of points, stacked along the first axis: a simplex or polytope given by its corners."""
    corners = _require_finite("hull", "points", points)
    if corners.ndim < 2 or corners.size == 0:
        raise ProblemError(f"hull: points must be stacked, at least one of them; got shape {corners.shape}")
    return HullSet(corners)


def list_constraints(convex_set: ConvexSet, v: cp.Variable) -> dict[str, Written]:
    """Return the constraints that a set puts on the point, by name; those of a list are set 0, set 1, ..."""
    if not callable(convex_set):
        raise ProblemError(
            "the convex set must be a function from a CVXPY variable to constraints on it, for example "
            f"bd.problems.box(0, 1) or lambda v: [v >= 0, cp.sum(v) <= 1]; got {type(convex_set).__name__}"
        )
    members = convex_set(v)
    if isinstance(members, cp.Constraint):
        return {"set": members}
    if not isinstance(members, Mapping | list | tuple):
        raise ProblemError(f"the convex set must give a list or dictionary of constraints; got {members!r}")
    if not members:
        raise ProblemError("the convex set gave no constraints: every point would be inside")
    named = members if isinstance(members, Mapping) else {f"set {i}": member for i, member in enumerate(members)}
    check_named("the constraints of the convex set", named)
    return dict(named)


def _read_numbers(where: str, what: str, array: ArrayLike | Number) -> Float[np.ndarray, "..."]:
    try:
        numbers = np.array(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{where}: {what} must be an array of real numbers: {error}") from error
    if np.isnan(numbers).any():
        raise ProblemError(f"{where}: {what} contains NaN")
    return numbers


def _require_finite(where: str, what: str, array: ArrayLike | Number) -> Float[np.ndarray, "..."]:
    numbers = _read_numbers(where, what, array)
    if not np.isfinite(numbers).all():
        raise ProblemError(f"{where}: {what} contains infinity: every entry must be finite")
    return numbers


def _select(y: cp.Expression, entries: Bool[np.ndarray, "n"]) -> cp.Expression:
    """Return some entries; the vector itself where that is all of them, so that it stays one affine piece."""
    return y if entries.all() else y[np.flatnonzero(entries)]


def _fit(where: str, what: str, array: float | Float[np.ndarray, "..."], v: cp.Expression) -> Float[np.ndarray, "n"]:
    """Broadcast the array to the point and flatten it row by row."""
    try:
        return np.broadcast_to(array, v.shape).ravel()
    except ValueError:
        raise ProblemError(
            f"{where}: {what} has shape {np.shape(array)}, but the embedding has {v.shape}: "
            "give one entry for each, or one number"
        ) from None
