"""Convex sets for `feasibility`: functions from a point, a CVXPY variable, to the constraints that hold it inside.

All compare entry by entry: arrays must have the shape of the point or broadcast to it.
"""

from collections.abc import Callable, Mapping, Sequence

import cvxpy as cp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bidual._base.errors import ProblemError
from bidual.tasks.problems._declare import Number, Written, check_named, is_number

Members = cp.Constraint | Sequence[Written] | Mapping[str, Written]
ConvexSet = Callable[[cp.Variable], Members]


def box(lower: ArrayLike | Number | None = None, upper: ArrayLike | Number | None = None) -> ConvexSet:
    """Return the points between `lower` and `upper`; None or an infinite entry is no bound."""
    if lower is None and upper is None:
        raise ProblemError("box needs lower, upper or both: without them every point is inside")
    low = -np.inf if lower is None else _read_numbers("box", "lower", lower)
    high = np.inf if upper is None else _read_numbers("box", "upper", upper)

    def inside(v: cp.Variable) -> dict[str, Written]:
        least, most = _fit("box", "lower", low, v), _fit("box", "upper", high, v)
        if np.any(least > most):
            raise ProblemError("box is empty: an entry of lower is above that of upper; exchange them?")
        entries, named = cp.vec(v, order="C"), {}
        if np.isfinite(least).any():
            named["lower"] = entries[np.isfinite(least)] >= least[np.isfinite(least)]
        if np.isfinite(most).any():
            named["upper"] = entries[np.isfinite(most)] <= most[np.isfinite(most)]
        return named

    return inside


def ball(centre: ArrayLike | Number, radius: Number) -> ConvexSet:
    """Return the points whose Euclidean distance from `centre` is at most `radius`."""
    if not (is_number(radius) and 0 <= radius < np.inf):
        raise ProblemError(f"ball: the radius must be a number, at least 0; got {radius!r}")
    middle = _require_finite("ball", "centre", centre)
    return lambda v: {"ball": cp.norm(cp.vec(v, order="C") - _fit("ball", "centre", middle, v)) <= radius}


def polyhedron(A: ArrayLike, b: ArrayLike) -> ConvexSet:
    """Return the points v with ``A @ v <= b``; for an embedding by step, v is the vector of all entries by step."""
    rows, right = _require_finite("polyhedron", "A", A), _require_finite("polyhedron", "b", b)
    if rows.ndim != 2 or right.shape != rows.shape[:1]:
        raise ProblemError(
            f"polyhedron: A must be a matrix and b have one entry per row; got {rows.shape} and {right.shape}"
        )

    def inside(v: cp.Variable) -> dict[str, Written]:
        if rows.shape[1] != v.size:
            raise ProblemError(f"polyhedron: A has {rows.shape[1]} columns, but the embedding has {v.size} entries")
        return {"faces": rows @ cp.vec(v, order="C") <= right}

    return inside


def hull(points: ArrayLike) -> ConvexSet:
    """Return the convex hull of points, stacked along the first axis: a simplex or polytope given by its corners."""
    corners = _require_finite("hull", "points", points)
    if corners.ndim < 2 or corners.size == 0:
        raise ProblemError(f"hull: points must be stacked, at least one of them; got shape {corners.shape}")

    def inside(v: cp.Variable) -> dict[str, Written]:
        if corners.shape[1:] != v.shape:
            raise ProblemError(f"hull: each point has shape {corners.shape[1:]}, but the embedding has {v.shape}")
        share = cp.Variable(len(corners), name="share", nonneg=True)
        mixed = corners.reshape(len(corners), -1).T @ share
        return {"hull": cp.vec(v, order="C") == mixed, "shares": cp.sum(share) == 1}

    return inside


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


def _fit(where: str, what: str, array: float | Float[np.ndarray, "..."], v: cp.Variable) -> Float[np.ndarray, "n"]:
    """Broadcast the array to the point and flatten it row by row."""
    try:
        return np.broadcast_to(array, v.shape).ravel()
    except ValueError:
        raise ProblemError(
            f"{where}: {what} has shape {np.shape(array)}, but the embedding has {v.shape}: "
            "give one entry for each, or one number"
        ) from None
