"""Checks of the vectors and numbers passed to functions and sets."""

import math

import numpy as np
from jaxtyping import Shaped

from bidual._base.errors import ProblemError


def check_vector(x: Shaped[np.ndarray, "..."], size: int, what: str, *, finite: bool = True) -> None:
    """Check that x is a vector of `size` floats and, unless `finite` is false, finite."""
    if x.shape != (size,):
        raise ProblemError(f"{what} must be a vector of {size} numbers; got an array of shape {x.shape}")
    if not np.issubdtype(x.dtype, np.floating):
        raise ProblemError(f"{what} must hold floats; got {x.dtype}; convert it with .astype(float)")
    if finite:
        check_finite(x, what)


def check_finite(x: Shaped[np.ndarray, "..."], what: str) -> None:
    """Raise at NaN and infinity, with the place of the first."""
    if not np.all(np.isfinite(x)):
        i = tuple(int(k) for k in np.argwhere(~np.isfinite(x))[0])
        place = f"entry {i[0]}" if len(i) == 1 else f"entry {i}"
        raise ProblemError(f"{what} must be finite; {place} is {x[i]}")


def check_number(x: float, what: str, *, positive: bool = False) -> None:
    """Check that x is finite and nonnegative or, where `positive`, positive."""
    if not math.isfinite(x) or x < 0 or (positive and x == 0):
        kind = "positive" if positive else "non-negative"
        raise ProblemError(f"{what} must be a finite {kind} number; got {x}")
