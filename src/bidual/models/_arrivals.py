"""Signals that depend on the next state, laid out on the lists of a support.

A signal that only the environment can tell is known where its transition was seen and lies within its bounds
elsewhere: optimism takes whichever end is cheaper, an estimate the mean over like transitions.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._types import Placed, at_step, placed
from bidual.features import Observed, Pieces, Psi
from bidual.models._counts import Counts
from bidual.models._radius import box_limits
from bidual.models._support import NOBODY, Support

NOISE = 0.25  # of the probability that the set of laws may fail with, where a signal is noisy


class Arrivals(NamedTuple):
    """Signals on arrival for the planner: the n of them that there are, in its order of axes.

    A successor outside the lists pays what `far` says, and for observed signals anything between `floor` and
    `ceiling` of that successor, which are 0 for the others.
    """

    low: Float[Placed, "next n K A R"]
    high: Float[Placed, "next n K A R"] | None  # None: the same
    far: Float[Placed, "next n S A R"] | None  # None: nothing but observed signals, or no state outside is possible
    floor: Float[Placed, "n S"]
    ceiling: Float[Placed, "n S"]


@final
@dataclass(frozen=True, eq=False)
class Paid:
    """Signals on arrival over the lists: their positions among the signals, and their ends and means."""

    positions: tuple[int, ...]
    low: Float[np.ndarray, "next n S A K"]
    high: Float[np.ndarray, "next n S A K"]
    mean: Float[np.ndarray, "next n S A K"]


def paid_on_lists(pieces: Pieces, counts: Counts, delta: float) -> Paid:
    """All signals on arrival, on the lists of the counts; ends hold with the part NOISE of `delta`."""
    lists = counts.support.filled
    known = [np.take_along_axis(values, lists[None], axis=-1) for _, values in pieces.arrivals]
    steps = max([1, *(values.shape[0] for values in known)])
    known = [np.broadcast_to(values, (steps, *lists.shape)) for values in known]
    seen = [_observed(counts, i, one, NOISE * delta) for i, (_, one) in enumerate(pieces.observed)]
    ends = [[np.broadcast_to(end[None], (steps, *lists.shape)) for end in triple] for triple in seen]
    positions = tuple(i for i, _ in (*pieces.arrivals, *pieces.observed))
    if not positions:
        nothing = np.zeros((1, 0, *lists.shape))
        return Paid((), nothing, nothing, nothing)
    low, high, mean = (np.stack([*known, *(triple[i] for triple in ends)], axis=1) for i in range(3))
    return Paid(positions, low, high, mean)


def _observed(
    counts: Counts, number: int, one: Observed, delta: float
) -> tuple[Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
    """The least, the largest and a likely mean of one observed signal."""
    n, sums, low, high = counts.pooled, counts.sums[..., number], one.low, one.high
    value = np.divide(sums, n, out=np.zeros_like(sums), where=n > 0)
    least, largest = _noise(counts, sums, one, delta) if one.noisy else (value, value)
    if counts.support.open:  # lists are the same for all actions of a state: another action may have seen the pair
        others, total = (np.broadcast_to(part.sum(1, keepdims=True), n.shape) for part in (n, sums))
        guess = np.divide(total, others, out=np.full(n.shape, 0.5 * (low + high)), where=others > 0)
    else:
        guess = np.full(n.shape, 0.5 * (low + high))
    ends = [np.where(n > 0, mean, other) for mean, other in ((least, low), (largest, high), (value, guess))]
    if not low <= 0 <= high:  # nothing is paid after the end of an episode, whatever is declared
        ended = counts.support.absorbing[:, None, None]
        ends[0] = np.where(ended, np.minimum(ends[0], 0.0), ends[0])
        ends[1] = np.where(ended, np.maximum(ends[1], 0.0), ends[1])
    if one.at_end:
        paying = counts.support.absorbing[counts.support.filled] & ~counts.support.absorbing[:, None, None]
        ends = [np.where(paying, end, 0.0) for end in ends]
    padding = counts.support.states == NOBODY
    least, largest, likely = (np.where(padding, end[..., :1], end) for end in ends)  # what pads is the first entry
    return least, largest, likely


def _noise(
    counts: Counts, sums: Float[np.ndarray, "S A K"], one: Observed, delta: float
) -> tuple[Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
    """Between which ends the mean of a noisy signal lies, for all transitions at all times at once.

    For X in [0, 1] with mean p the ratio (q/p)^X ((1-q)/(1-p))^(1-X) is convex in X, so its mean is at most that of a
    coin, 1, and the bound on a coin's probability holds for p with sums in the place of counts.
    """
    n, width, noisy = counts.pooled, max(one.high - one.low, 1e-300), int(counts.noisy.sum())
    share = np.clip((sums - one.low * n) / width, 0.0, n)
    entries = max(1, int(counts.support.possible[counts.support.allowed].sum()) * noisy)
    low, high = box_limits(np.stack([share, n - share], axis=-1), float(np.log(entries / delta)))
    return one.low + width * low[..., 0], one.low + width * high[..., 0]


def for_planner(pieces: Pieces, paid: Paid, support: Support) -> Arrivals | None:
    """The same in the planner's order; None where no signal is paid on arrival."""
    if not paid.positions:
        return None
    known = len(pieces.arrivals)
    anywhere = np.ones((len(pieces.observed), len(support.absorbing)))
    anywhere[[one.at_end for _, one in pieces.observed]] = support.absorbing
    floor, ceiling = (np.zeros((len(paid.positions), len(support.absorbing))) for _ in range(2))
    floor[known:] = anywhere * np.array([[one.low] for _, one in pieces.observed]).reshape(-1, 1)
    ceiling[known:] = anywhere * np.array([[one.high] for _, one in pieces.observed]).reshape(-1, 1)
    far = None
    if support.open and known:
        steps = max(values.shape[0] for _, values in pieces.arrivals)
        dense = [np.broadcast_to(values, (steps, *values.shape[1:])) for _, values in pieces.arrivals]
        dense += [np.zeros_like(dense[0])] * len(pieces.observed)
        far = _ordered(np.stack(dense, axis=1))
    high = _ordered(paid.high) if pieces.observed else None
    return Arrivals(_ordered(paid.low), high, far, placed(floor), placed(ceiling))


def expected(pieces: Pieces, paid: Paid, law: Float[np.ndarray, "law S A K"]) -> Psi:
    """Psi under a law on the lists: what is paid at once, and the likely payments on arrival, expected."""
    steps = max(pieces.stage.shape[0], paid.mean.shape[0], law.shape[0] if paid.positions else 1)
    signals = np.array(np.broadcast_to(pieces.stage, (steps, *pieces.stage.shape[1:])))
    for h in range(steps):
        signals[h, list(paid.positions)] += np.sum(at_step(paid.mean, h) * at_step(law, h), axis=-1)
    return Psi(signals, pieces.visits, pieces.occupancy)


def _ordered(array: Float[np.ndarray, "next n S A K"]) -> Float[Placed, "next n K A S"]:
    return placed(np.moveaxis(array, (2, 3, 4), (4, 3, 2)))
