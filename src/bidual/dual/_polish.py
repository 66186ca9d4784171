"""The last digits of a mixture: constraints made to hold as exactly as arithmetic allows.

A cone solver ends before that. Equalities, and norms that have no room or next to none, are equations over the plans'
weights. A mixture that still violates an inequality is moved towards one that keeps it, by no more than it must be.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual.dual._mixture_point import KEPT, MixturePoint
from bidual.problem.convex import ConicForm, ConvexProgram

_NEXT_TO_NOTHING = (1e-9, 1e-7, 1e-6)  # weights that a polish may drop
_APEX = 1e-5  # an entry of a norm that is to be 0
_STEPS, _TOWARDS_NOTHING, _EXACT = 30, 0.9, 1e-15


def settle(
    program: ConvexProgram,
    Y: Float[np.ndarray, "k n"],
    weights: Float[np.ndarray, "k"],
    auxiliary: Float[np.ndarray, "a"],
) -> tuple[MixturePoint, MixturePoint | None]:
    """Return the point of a mixture, and a better one where norms that are next to 0 are brought to 0 as well.

    A norm that must be 0 leaves no room, and a cone solver knows it to the root of its tolerance: it is equations. Many
    mixtures are nearly as good, so that weights may move far where the objective hardly does.
    """
    rows = np.flatnonzero(program.main.owner[: program.main.cones.zero] >= 0)
    weights, auxiliary = polish(program, Y, weights, auxiliary, rows)
    point = MixturePoint(weights, auxiliary, *program.functions.values(weights @ Y, auxiliary))
    if not np.any(program.violations(point.g) > KEPT * program.tolerances):
        return point, None
    rows = np.append(rows, find_apex_rows(program.main, weights @ Y))
    weights, auxiliary = polish(program, Y, weights, auxiliary, rows, farthest=1.0)
    settled = MixturePoint(weights, auxiliary, *program.functions.values(weights @ Y, auxiliary))
    worst, best = (float(np.max(program.violations(p.g) / program.units)) for p in (point, settled))
    return point, settled if best < worst else None


def find_apex_rows(form: ConicForm, y: Float[np.ndarray, "n"]) -> Int[np.ndarray, "s"]:
    """Return the rows of second-order cones, but for the first, that images alone bring to next to nothing."""
    free = np.diff(form.G_u.tocsr().indptr) == 0
    small = free & (np.abs(form.h - form.G_y @ y) <= _APEX)
    nonneg, second, exponential, _ = form.cones.starts()
    del nonneg
    tails = [
        np.arange(start + 1, stop) for start, stop in form.cones.extents() if second <= start and stop <= exponential
    ]
    return np.concatenate([*(rows for rows in tails if small[rows].all()), np.zeros(0, dtype=int)])


def polish(
    program: ConvexProgram,
    Y: Float[np.ndarray, "k n"],
    weights: Float[np.ndarray, "k"],
    auxiliary: Float[np.ndarray, "a"],
    rows: Int[np.ndarray, "s"],
    farthest: float = 1e-5,
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "a"]]:
    """Move weights and auxiliary variables by at most so much, so that these rows are equations to the last digit."""
    form, k = program.main, weights.size
    if not rows.size:
        return weights, auxiliary
    over = form.G_u[rows][:, : auxiliary.size].toarray()
    A = np.block([[form.G_y[rows] @ Y.T, over], [np.ones(k), np.zeros(auxiliary.size)]])
    b, at = np.append(form.h[rows], 1.0), np.append(weights, auxiliary)
    for least in _NEXT_TO_NOTHING:
        moved = _step(A, b, at, np.append(weights > least, np.ones(auxiliary.size, dtype=bool)))
        # Far from the equations, or at a corner of the simplex, there is nothing to polish.
        if np.abs(moved - at).max() <= farthest and moved[:k].min() >= 0:
            return moved[:k] / moved[:k].sum(), moved[k:]
    moved = _step_by_sizes(A, b, at, k)
    return (moved[:k] / moved[:k].sum(), moved[k:]) if np.abs(moved - at).max() <= farthest else (weights, auxiliary)


def _step(
    A: Float[np.ndarray, "s p"], b: Float[np.ndarray, "s"], at: Float[np.ndarray, "p"], used: Bool[np.ndarray, "p"]
) -> Float[np.ndarray, "p"]:
    """Return the nearest solution of A x = b that is 0 outside of `used`: the rest can only be in the way."""
    moved = np.where(used, at, 0.0)
    moved[used] += np.linalg.lstsq(A[:, used], b - A @ moved, rcond=None)[0]
    return moved


def _step_by_sizes(
    A: Float[np.ndarray, "s p"], b: Float[np.ndarray, "s"], at: Float[np.ndarray, "p"], k: int
) -> Float[np.ndarray, "p"]:
    """Return a solution of A x = b whose first k entries stay at least 0, by steps in proportion to their sizes.

    Where the nearest solution has negative weights, small ones must move less than large ones. A step ends before the
    first weight is 0: those that are to vanish do in a few steps, and leave the equations to the others.
    """
    left = np.abs(b - A @ at).max()
    for _ in range(_STEPS):
        sizes = np.append(at[:k], np.ones(at.size - k))
        share = np.linalg.lstsq(A * sizes, b - A @ at, rcond=None)[0]
        most = 1 / max(1.0, float(-share[:k].min()) / _TOWARDS_NOTHING)
        at = at + most * share * sizes
        before, left = left, np.abs(b - A @ at).max()
        if left <= _EXACT or (most == 1.0 and left > 0.5 * before):
            break
    return at
