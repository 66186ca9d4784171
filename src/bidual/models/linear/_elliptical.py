"""All laws near an estimate with known features: every row in a set of its own, around a centre that is no law.

Of a row P with estimate c and radius r it is known that sum (P - c)+ <= r and sum (c - P)+ <= r over all S states
(`models/linear/_ridge.py`), that P is a law, and that it is 0 outside the row's list. Where c is negative or above 1,
or outside the list, part of these sums does not depend on P: with c' = c cut to [0, 1] on the list,

    sum (P - c')+ <= r - sum (-c)+ =: up,      sum (c' - P)+ <= r - sum over the list (c - 1)+ - sum outside c+ =: down

are equivalent. For a law the two left sides differ by sum c' - 1. One inequality remains,

    sum (P - c')+ <= min(up, down + 1 - sum c'),

the same kind of set as a ball in L1. It is empty where the right side is below 1 - sum c' or 0: then, except with the
failure probability, phi or its bound is wrong.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import EnvError
from bidual._base.types import DeviceArray
from bidual.models._base import AbstractModel, Layout
from bidual.models.counts._counts import Counts
from bidual.models.counts._optimistic import (
    ConfidenceSet,
    LawRows,
    NearRows,
    lay_out_centres,
    lay_out_features,
    lay_out_rows,
)
from bidual.models.counts._radius import StartRow, compute_ball_radius, start_row
from bidual.problem.features import Pieces
from bidual.world.policies import DeterministicPolicy

_ROUNDING = 1e-9  # by which a set may seem empty: sums of S numbers up to 1


@final
@dataclass(frozen=True, eq=False)
class Elliptical(AbstractModel):
    """The confidence set of `LinearMDP` after some episodes."""

    counts: Counts
    delta: float
    initial: Float[np.ndarray, "S"] | None  # None: the start law is learned too
    estimate: Float[np.ndarray, "law S A S"]
    radius: Float[np.ndarray, "law S A"]
    log_share: float  # log(claims / delta)

    def restrict(self, psi: Pieces) -> Layout:
        """Return features over all states, with the signals on arrival that the lists allow."""
        return lay_out_features(psi, self.counts, self.delta)

    def policy(self, actions: Int[DeviceArray, "H R"]) -> DeterministicPolicy:
        """Return the planned actions: every state has its own."""
        return DeterministicPolicy(np.asarray(actions), self.counts.pairs.shape[2])

    @property
    def open(self) -> bool:
        """Whether successors outside the lists are possible: never."""
        return False

    @cached_property
    def start_row(self) -> StartRow:
        """The set of start laws."""
        return start_row(self.counts.starts, self.initial, self.log_share)

    @cached_property
    def centre(self) -> Float[np.ndarray, "law S A K"]:
        """The estimate on the lists, cut to [0, 1]; the only successor where there is one."""
        only = np.arange(self._listed.shape[-1]) == 0
        return np.where(self.counts.support.unsure[..., None], np.clip(self._listed, 0.0, 1.0), only)

    @cached_property
    def gain(self) -> Float[np.ndarray, "law S A"]:
        """The largest excess of a law over the centre; never so small that no law is left."""
        least = np.maximum(0.0, 1 - self.centre.sum(axis=-1))
        return np.where(self.counts.support.unsure, np.clip(self._budget, least, 1.0), 0.0)

    @cached_property
    def rows(self) -> LawRows:
        """The rows on the planner's device."""
        return lay_out_rows(self.counts, NearRows(*lay_out_centres(self.centre, self.gain)), self.start_row)

    def check(self) -> None:
        """Raise where no law is left for some row, or where its estimate is far from the frequencies.

        Neither happens while the truth is in the set and near the frequencies of every row: with probability
        1 - 2 `delta` at least, where phi and its bound are right.
        """
        missing = np.maximum(0.0, 1 - self.centre.sum(axis=-1)) - self._budget
        self._refuse_at(missing, "leaves no law")
        self._refuse_at(self._off_frequencies, "contradicts what was seen to follow")

    @property
    def _off_frequencies(self) -> Float[np.ndarray, "law S A"]:
        """The excess of sum (phat - c)+ over its bound: r, plus the distance of frequencies from the truth.

        That is sqrt(KL / 2) at most (Pinsker), and KL(phat || P) is bounded at all times (`models/counts/_radius.py`).
        """
        counts, support = self.counts, self.counts.support
        n, rows = counts.pairs, max(1, len(counts.pairs) * int(support.unsure.sum()))
        seen = np.divide(
            counts.transitions, n[..., None], out=np.zeros_like(counts.transitions), where=n[..., None] > 0
        )
        possible = np.broadcast_to(support.possible, n.shape)
        own = np.sqrt(
            compute_ball_radius(counts.transitions, possible, float(np.log(rows / self.delta))) / (2 * np.maximum(n, 1))
        )
        return np.maximum(seen - self._listed, 0.0).sum(axis=-1) - own - self.radius

    def _refuse_at(self, excess: Float[np.ndarray, "law S A"], what: str) -> None:
        """Raise `EnvError` where the estimate cannot be that of a law, by more than its error."""
        excess = np.where(self.counts.support.unsure, excess, -np.inf)
        if excess.max(initial=-np.inf) <= _ROUNDING:
            return
        h, s, a = np.unravel_index(int(excess.argmax()), excess.shape)
        step = f" at step {h + 1}" if len(excess) > 1 else ""
        raise EnvError(
            f"phi is misspecified: for action {a} in state {s}{step} the estimate phi . mu, with probability "
            f"{1 - self.delta:.4g} within {self.radius[h, s, a]:.3g} of the truth, {what}: correct phi, declare a "
            "larger bound=..., or learn without features (Tabular)"
        )

    @cached_property
    def _listed(self) -> Float[np.ndarray, "law S A K"]:
        """The estimate of listed successors."""
        return self.counts.support.listed(self.estimate)

    @cached_property
    def _budget(self) -> Float[np.ndarray, "law S A"]:
        """min(up, down + 1 - sum c')."""
        c, listed = self.estimate, self._listed
        outside = np.maximum(c, 0.0).sum(axis=-1) - np.maximum(listed, 0.0).sum(axis=-1)
        up = self.radius - np.maximum(-c, 0.0).sum(axis=-1)
        down = self.radius - np.maximum(listed - 1, 0.0).sum(axis=-1) - outside
        size = 4 * c.shape[-1] * np.finfo(np.float64).eps * (1 + np.abs(c).sum(axis=-1))  # rounding error of these sums
        return np.minimum(up, down + 1 - np.clip(listed, 0.0, 1.0).sum(axis=-1)) + size


Rectangular: TypeAlias = ConfidenceSet | Elliptical  # models with a set of laws for every row
