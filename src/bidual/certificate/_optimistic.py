"""The least value of a linear cost over sets of laws, one for every row of transitions.

It is computed anew, in plain NumPy, for the sets that `models` describes, and shares no code with the planner. The
rounding error is carried along: each step adds that of its own sums, logarithms and exponentials.
"""

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual._base.types import select_step
from bidual.certificate._ball import Least, bound_ball_minimum, compute_near_minimum
from bidual.certificate.rounding import EPS
from bidual.models import ArrivalRewards, Elliptical, Rectangular, compute_arrival_rewards
from bidual.problem.features import Pieces


def bound_least_over_set(
    model: Rectangular,
    pieces: Pieces,
    theta: Float[np.ndarray, "H d"],
    magnitude: Float[np.ndarray, "H d"],
    terms: int,
) -> Least:
    """Bound the least theta . Psi over policies and laws from below; theta sums `terms` numbers of size `magnitude`."""
    if not np.all(np.isfinite(theta)):
        raise CertificateError("the cost contains NaN or infinity: nothing can be certified")
    rewards, support = compute_arrival_rewards(pieces, model.counts, model.delta), model.counts.support
    S, A = support.allowed.shape
    V, error = np.zeros(S), 0.0
    for h in reversed(range(len(theta))):
        W = _collect_payments(model, pieces, rewards, theta[h], V, h)
        row, lost = _minimise_rows(model, W, h)
        Q = pieces.psi.pay(theta[h], h) + row
        V = np.where(support.allowed, Q, np.inf).min(axis=1)
        error += float(lost.max())
    start, lost = _start(model, V)
    K = support.states.shape[2] + 1
    sums = (len(theta) * (A + K + 8) + pieces.psi.dimension + terms + 4) * EPS
    return Least(start, error + lost + sums * float(np.sum(magnitude * pieces.peaks())))


def _collect_payments(
    model: Rectangular,
    pieces: Pieces,
    rewards: ArrivalRewards,
    theta: Float[np.ndarray, "d"],
    V: Float[np.ndarray, "S"],
    h: int,
) -> Float[np.ndarray, "S A k"]:
    """Return the cost-to-go of each listed successor and last, where lists are open, the least of all states."""
    support = model.counts.support
    t = theta[list(rewards.positions)]
    W = V[support.filled]
    if rewards.positions:
        W = W + np.tensordot(np.maximum(t, 0), select_step(rewards.low, h), axes=1)
        W = W + np.tensordot(np.minimum(t, 0), select_step(rewards.high, h), axes=1)
    if not support.open:
        return W
    everywhere = np.broadcast_to(V, (*support.allowed.shape, V.size))
    for position, values in pieces.arrivals:
        everywhere = everywhere + theta[position] * select_step(values, h)
    for position, one in pieces.observed:
        least = min(theta[position] * one.low, theta[position] * one.high)
        everywhere = everywhere + (np.where(support.absorbing, least, 0.0) if one.at_end else least)
    return np.concatenate([W, everywhere.min(axis=-1)[..., None]], axis=-1)


def _minimise_rows(
    model: Rectangular, W: Float[np.ndarray, "S A k"], h: int
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]:
    """Bound the least P . W of every state and action over the set of laws of its row."""
    if isinstance(model, Elliptical):
        return compute_near_minimum(select_step(model.centre, h), select_step(model.gain, h), W)
    if model.set in ("box", "bernstein"):
        low, high, elsewhere = (select_step(limit, h) for limit in model.box)
        return _fill_boxes(low, high, elsewhere, W)
    phat = select_step(model.frequencies, h)
    if W.shape[-1] > phat.shape[-1]:
        phat = np.concatenate([phat, np.zeros_like(W[..., :1])], axis=-1)
    if model.set == "ball":
        return bound_ball_minimum(phat, select_step(model.radius, h), W)
    return compute_near_minimum(phat, select_step(model.distance, h) / 2, W)


def _start(model: Rectangular, V: Float[np.ndarray, "S"]) -> tuple[float, float]:
    states, frequencies, radius = model.start_row
    value, lost = bound_ball_minimum(frequencies[None], np.array([radius]), V[None, states])
    return float(value[0]), float(lost[0])


def _fill_boxes(
    low: Float[np.ndarray, "S A K"],
    high: Float[np.ndarray, "S A K"],
    elsewhere: Float[np.ndarray, "S A"],
    W: Float[np.ndarray, "S A k"],
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]:
    """Distribute the free mass from `low` up to `high` in the order of W."""
    if W.shape[-1] > low.shape[-1]:
        low = np.concatenate([low, np.zeros_like(W[..., :1])], axis=-1)
        high = np.concatenate([high, elsewhere[..., None]], axis=-1)
    order = np.argsort(W, axis=-1)
    low, high, W = (np.take_along_axis(array, order, axis=-1) for array in (low, high, W))
    left, total = 1 - low.sum(axis=-1), np.sum(low * W, axis=-1)
    for k in range(W.shape[-1]):
        given = np.minimum(left, high[..., k] - low[..., k])
        total, left = total + given * W[..., k], left - given
    return total, (4 * W.shape[-1] + 8) * EPS * np.abs(W).max(axis=-1)
