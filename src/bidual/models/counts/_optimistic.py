"""Sets of laws that hold the true one with high probability, laid out for the optimistic planner.

Each row of transitions has a set of its own, so the worst (or best) law can be chosen row by row and step by step: a
relaxation of "one law for all steps" under which the set of reachable embeddings is convex.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.types import DeviceArray, place_on_device
from bidual.models._base import AbstractModel, Layout
from bidual.models.counts._arrivals import NOISE, compute_arrival_rewards, lay_out_arrivals
from bidual.models.counts._counts import Counts
from bidual.models.counts._radius import (
    StartRow,
    bound_l1_distance,
    compute_ball_radius,
    compute_bernstein_limits,
    compute_box_limits,
    start_row,
)
from bidual.problem.features import Pieces
from bidual.world.policies import DeterministicPolicy

SETS = ("ball", "box", "bernstein", "l1")
_BY_ENTRY = {
    "box": compute_box_limits,
    "bernstein": compute_bernstein_limits,
}  # those that bound every probability on its own


class BallRows(NamedTuple):
    """Rows {P: KL(phat || P) <= radius} over K listed successors: any mass may go elsewhere where phat is 0."""

    frequencies: Float[DeviceArray, "*law K A R"]
    radius: Float[DeviceArray, "*law A R"]  # per sample; 0 where the law is known, inf where there is no sample


class BoxRows(NamedTuple):
    """Rows {P: low <= P <= high} over K listed successors, with at most `elsewhere` outside the lists."""

    low: Float[DeviceArray, "*law K A R"]
    high: Float[DeviceArray, "*law K A R"]
    elsewhere: Float[DeviceArray, "*law A R"]


class NearRows(NamedTuple):
    """Rows {P: sum (P - centre)+ <= gain} over K listed successors and all others, whose centre is 0.

    Around a law this is the L1 ball of radius twice the gain; but a centre need not sum to 1.
    """

    centre: Float[DeviceArray, "*law K A R"]
    gain: Float[DeviceArray, "*law A R"]


class Start(NamedTuple):
    """The start law as one more row, with a single action and a single state."""

    states: Int[DeviceArray, "K 1 1"]
    rows: BallRows


class LawRows(NamedTuple):
    """The input of the optimistic planner, as one tree of arrays; sets of rows have a leading axis of laws."""

    states: Int[DeviceArray, "K A R"]
    rows: BallRows | BoxRows | NearRows
    start: Start
    allowed: Bool[DeviceArray, "A R"] | None


@final
@dataclass(frozen=True, eq=False)
class ConfidenceSet(AbstractModel):
    """The confidence set of `Tabular` after some episodes."""

    counts: Counts
    delta: float
    initial: Float[np.ndarray, "S"] | None  # None: the start law is learned too
    set: str  # one of SETS: the kind of set of every row
    pathwise: bool = False  # whether chance itself may be chosen, for the range of values of an episode

    def restrict(self, psi: Pieces) -> Layout:
        """Return features over all states, with the signals on arrival that the lists allow."""
        return lay_out_features(psi, self.counts, self.delta)

    def policy(self, actions: Int[DeviceArray, "H R"]) -> DeterministicPolicy:
        """Return the planned actions: every state has its own."""
        return DeterministicPolicy(np.asarray(actions), self.counts.pairs.shape[2])

    @property
    def open(self) -> bool:
        """Whether successors outside the lists are possible."""
        return self.counts.support.open

    @cached_property
    def radius(self) -> Float[np.ndarray, "law S A"]:
        """The radius of every ball per sample: 0 where the law is known, inf where there is no sample."""
        support, n = self.counts.support, self.counts.pairs
        total = compute_ball_radius(self.counts.transitions, self._possible, self.log_share)
        seen = np.divide(total, n, out=np.full(n.shape, np.inf), where=n > 0)
        return np.where(support.unsure, seen, 0.0)

    @cached_property
    def frequencies(self) -> Float[np.ndarray, "law S A K"]:
        """The empirical frequencies; the only successor where there is one."""
        n = self.counts.pairs[..., None]
        seen = np.divide(self.counts.transitions, n, out=np.zeros_like(self.counts.transitions), where=n > 0)
        only = np.zeros_like(seen)
        only[..., 0] = 1.0
        return np.where(self.counts.support.unsure[..., None], seen, only)

    @cached_property
    def log_share(self) -> float:
        """log(claims / delta), for the union bound over all rows, or all entries, that have to be learned."""
        support = self.counts.support
        claims = support.possible[support.unsure].sum() if self.set in _BY_ENTRY else support.unsure.sum()
        claims = len(self.counts.pairs) * int(claims) + (self.initial is None)
        delta = self.delta * (1 - NOISE) if self.counts.noisy.any() else self.delta
        return float(np.log(max(claims, 1) / delta))

    @cached_property
    def start_row(self) -> StartRow:
        """The set of start laws."""
        return start_row(self.counts.starts, self.initial, self.log_share, pathwise=self.pathwise)

    @cached_property
    def rows(self) -> LawRows:
        """The rows on the planner's device."""
        return lay_out_rows(self.counts, self._build_rows(), self.start_row)

    def _build_rows(self) -> BallRows | BoxRows | NearRows:
        if self.set in _BY_ENTRY:
            low, high, elsewhere = self.box
            return BoxRows(_to_planner_order(low), _to_planner_order(high), _swap_last_axes(elsewhere))
        if self.set == "l1":
            return NearRows(*lay_out_centres(self.frequencies, self.distance / 2))
        return BallRows(*lay_out_centres(self.frequencies, self.radius))

    @cached_property
    def distance(self) -> Float[np.ndarray, "law S A"]:
        """The L1 radius of every row around its frequencies: 0 where the law is known, 2 where there is no sample."""
        support = self.counts.support
        return np.where(support.unsure, bound_l1_distance(self.counts.pairs, self._possible, self.log_share), 0.0)

    @property
    def _possible(self) -> Int[np.ndarray, "law S A"]:
        return np.broadcast_to(self.counts.support.possible, self.counts.pairs.shape)

    @cached_property
    def box(
        self,
    ) -> tuple[Float[np.ndarray, "law S A K"], Float[np.ndarray, "law S A K"], Float[np.ndarray, "law S A"]]:
        """The least and largest probability of every listed successor, and the largest of all others together."""
        support, nobody = self.counts.support, np.zeros_like(self.counts.pairs)
        limits = _BY_ENTRY[self.set]
        low, high = limits(self.counts.transitions, self.log_share)
        _, unseen = limits(np.stack([nobody, self.counts.pairs], axis=-1), self.log_share)
        elsewhere = np.minimum(1.0, (support.possible - support.sizes) * unseen[..., 0])
        place = np.arange(low.shape[-1])
        real, unsure = place < support.sizes[..., None], support.unsure[..., None]
        known = np.broadcast_to(np.where(place == 0, 1.0, 0.0), low.shape)
        return (
            np.where(unsure, low * real, known),
            np.where(unsure, high * real, known),
            np.where(support.unsure, elsewhere, 0.0),
        )


def lay_out_features(psi: Pieces, counts: Counts, delta: float) -> Layout:
    """Return features over all states, with the signals on arrival that the lists of the counts allow."""
    rewards = compute_arrival_rewards(psi, counts, delta)
    arrivals, everywhere = lay_out_arrivals(psi, rewards, counts.support), np.arange(psi.stage.shape[2])
    return Layout(psi.psi, _swap_last_axes(psi.stage), everywhere, arrivals, rewards.positions)


def lay_out_rows(counts: Counts, sets: BallRows | BoxRows | NearRows, start: StartRow) -> LawRows:
    """Collect sets of laws on the lists of the counts, and everything else that the planner reads."""
    support = counts.support
    first = Start(
        _to_column(start.states),
        BallRows(_to_column(start.frequencies), place_on_device(np.full((1, 1), start.radius))),
    )
    mask = None if support.allowed.all() else _swap_last_axes(support.allowed)
    return LawRows(_to_planner_order(support.filled[None])[0], sets, first, mask)


def lay_out_centres(
    centre: Float[np.ndarray, "law S A K"], radius: Float[np.ndarray, "law S A"]
) -> tuple[Float[DeviceArray, "law K A S"], Float[DeviceArray, "law A S"]]:
    """Place centres and radii of rows on the planner's device."""
    return _to_planner_order(centre), _swap_last_axes(radius)


def _to_column(array: np.ndarray) -> DeviceArray:
    return place_on_device(array[:, None, None])


def _swap_last_axes(array: np.ndarray) -> DeviceArray:
    return place_on_device(array.swapaxes(-1, -2))


def _to_planner_order(array: Float[np.ndarray, "law S A K"] | Int[np.ndarray, "law S A K"]) -> DeviceArray:
    return place_on_device(array.transpose(0, 3, 2, 1))
