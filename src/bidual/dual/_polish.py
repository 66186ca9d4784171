"""The last digits of a mixture: equalities, and norms that must be 0, made to hold as exactly as arithmetic allows."""

import numpy as np
from jaxtyping import Float, Int

from bidual.problem.convex import ConicForm, ConvexProgram

_NEXT_TO_NOTHING = (1e-9, 1e-7, 1e-6)  # weights that a polish may drop
_APEX = 1e-5  # an entry of a norm that is to be 0


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
    auxiliary: np.ndarray,
    rows: Int[np.ndarray, "s"],
) -> tuple[Float[np.ndarray, "k"], np.ndarray]:
    """Move weights and auxiliary variables a little, so that these rows are equations to the last digit."""
    form = program.main
    for least in _NEXT_TO_NOTHING if rows.size else ():
        used = np.flatnonzero(weights > least)  # the rest can only be in the way: a weight cannot fall below 0
        of_auxiliary = form.G_u[rows][:, : auxiliary.size].toarray()
        A = np.block([[form.G_y[rows] @ Y[used].T, of_auxiliary], [np.ones(used.size), np.zeros(auxiliary.size)]])
        at = np.append(weights[used], auxiliary)
        step = np.linalg.lstsq(A, np.append(form.h[rows], 1.0) - A @ at, rcond=None)[0]
        at = at + step
        # Far from the equations, or at a corner of the simplex, there is nothing to polish.
        if np.abs(step).max() <= 1e-5 and at[: used.size].min() >= 0:
            moved = np.zeros_like(weights)
            moved[used] = at[: used.size] / at[: used.size].sum()
            return moved, at[used.size :]
    return weights, auxiliary
