"""The least value of a linear cost over a class of laws, computed anew with dense laws.

Combinations of candidates are followed from the last step backwards for as long as there are not too many. Where there
are, those whose values are below others in no state are left out, for whatever comes before them they stay above; and
beyond that the least is taken state by state, so that every state and action may have a candidate of its own. None of
it can raise the minimum. The rounding error is carried along, with the defects of the candidates as laws.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.errors import CertificateError
from bidual._base.types import select_step
from bidual.certificate._ball import Least, bound_ball_minimum
from bidual.certificate.rounding import EPS
from bidual.models import ArrivalRewards, Plausible, compute_arrival_rewards
from bidual.problem.features import Pieces

_MOST = 10_000  # combinations that are followed
_LARGE = 2 * 10**7  # numbers in one array
_LEADERS = 64  # values that all others are compared with
_TIE = 64 * EPS  # by which equal values may differ, relative to the largest


class DenseLaws(NamedTuple):
    """The candidates of a step as dense laws, and the largest error of a mean of numbers up to 1 under them."""

    dense: Float[np.ndarray, "k S A S"]
    defect: float


def bound_least_over_class(
    model: Plausible,
    pieces: Pieces,
    theta: Float[np.ndarray, "H d"],
    magnitude: Float[np.ndarray, "H d"],
    terms: int,
    table: Float[np.ndarray, "H S A"] | None = None,
) -> Least:
    """Bound the least theta . Psi over laws, and over policies where none is given, from below.

    Theta is a sum of `terms` numbers with absolute values of `magnitude` in all.
    """
    if not np.all(np.isfinite(theta)):
        raise CertificateError("the cost contains NaN or infinity: nothing can be certified")
    rewards, allowed = compute_arrival_rewards(pieces, model.counts, model.delta), model.counts.support.allowed
    (S, A), last = allowed.shape, len(theta) - 1
    V, error = np.zeros((1, S)), 0.0
    for h in reversed(range(len(theta))):
        laws = select_laws(model, h, only=h == last and not rewards.positions)
        room = max(1, min(_MOST, _LARGE // (S * A * max(len(laws.dense), 1))))
        arrivals, actions = expect_arrivals(model, rewards, theta[h], laws, h), None if table is None else table[h]
        costs = pieces.psi.pay(theta[h], h) + arrivals
        error += laws.defect * float(np.abs(V).max() + bound_signals(rewards, theta[h], h))
        if len(V) * len(laws.dense) <= room:
            V = _step_back(laws.dense, V, costs, allowed, actions)
        else:
            V, lost = _step_back_least(laws.dense, V, costs, allowed, actions, room)
            error += lost
    value, lost = _start(model, V)
    sums = (len(theta) * (6 * A + S + 8) + pieces.psi.dimension + terms + 4) * EPS
    return Least(value, error + lost + sums * float(np.sum(magnitude * pieces.peaks())))


def _step_back(
    laws: Float[np.ndarray, "k S A S"],
    V: Float[np.ndarray, "b S"],
    costs: Float[np.ndarray, "k S A"],
    allowed: Bool[np.ndarray, "S A"],
    actions: Float[np.ndarray, "S A"] | None,
) -> Float[np.ndarray, "n S"]:
    """Compute the values one step earlier, after every combination with every law."""
    Q = costs[:, None] + np.einsum("ksat,bt->kbsa", laws, V, optimize=True)
    return _choose_action_values(Q, allowed, actions).reshape(-1, V.shape[1])


def _step_back_least(
    laws: Float[np.ndarray, "k S A S"],
    V: Float[np.ndarray, "b S"],
    costs: Float[np.ndarray, "k S A"],
    allowed: Bool[np.ndarray, "S A"],
    actions: Float[np.ndarray, "S A"] | None,
    room: int,
) -> tuple[Float[np.ndarray, "n S"], float]:
    """Compute the same without values that are above others, relaxed where more than `room` are left; and the loss."""
    few, kept, lost = max(1, room // len(V)), np.zeros((0, V.shape[1])), 0.0
    for i in range(0, len(laws), few):
        some = _step_back(laws[i : i + few], V, costs[i : i + few], allowed, actions)
        tie = _TIE * float(np.abs(some).max())
        kept, lost = drop_dominated(np.concatenate([kept, some]), tie), max(lost, tie)
        kept = kept if len(kept) <= room else kept.min(axis=0, keepdims=True)
    return kept, lost


def drop_dominated(V: Float[np.ndarray, "n S"], tie: float) -> Float[np.ndarray, "kept S"]:
    """Drop vectors that are nowhere below one of a few others by more than `tie`.

    Transitions keep order: from each of them every law and policy makes values that are no less, up to `tie`, than what
    it makes of the other. Only the vectors of least sum are compared with all: most dominating ones are among them.
    """
    rest, leaders = V[np.argsort(V.sum(axis=1), kind="stable")], []
    while len(rest) and len(leaders) < _LEADERS:
        leader = rest[0]
        leaders.append(leader)
        rest = rest[1:][np.any(rest[1:] < leader - tie, axis=1)]
    return np.concatenate([np.stack(leaders), rest]) if leaders else rest


def _choose_action_values(
    Q: Float[np.ndarray, "k b S A"], allowed: Bool[np.ndarray, "S A"], actions: Float[np.ndarray, "S A"] | None
) -> Float[np.ndarray, "k b S"]:
    """Return the value of the best action, or of the actions of a policy."""
    if actions is None:
        return np.where(allowed, Q, np.inf).min(axis=-1)
    return np.einsum("kbsa,sa->kbs", np.where(allowed, Q, 0.0), actions)


def select_laws(model: Plausible, h: int, *, only: bool) -> DenseLaws:
    """Return all candidates of a step that may be true; with `only`, the first of them."""
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
    return DenseLaws(dense, float(((missing + rounding) * row).max()))


def expect_arrivals(
    model: Plausible, rewards: ArrivalRewards, theta: Float[np.ndarray, "d"], laws: DenseLaws, h: int
) -> Float[np.ndarray, "k S A"]:
    """Return the least expected value of the signals on arrival."""
    k, S, A, _ = laws.dense.shape
    if not rewards.positions:
        return np.zeros((k, S, A))
    support, t = model.counts.support, theta[list(rewards.positions)]
    W = np.tensordot(np.maximum(t, 0), select_step(rewards.low, h), axes=1)
    W = W + np.tensordot(np.minimum(t, 0), select_step(rewards.high, h), axes=1)
    everywhere = np.zeros((S, A, S))
    s, a, place = np.nonzero(support.states >= 0)
    everywhere[s, a, support.states[s, a, place]] = W[s, a, place]
    return np.sum(laws.dense * everywhere, axis=-1)


def bound_signals(rewards: ArrivalRewards, theta: Float[np.ndarray, "d"], h: int) -> float:
    """Return the largest absolute value of the signals on arrival."""
    if not rewards.positions:
        return 0.0
    t = np.abs(theta[list(rewards.positions)])
    ends = np.maximum(np.abs(select_step(rewards.low, h)), np.abs(select_step(rewards.high, h)))
    return float(np.tensordot(t, ends, axes=1).max())


def _start(model: Plausible, V: Float[np.ndarray, "b S"]) -> tuple[float, float]:
    states, frequencies, radius = model.start_row
    law = np.broadcast_to(frequencies, (len(V), len(states)))
    values, lost = bound_ball_minimum(law, np.full(len(V), radius), V[:, states])
    best = int(values.argmin())
    return float(values[best]), float(lost.max())
