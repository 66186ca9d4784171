"""Sets of laws that hold the true one with high probability, laid out for the optimistic planner.

Each row of transitions has a set of its own, so the worst (or best) law can be chosen row by row and step by step: a
relaxation of "one law for all steps" under which the set of reachable embeddings is convex.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._types import Placed, placed
from bidual.features import Pieces
from bidual.models._arrivals import NOISE, for_planner, paid_on_lists
from bidual.models._base import AbstractModel, Layout
from bidual.models._counts import Counts
from bidual.models._radius import ball_radius, bernstein_limits, box_limits, l1_distance
from bidual.models._start import StartRow, start_row
from bidual.policies import DeterministicPolicy

SETS = ("ball", "box", "bernstein", "l1")
_BY_ENTRY = {"box": box_limits, "bernstein": bernstein_limits}  # those that bound every probability on its own


class Ball(NamedTuple):
    """Rows {P: KL(phat || P) <= radius} over K listed successors: any mass may go elsewhere where phat is 0."""

    frequencies: Float[Placed, "*law K A R"]
    radius: Float[Placed, "*law A R"]  # per sample; 0 where the law is known, inf where nothing was seen


class Box(NamedTuple):
    """Rows {P: low <= P <= high} over K listed successors, with at most `elsewhere` outside the lists."""

    low: Float[Placed, "*law K A R"]
    high: Float[Placed, "*law K A R"]
    elsewhere: Float[Placed, "*law A R"]


class Near(NamedTuple):
    """Rows {P: sum (P - centre)+ <= gain} over K listed successors and all others, whose centre is 0.

    Around a law, a distance in L1 of twice the gain says the same; but a centre need not sum to 1.
    """

    centre: Float[Placed, "*law K A R"]
    gain: Float[Placed, "*law A R"]


class Start(NamedTuple):
    """The start law as one more row, with a single action and a single state."""

    states: Int[Placed, "K 1 1"]
    rows: Ball


class Rows(NamedTuple):
    """All that the optimistic planner reads, as one tree of arrays; sets of rows have a leading axis of laws."""

    states: Int[Placed, "K A R"]
    rows: Ball | Box | Near
    start: Start
    allowed: Bool[Placed, "A R"] | None


@final
@dataclass(frozen=True, eq=False)
class Optimistic(AbstractModel):
    """All laws that may be true after some episodes. Made by ``Tabular.optimistic``."""

    counts: Counts
    delta: float
    initial: Float[np.ndarray, "S"] | None  # None: the start law is learned too
    set: str  # one of SETS: what is known of a row
    pathwise: bool = False  # whether chance itself may be chosen, for the range of what an episode can pay

    def restrict(self, psi: Pieces) -> Layout:
        """Features over all states, with the payments on arrival that the lists allow."""
        return on_lists(psi, self.counts, self.delta)

    def policy(self, actions: Int[Placed, "H R"]) -> DeterministicPolicy:
        """The planned actions: every state has its own."""
        return DeterministicPolicy(np.asarray(actions), self.counts.pairs.shape[2])

    @property
    def open(self) -> bool:
        """Whether successors outside the lists are possible."""
        return self.counts.support.open

    @cached_property
    def radius(self) -> Float[np.ndarray, "law S A"]:
        """The radius of every ball per sample: 0 where the law is known, inf where nothing was seen."""
        support, n = self.counts.support, self.counts.pairs
        total = ball_radius(self.counts.transitions, self._possible, self.log_share)
        seen = np.divide(total, n, out=np.full(n.shape, np.inf), where=n > 0)
        return np.where(support.unsure, seen, 0.0)

    @cached_property
    def frequencies(self) -> Float[np.ndarray, "law S A K"]:
        """The frequencies seen; the only successor where there is one."""
        n = self.counts.pairs[..., None]
        seen = np.divide(self.counts.transitions, n, out=np.zeros_like(self.counts.transitions), where=n > 0)
        only = np.zeros_like(seen)
        only[..., 0] = 1.0
        return np.where(self.counts.support.unsure[..., None], seen, only)

    @cached_property
    def log_share(self) -> float:
        """log(claims / delta): what the union over all rows, or all entries, that have to be learned costs."""
        support = self.counts.support
        claims = support.possible[support.unsure].sum() if self.set in _BY_ENTRY else support.unsure.sum()
        claims = len(self.counts.pairs) * int(claims) + (self.initial is None)
        delta = self.delta * (1 - NOISE) if self.counts.noisy.any() else self.delta
        return float(np.log(max(claims, 1) / delta))

    @cached_property
    def start_row(self) -> StartRow:
        """Where episodes can start."""
        return start_row(self.counts.starts, self.initial, self.log_share, pathwise=self.pathwise)

    @cached_property
    def rows(self) -> Rows:
        """The rows on the planner's device."""
        return laid_out(self.counts, self._sets(), self.start_row)

    def _sets(self) -> Ball | Box | Near:
        if self.set in _BY_ENTRY:
            low, high, elsewhere = self.box
            return Box(_ordered(low), _ordered(high), _flipped(elsewhere))
        if self.set == "l1":
            return Near(*in_planner_order(self.frequencies, self.distance / 2))
        return Ball(*in_planner_order(self.frequencies, self.radius))

    @cached_property
    def distance(self) -> Float[np.ndarray, "law S A"]:
        """How far a row may be from its frequencies in L1: 0 where the law is known, 2 where nothing was seen."""
        support = self.counts.support
        return np.where(support.unsure, l1_distance(self.counts.pairs, self._possible, self.log_share), 0.0)

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


def on_lists(psi: Pieces, counts: Counts, delta: float) -> Layout:
    """Features over all states, with the payments on arrival that the lists of the counts allow."""
    paid = paid_on_lists(psi, counts, delta)
    arrivals, everywhere = for_planner(psi, paid, counts.support), np.arange(psi.stage.shape[2])
    return Layout(psi.psi, _flipped(psi.stage), everywhere, arrivals, paid.positions)


def laid_out(counts: Counts, sets: Ball | Box | Near, start: StartRow) -> Rows:
    """Sets of laws on the lists of the counts, with everything else that the planner reads."""
    support = counts.support
    first = Start(_column(start.states), Ball(_column(start.frequencies), placed(np.full((1, 1), start.radius))))
    mask = None if support.allowed.all() else _flipped(support.allowed)
    return Rows(_ordered(support.filled[None])[0], sets, first, mask)


def in_planner_order(
    centre: Float[np.ndarray, "law S A K"], radius: Float[np.ndarray, "law S A"]
) -> tuple[Float[Placed, "law K A S"], Float[Placed, "law A S"]]:
    """Centres and radii of rows on the planner's device."""
    return _ordered(centre), _flipped(radius)


def _column(array: np.ndarray) -> Placed:
    return placed(array[:, None, None])


def _flipped(array: np.ndarray) -> Placed:
    return placed(array.swapaxes(-1, -2))


def _ordered(array: Float[np.ndarray, "law S A K"] | Int[np.ndarray, "law S A K"]) -> Placed:
    return placed(array.transpose(0, 3, 2, 1))
