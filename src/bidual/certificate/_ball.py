"""The least mean over the laws near a centre, from below.

Over a ball in relative entropy every y gives a valid bound (see `planners/_rows.py`); the best one is found by halving.

Over the laws that exceed the centre by at most `gain` in all, sum (P - centre)+ <= gain, it is a sum: with the
successors in the order of W, P . W = W_1 + sum_j (W_{j+1} - W_j) P(beyond the j-th), and the first j have at most their
centre and the gain, so that

    P . W >= W_1 + sum_j (W_{j+1} - W_j) (1 - gain - centre_1 - ... - centre_j)+,

term by term. The law that gives the gain to the first attains all of them at once.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual.certificate.rounding import EPS

_HALVINGS = 26  # leave log y good to 1e-6, and the bound to its square


class Least(NamedTuple):
    """A lower bound and the rounding error that it may contain."""

    value: float
    error: float


def bound_ball_minimum(
    phat: Float[np.ndarray, "*rows k"], radius: Float[np.ndarray, "*rows"], W: Float[np.ndarray, "*rows k"]
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """Bound the least P . W over {KL(phat || P) <= radius} from below, with the rounding error of the bound."""
    possible = (radius[..., None] > 0) | (phat > 0)
    least = np.where(possible, W, np.inf).min(axis=-1)
    d = np.where(possible, W - least[..., None], 0.0)
    spread = np.where(phat > 0, d, 0.0).max(axis=-1)
    searched = np.isfinite(radius) & (radius > 0) & (spread > 0)
    eps, scale = np.where(searched, radius, 1.0), np.where(spread > 0, spread, 1.0)
    low, high = np.full(eps.shape, -25.0), np.full(eps.shape, 30.0)  # log(y scale)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        A, B = _tilt(phat, d, np.exp(middle) / scale)
        beyond = A + np.log(np.where(B > 0, B, 1.0)) > eps
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    y = np.exp(low) / scale
    A, _ = _tilt(phat, d, y)
    bound = np.where(searched, np.expm1(A - eps) / y, np.where(radius == 0, np.sum(phat * d, axis=-1), 0.0))
    # A loses (K + 4) eps for each of its logarithms; times exp(A - eps) / y, a mean of 1/y + d, that moves the bound.
    lost = (1 / y + spread) * (phat.shape[-1] + 8) * EPS * (2 + np.log1p(spread * y))
    return least + bound, np.where(searched, lost, 8 * EPS * spread) + 4 * EPS * np.abs(least)


def _tilt(phat: np.ndarray, d: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    u = 1 + d * y[..., None]
    return np.sum(phat * np.log(u), axis=-1), np.sum(phat / u, axis=-1)


def compute_near_minimum(
    centre: Float[np.ndarray, "*rows k"], gain: Float[np.ndarray, "*rows"], W: Float[np.ndarray, "*rows k"]
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """Compute the least P . W over {sum (P - centre)+ <= gain}, and its rounding error."""
    order = np.argsort(W, axis=-1)
    W, centre = (np.take_along_axis(array, order, axis=-1) for array in (W, centre))
    beyond = np.maximum(1 - gain[..., None] - np.cumsum(centre, axis=-1)[..., :-1], 0.0)
    total = W[..., 0] + np.sum(np.diff(W, axis=-1) * beyond, axis=-1)
    # Every share loses at most k + 2 roundings of its terms, and every layer one: together a range of W.
    size = np.maximum(1.0, np.sum(np.abs(centre), axis=-1))
    return total, (4 * W.shape[-1] + 8) * EPS * np.abs(W).max(axis=-1) * size
