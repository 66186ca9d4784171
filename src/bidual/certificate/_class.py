"""The least value of a linear cost over a class of laws: computed anew, with dense laws, for what `models` describes.

Combinations of candidates are followed from the last step backwards for as long as there are not too many; beyond that
the least of their values is taken state by state, and every state and action may have a candidate of its own. Neither
can raise the minimum. The rounding error is carried along, and with it what the candidates miss to be laws.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bidual._errors import CertificateError
from bidual._types import at_step
from bidual.certificate._ball import Least, ball_minimum
from bidual.features import Pieces
from bidual.models import Paid, Plausible, paid_on_lists
from bidual.rounding import EPS

_MOST = 10_000  # combinations that are followed
_LARGE = 2 * 10**7  # numbers in one array


class Laws(NamedTuple):
    """The candidates of a step as dense laws, and how far a mean of numbers up to 1 under them may be wrong."""

    dense: Float[np.ndarray, "k S A S"]
    defect: float


def least_over_class(
    model: Plausible,
    pieces: Pieces,
    theta: Float[np.ndarray, "H d"],
    magnitude: Float[np.ndarray, "H d"],
    terms: int,
    table: Float[np.ndarray, "H S A"] | None = None,
) -> Least:
    """The least theta . Psi over laws, and over policies where none is given, from below.

    `magnitude` and `terms` say what theta is a sum of.
    """
    if not np.all(np.isfinite(theta)):
        raise CertificateError("the cost contains NaN or infinity: nothing can be certified")
    paid, allowed = paid_on_lists(pieces, model.counts, model.delta), model.counts.support.allowed
    (S, A), last = allowed.shape, len(theta) - 1
    V, error = np.zeros((1, S)), 0.0
    for h in reversed(range(len(theta))):
        laws = laws_of(model, h, only=h == last and not paid.positions)
        room = max(1, min(_MOST, _LARGE // (S * A * max(len(laws.dense), 1))))
        if len(V) * len(laws.dense) > room:
            V = V.min(axis=0, keepdims=True)
        arrived = _arrived(model, paid, theta[h], laws, h)
        Q = pieces.psi.pay(theta[h], h) + np.einsum("ksat,bt->kbsa", laws.dense, V, optimize=True) + arrived[:, None]
        error += laws.defect * float(np.abs(V).max() + _largest(paid, theta[h], h))
        V = _acted(Q, allowed, None if table is None else table[h]).reshape(-1, S)
        V = V if len(V) <= room else V.min(axis=0, keepdims=True)
    value, lost = _start(model, V)
    sums = (len(theta) * (6 * A + S + 8) + pieces.psi.dimension + terms + 4) * EPS
    return Least(value, error + lost + sums * float(np.sum(magnitude * pieces.peaks())))


def _acted(
    Q: Float[np.ndarray, "k b S A"], allowed: Bool[np.ndarray, "S A"], actions: Float[np.ndarray, "S A"] | None
) -> Float[np.ndarray, "k b S"]:
    """The value of the best action, or of those that a policy takes."""
    if actions is None:
        return np.where(allowed, Q, np.inf).min(axis=-1)
    return np.einsum("kbsa,sa->kbs", np.where(allowed, Q, 0.0), actions)


def laws_of(model: Plausible, h: int, *, only: bool) -> Laws:
    """All candidates of a step that may be true; one of them where it does not matter which."""
    factors = model.factors[h]
    numbers = np.flatnonzero(model.inside[h, : factors.count])
    if not numbers.size:
        raise CertificateError(f"no candidate of step {h + 1} is left: nothing can be certified")
    i, j = np.divmod(numbers[:1] if only else numbers, len(factors.mus))
    dense = np.einsum("ksad,kdt->ksat", factors.phis[i], factors.mus[j], optimize=True)
    sizes = np.einsum("ksad,kdt->ksat", np.abs(factors.phis[i]), np.abs(factors.mus[j]), optimize=True)
    row = np.where(model.counts.support.allowed, 1.0, 0.0)
    missing = np.abs(dense.sum(axis=-1) - 1) + 2 * np.maximum(-dense, 0.0).sum(axis=-1)
    rounding = (factors.phis.shape[-1] + 4) * EPS * sizes.sum(axis=-1)
    return Laws(dense, float(((missing + rounding) * row).max()))


def _arrived(
    model: Plausible, paid: Paid, theta: Float[np.ndarray, "d"], laws: Laws, h: int
) -> Float[np.ndarray, "k S A"]:
    """What signals on arrival are expected to pay at least."""
    k, S, A, _ = laws.dense.shape
    if not paid.positions:
        return np.zeros((k, S, A))
    support, t = model.counts.support, theta[list(paid.positions)]
    W = np.tensordot(np.maximum(t, 0), at_step(paid.low, h), axes=1)
    W = W + np.tensordot(np.minimum(t, 0), at_step(paid.high, h), axes=1)
    everywhere = np.zeros((S, A, S))
    s, a, place = np.nonzero(support.states >= 0)
    everywhere[s, a, support.states[s, a, place]] = W[s, a, place]
    return np.sum(laws.dense * everywhere, axis=-1)


def _largest(paid: Paid, theta: Float[np.ndarray, "d"], h: int) -> float:
    if not paid.positions:
        return 0.0
    t = np.abs(theta[list(paid.positions)])
    ends = np.maximum(np.abs(at_step(paid.low, h)), np.abs(at_step(paid.high, h)))
    return float(np.tensordot(t, ends, axes=1).max())


def _start(model: Plausible, V: Float[np.ndarray, "b S"]) -> tuple[float, float]:
    states, frequencies, radius = model.start_row
    law = np.broadcast_to(frequencies, (len(V), len(states)))
    values, lost = ball_minimum(law, np.full(len(V), radius), V[:, states])
    best = int(values.argmin())
    return float(values[best]), float(lost.max())
