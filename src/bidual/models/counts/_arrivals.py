"""Signals that depend on the next state, laid out on the lists of a support.

An observed signal is known where its transition was sampled and lies within its bounds elsewhere: optimism takes
whichever end is cheaper, an estimate the mean over like transitions.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.types import DeviceArray, place_on_device, select_step
from bidual.models.counts._counts import Counts
from bidual.models.counts._radius import compute_box_limits
from bidual.models.counts._support import NOBODY, Support
from bidual.problem.features import Observed, Pieces, Psi

NOISE = 0.25  # share of the failure probability of the set of laws, where a signal is noisy


class Arrivals(NamedTuple):
    """The n signals on arrival for the planner, in its order of axes.

    A successor outside the lists has the known signals in `far`, and observed signals anywhere between `floor` and
    `ceiling` of that successor, which are 0 for the known ones.
    """

    low: Float[DeviceArray, "next n K A R"]
    high: Float[DeviceArray, "next n K A R"] | None  # None: the same
    far: (
        Float[DeviceArray, "next n S A R"] | None
    )  # None: nothing but observed signals, or no state outside is possible
    floor: Float[DeviceArray, "n S"]
    ceiling: Float[DeviceArray, "n S"]


@final
@dataclass(frozen=True, eq=False)
class ArrivalRewards:
    """Signals on arrival over the lists: their positions among the signals, and their ends and means."""

    positions: tuple[int, ...]
    low: Float[np.ndarray, "next n S A K"]
    high: Float[np.ndarray, "next n S A K"]
    mean: Float[np.ndarray, "next n S A K"]


def compute_arrival_rewards(pieces: Pieces, counts: Counts, delta: float) -> ArrivalRewards:
    """Return all signals on arrival on the lists of the counts; ends fail with the part NOISE of `delta`."""
    lists = counts.support.filled
    known = [np.take_along_axis(values, lists[None], axis=-1) for _, values in pieces.arrivals]
    steps = max([1, *(values.shape[0] for values in known)])
    known = [np.broadcast_to(values, (steps, *lists.shape)) for values in known]
    seen = [_bound_observed(counts, i, one, NOISE * delta) for i, (_, one) in enumerate(pieces.observed)]
    ends = [[np.broadcast_to(end[None], (steps, *lists.shape)) for end in triple] for triple in seen]
    positions = tuple(i for i, _ in (*pieces.arrivals, *pieces.observed))
    if not positions:
        nothing = np.zeros((1, 0, *lists.shape))
        return ArrivalRewards((), nothing, nothing, nothing)
    low, high, mean = (np.stack([*known, *(triple[i] for triple in ends)], axis=1) for i in range(3))
    return ArrivalRewards(positions, low, high, mean)


def _bound_observed(
    counts: Counts, number: int, one: Observed, delta: float
) -> tuple[Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
    """Return the lower end, the upper end and an estimate of the mean of one observed signal."""
    n, sums, low, high = counts.pooled, counts.sums[..., number], one.low, one.high
    value = np.divide(sums, n, out=np.zeros_like(sums), where=n > 0)
    least, largest = _bound_noisy_mean(counts, sums, one, delta) if one.noisy else (value, value)
    if counts.support.open:  # lists are the same for all actions of a state: another action may have sampled the pair
        others, total = (np.broadcast_to(part.sum(1, keepdims=True), n.shape) for part in (n, sums))
        guess = np.divide(total, others, out=np.full(n.shape, 0.5 * (low + high)), where=others > 0)
    else:
        guess = np.full(n.shape, 0.5 * (low + high))
    ends = [np.where(n > 0, mean, other) for mean, other in ((least, low), (largest, high), (value, guess))]
    if not low <= 0 <= high:  # signals are 0 after the end of an episode, whatever is declared
        ended = counts.support.absorbing[:, None, None]
        ends[0] = np.where(ended, np.minimum(ends[0], 0.0), ends[0])
        ends[1] = np.where(ended, np.maximum(ends[1], 0.0), ends[1])
    if one.at_end:
        paying = counts.support.absorbing[counts.support.filled] & ~counts.support.absorbing[:, None, None]
        ends = [np.where(paying, end, 0.0) for end in ends]
    padding = counts.support.states == NOBODY
    least, largest, likely = (np.where(padding, end[..., :1], end) for end in ends)  # padding repeats the first entry
    return least, largest, likely


def _bound_noisy_mean(
    counts: Counts, sums: Float[np.ndarray, "S A K"], one: Observed, delta: float
) -> tuple[Float[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
    """Bound the mean of a noisy signal from below and above, for all transitions at all times at once.

    For X in [0, 1] with mean p the ratio (q/p)^X ((1-q)/(1-p))^(1-X) is convex in X, so its mean is at most that of a
    coin, 1, and the bound on a coin's probability holds for p with sums in the place of counts.
    """
    n, width, noisy = counts.pooled, max(one.high - one.low, 1e-300), int(counts.noisy.sum())
    share = np.clip((sums - one.low * n) / width, 0.0, n)
    entries = max(1, int(counts.support.possible[counts.support.allowed].sum()) * noisy)
    low, high = compute_box_limits(np.stack([share, n - share], axis=-1), float(np.log(entries / delta)))
    return one.low + width * low[..., 0], one.low + width * high[..., 0]


def lay_out_arrivals(pieces: Pieces, rewards: ArrivalRewards, support: Support) -> Arrivals | None:
    """Return signals on arrival in the planner's order; None where there are none."""
    if not rewards.positions:
        return None
    known = len(pieces.arrivals)
    anywhere = np.ones((len(pieces.observed), len(support.absorbing)))
    anywhere[[one.at_end for _, one in pieces.observed]] = support.absorbing
    floor, ceiling = (np.zeros((len(rewards.positions), len(support.absorbing))) for _ in range(2))
    floor[known:] = anywhere * np.array([[one.low] for _, one in pieces.observed]).reshape(-1, 1)
    ceiling[known:] = anywhere * np.array([[one.high] for _, one in pieces.observed]).reshape(-1, 1)
    far = None
    if support.open and known:
        steps = max(values.shape[0] for _, values in pieces.arrivals)
        dense = [np.broadcast_to(values, (steps, *values.shape[1:])) for _, values in pieces.arrivals]
        dense += [np.zeros_like(dense[0])] * len(pieces.observed)
        far = _to_planner_order(np.stack(dense, axis=1))
    high = _to_planner_order(rewards.high) if pieces.observed else None
    return Arrivals(_to_planner_order(rewards.low), high, far, place_on_device(floor), place_on_device(ceiling))


def compute_expected_features(pieces: Pieces, rewards: ArrivalRewards, law: Float[np.ndarray, "law S A K"]) -> Psi:
    """Compute psi under a law on the lists: stage signals plus the expectation of signals on arrival."""
    steps = max(pieces.stage.shape[0], rewards.mean.shape[0], law.shape[0] if rewards.positions else 1)
    signals = np.array(np.broadcast_to(pieces.stage, (steps, *pieces.stage.shape[1:])))
    for h in range(steps):
        signals[h, list(rewards.positions)] += np.sum(select_step(rewards.mean, h) * select_step(law, h), axis=-1)
    return Psi(signals, pieces.visits, pieces.occupancy)


def _to_planner_order(array: Float[np.ndarray, "next n S A K"]) -> Float[DeviceArray, "next n K A S"]:
    return place_on_device(np.moveaxis(array, (2, 3, 4), (4, 3, 2)))
