"""All combinations of candidate laws, one for each step, that may be true: what the search over a class plans in."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._types import Placed, at_step, placed
from bidual.features import Pieces
from bidual.models._arrivals import paid_on_lists
from bidual.models._base import AbstractModel, Layout
from bidual.models._counts import Counts
from bidual.models._factors import Factors
from bidual.models._start import StartRow, start_row
from bidual.policies import DeterministicPolicy


class Members(NamedTuple):
    """The k candidates of one step that may be true."""

    numbers: Int[np.ndarray, "k"]  # among the pairs of the class
    phi: Float[np.ndarray, "k S A d"]
    mu: Float[np.ndarray, "k d S"]

    def ahead(self, V: Float[np.ndarray, "b S"]) -> Float[np.ndarray, "k b S A"]:
        """What is still to be paid after every state and action under each of them: mu V first, which is short."""
        k, S, A, d = self.phi.shape
        short = np.matmul(V[None], self.mu.swapaxes(1, 2))  # k b d
        return np.matmul(short, self.phi.reshape(k, S * A, d).swapaxes(1, 2)).reshape(k, len(V), S, A)

    def one(self, m: int) -> "Members":
        """A single one of them."""
        return Members(self.numbers[m : m + 1], self.phi[m : m + 1], self.mu[m : m + 1])


class Expected(NamedTuple):
    """The least and the largest that signals on arrival can be expected to pay under each candidate of every step."""

    low: tuple[Float[np.ndarray, "k n S A"], ...]
    high: tuple[Float[np.ndarray, "k n S A"], ...]


@final
@dataclass(frozen=True, eq=False)
class Plausible(AbstractModel):
    """A product over the steps: which law is true at one of them says nothing about the others."""

    factors: tuple[Factors, ...]  # of every step
    inside: Bool[np.ndarray, "H n"]  # which candidates may be true
    best: Int[np.ndarray, "H"]  # the candidates that explain best what was seen
    counts: Counts
    initial: Float[np.ndarray, "S"] | None  # None: the start law is learned too
    delta: float
    log_share: float  # what a claim about one step, or about the start, costs

    @cached_property
    def members(self) -> tuple[Members, ...]:
        """The candidates of every step that may be true, the most likely one first."""
        found = []
        for one, inside, best in zip(self.factors, self.inside, self.best, strict=True):
            others = np.flatnonzero(inside[: one.count])
            numbers = np.append(best, others[others != best])
            i, j = one.split(numbers)
            found.append(Members(numbers, one.phis[i], one.mus[j]))
        return tuple(found)

    @cached_property
    def start_row(self) -> StartRow:
        """Where episodes can start."""
        return start_row(self.counts.starts, self.initial, self.log_share)

    def restrict(self, psi: Pieces) -> Layout:
        """Features over all states, with what every candidate expects to be paid on arrival."""
        paid = paid_on_lists(psi, self.counts, self.delta)
        signals, everywhere = placed(psi.stage.swapaxes(-1, -2)), np.arange(psi.stage.shape[2])
        if not paid.positions:
            return Layout(psi.psi, signals, everywhere)
        lists = self.counts.support.filled
        low, high = [], []
        for h, one in enumerate(self.members):
            laws = np.matmul(one.phi, one.mu[:, None])  # k S A S
            listed = np.take_along_axis(laws, lists[None], axis=-1)
            listed = np.where(self.counts.support.states[None] < 0, 0.0, listed)  # what pads a list
            low.append(np.einsum("nsak,msak->mnsa", at_step(paid.low, h), listed))
            high.append(np.einsum("nsak,msak->mnsa", at_step(paid.high, h), listed))
        return Layout(psi.psi, signals, everywhere, Expected(tuple(low), tuple(high)), paid.positions)

    def policy(self, actions: Int[Placed, "H R"]) -> DeterministicPolicy:
        """The planned actions: every state has its own."""
        return DeterministicPolicy(np.asarray(actions), self.counts.pairs.shape[2])
