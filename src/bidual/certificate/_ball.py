"""The least mean over a ball of laws, from below.

Every y gives a valid bound (see `planners/_rows.py`); the best one is found by halving.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual.rounding import EPS

_HALVINGS = 26  # leave log y good to 1e-6, and the bound to its square


class Least(NamedTuple):
    """A value from below and what rounding can have added to it."""

    value: float
    error: float


def ball_minimum(
    phat: Float[np.ndarray, "*rows k"], radius: Float[np.ndarray, "*rows"], W: Float[np.ndarray, "*rows k"]
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """The least P . W over {KL(phat || P) <= radius} from below, and what rounding can have added."""
    possible = (radius[..., None] > 0) | (phat > 0)
    least = np.where(possible, W, np.inf).min(axis=-1)
    d = np.where(possible, W - least[..., None], 0.0)
    spread = np.where(phat > 0, d, 0.0).max(axis=-1)
    searched = np.isfinite(radius) & (radius > 0) & (spread > 0)
    eps, scale = np.where(searched, radius, 1.0), np.where(spread > 0, spread, 1.0)
    low, high = np.full(eps.shape, -25.0), np.full(eps.shape, 30.0)  # log(y scale)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        A, B = _tilted(phat, d, np.exp(middle) / scale)
        beyond = A + np.log(np.where(B > 0, B, 1.0)) > eps
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    y = np.exp(low) / scale
    A, _ = _tilted(phat, d, y)
    bound = np.where(searched, np.expm1(A - eps) / y, np.where(radius == 0, np.sum(phat * d, axis=-1), 0.0))
    # A loses (K + 4) eps for each of its logarithms; times exp(A - eps) / y, a mean of 1/y + d, that moves the bound.
    lost = (1 / y + spread) * (phat.shape[-1] + 8) * EPS * (2 + np.log1p(spread * y))
    return least + bound, np.where(searched, lost, 8 * EPS * spread) + 4 * EPS * np.abs(least)


def _tilted(phat: np.ndarray, d: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u = 1 + d * y[..., None]
    return np.sum(phat * np.log(u), axis=-1), np.sum(phat / u, axis=-1)
