"""The lower bound of a learned model: the least value of a linear cost over all laws that may be true.

It is computed anew, in plain NumPy, for the sets that `models` describes, and shares no code with the planner. For a
ball every y gives a valid bound (see `planners/_rows.py`); the best one is found by halving. The rounding error is
carried along: each step adds what its own sums, logarithms and exponentials can have lost.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._errors import CertificateError
from bidual._types import at_step
from bidual.certificate._cuts import cut_of
from bidual.certificate._types import Record
from bidual.convex import AffineProgram, ConvexProgram
from bidual.features import Pieces
from bidual.models import Optimistic, Paid, paid_on_lists
from bidual.rounding import EPS

_HALVINGS = 26  # leave log y good to 1e-6, and the bound to its square


class Least(NamedTuple):
    """A value from below and what rounding can have added to it."""

    value: float
    error: float


def lower_bound(
    program: AffineProgram | ConvexProgram, record: Record, model: Optimistic, pieces: Pieces
) -> float | None:
    """The bound that a record proves over all laws of a model: on the optimum, or with weight 0 on the violation.

    None where the record has no multipliers. It holds if the true law is among those of the model.
    """
    horizon = _horizon(program)
    if isinstance(program, AffineProgram):
        return _affine(program, record, model, pieces)
    peaks = np.broadcast_to(pieces.peaks(), (horizon, pieces.psi.dimension))
    image = program.image
    cut = cut_of(program, record, np.abs(image.offset) + image.spread(peaks))
    if cut is None:
        return None
    theta = image.adjoint(cut.slope)
    magnitude = abs(image.matrix).T @ cut.magnitude
    magnitude = np.broadcast_to(magnitude, theta.shape) if image.total else magnitude.reshape(theta.shape)
    terms = cut.terms + int(np.diff(image.matrix.tocsc().indptr).max(initial=0))
    shifts = abs(cut.constant) + float(cut.magnitude @ np.abs(image.offset))
    least = least_over_set(model, pieces, theta, magnitude, terms)
    slack = cut.slack + least.error + (cut.slope.size + terms + 8) * EPS * shifts
    return least.value + cut.constant + float(cut.slope @ image.offset) - slack


def _affine(program: AffineProgram, record: Record, model: Optimistic, pieces: Pieces) -> float:
    gamma, weight = record.gamma, record.objective_weight
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(gamma)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    if np.where(program.equality, 0.0, gamma).min(initial=0.0) < 0:
        raise CertificateError("a multiplier of an inequality is negative: it proves nothing")
    if weight == 0 and abs(float(np.abs(gamma) @ program.units) - 1) > 8 * max(1, gamma.size) * EPS:
        raise CertificateError("the multipliers of a clash must sum to 1 in units")
    magnitude = weight * np.abs(program.objective) + np.einsum("i,ihd->hd", np.abs(gamma), np.abs(program.rows))
    constants = abs(weight * program.offset) + (gamma.size + 1) * float(np.abs(gamma) @ np.abs(program.limits))
    least = least_over_set(model, pieces, program.theta(gamma, weight), magnitude, gamma.size + 1)
    return least.value + weight * program.offset - float(gamma @ program.limits) - least.error - 4 * EPS * constants


def _horizon(program: AffineProgram | ConvexProgram) -> int:
    return len(program.objective) if isinstance(program, AffineProgram) else program.image.horizon


def least_over_set(
    model: Optimistic,
    pieces: Pieces,
    theta: Float[np.ndarray, "H d"],
    magnitude: Float[np.ndarray, "H d"],
    terms: int,
) -> Least:
    """The least theta . Psi over policies and laws, from below; `magnitude` and `terms` say what theta is a sum of."""
    if not np.all(np.isfinite(theta)):
        raise CertificateError("the cost contains NaN or infinity: nothing can be certified")
    paid, support = paid_on_lists(pieces, model.counts, model.delta), model.counts.support
    S, A = support.allowed.shape
    V, error = np.zeros(S), 0.0
    for h in reversed(range(len(theta))):
        W = _payments(model, pieces, paid, theta[h], V, h)
        row, lost = _rows(model, W, h)
        Q = pieces.psi.pay(theta[h], h) + row
        V = np.where(support.allowed, Q, np.inf).min(axis=1)
        error += float(lost.max())
    start, lost = _start(model, V)
    K = support.states.shape[2] + 1
    sums = (len(theta) * (A + K + 8) + pieces.psi.dimension + terms + 4) * EPS
    return Least(start, error + lost + sums * float(np.sum(magnitude * pieces.peaks())))


def _payments(
    model: Optimistic, pieces: Pieces, paid: Paid, theta: Float[np.ndarray, "d"], V: Float[np.ndarray, "S"], h: int
) -> Float[np.ndarray, "S A k"]:
    """What each listed successor pays from here on, and last, where lists are open, the best of all states."""
    support = model.counts.support
    t = theta[list(paid.positions)]
    W = V[support.filled]
    if paid.positions:
        W = W + np.tensordot(np.maximum(t, 0), at_step(paid.low, h), axes=1)
        W = W + np.tensordot(np.minimum(t, 0), at_step(paid.high, h), axes=1)
    if not support.open:
        return W
    everywhere = np.broadcast_to(V, (*support.allowed.shape, V.size))
    for position, values in pieces.arrivals:
        everywhere = everywhere + theta[position] * at_step(values, h)
    for position, one in pieces.observed:
        least = min(theta[position] * one.low, theta[position] * one.high)
        everywhere = everywhere + (np.where(support.absorbing, least, 0.0) if one.at_end else least)
    return np.concatenate([W, everywhere.min(axis=-1)[..., None]], axis=-1)


def _rows(
    model: Optimistic, W: Float[np.ndarray, "S A k"], h: int
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]:
    if model.set in ("box", "bernstein"):
        low, high, elsewhere = (at_step(limit, h) for limit in model.box)
        return _boxes(low, high, elsewhere, W)
    phat = at_step(model.frequencies, h)
    if W.shape[-1] > phat.shape[-1]:
        phat = np.concatenate([phat, np.zeros_like(W[..., :1])], axis=-1)
    if model.set == "ball":
        return ball_minimum(phat, at_step(model.radius, h), W)
    return _near(phat, at_step(model.distance, h), W)


def _start(model: Optimistic, V: Float[np.ndarray, "S"]) -> tuple[float, float]:
    states, frequencies, radius = model.start_row
    value, lost = ball_minimum(frequencies[None], np.array([radius]), V[None, states])
    return float(value[0]), float(lost[0])


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


def _boxes(
    low: Float[np.ndarray, "S A K"],
    high: Float[np.ndarray, "S A K"],
    elsewhere: Float[np.ndarray, "S A"],
    W: Float[np.ndarray, "S A k"],
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]:
    """Fill from `low` in the order of W."""
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


def _near(
    phat: Float[np.ndarray, "S A k"], distance: Float[np.ndarray, "S A"], W: Float[np.ndarray, "S A k"]
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, "S A"]]:
    """Take half the distance from the dearest successors, one after the other, and give it to the cheapest."""
    possible = (distance[..., None] > 0) | (phat > 0)
    least = np.where(possible, W, np.inf).min(axis=-1)
    order = np.argsort(-W, axis=-1)
    law, W_sorted = (np.take_along_axis(array, order, axis=-1) for array in (phat, W))
    left, total = distance / 2, np.zeros(distance.shape)
    for k in range(W.shape[-1]):
        taken = np.minimum(left, law[..., k])
        total, left = total + (law[..., k] - taken) * (W_sorted[..., k] - least), left - taken
    return least + total, (4 * W.shape[-1] + 8) * EPS * np.abs(np.where(possible, W, 0.0)).max(axis=-1)
