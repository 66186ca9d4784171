"""All combinations of candidate laws, one for each step, that may be true, for the search over a class."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.types import DeviceArray, place_on_device, select_step
from bidual.models._base import AbstractModel, Layout
from bidual.models.classes._factors import Factors
from bidual.models.counts._arrivals import compute_arrival_rewards
from bidual.models.counts._counts import Counts
from bidual.models.counts._radius import StartRow, start_row
from bidual.problem.features import Pieces
from bidual.world.policies import DeterministicPolicy


class Members(NamedTuple):
    """The k candidates of one step that may be true."""

    numbers: Int[np.ndarray, "k"]  # among the pairs of the class
    phi: Float[np.ndarray, "k S A d"]
    mu: Float[np.ndarray, "k d S"]

    def ahead(self, V: Float[np.ndarray, "b S"]) -> Float[np.ndarray, "k b S A"]:
        """Compute the expectation of V after every state and action under each of them: mu V first, which is short."""
        k, S, A, d = self.phi.shape
        short = np.matmul(V[None], self.mu.swapaxes(1, 2))  # k b d
        return np.matmul(short, self.phi.reshape(k, S * A, d).swapaxes(1, 2)).reshape(k, len(V), S, A)

    def one(self, m: int) -> "Members":
        """Return candidate `m` alone."""
        return Members(self.numbers[m : m + 1], self.phi[m : m + 1], self.mu[m : m + 1])


class Expected(NamedTuple):
    """The ends of the expectation of signals on arrival under each candidate of every step."""

    low: tuple[Float[np.ndarray, "k n S A"], ...]
    high: tuple[Float[np.ndarray, "k n S A"], ...]


@final
@dataclass(frozen=True, eq=False)
class Plausible(AbstractModel):
    """A product over the steps: the law of one step does not restrict those of the others."""

    factors: tuple[Factors, ...]  # of every step
    inside: Bool[np.ndarray, "H n"]  # which candidates may be true
    best: Int[np.ndarray, "H"]  # the candidates of largest likelihood
    counts: Counts
    initial: Float[np.ndarray, "S"] | None  # None: the start law is learned too
    delta: float
    log_share: float  # log(claims / delta)

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
        """The set of start laws."""
        return start_row(self.counts.starts, self.initial, self.log_share)

    def restrict(self, psi: Pieces) -> Layout:
        """Return features over all states, with the expected signals on arrival under every candidate."""
        rewards = compute_arrival_rewards(psi, self.counts, self.delta)
        signals, everywhere = place_on_device(psi.stage.swapaxes(-1, -2)), np.arange(psi.stage.shape[2])
        if not rewards.positions:
            return Layout(psi.psi, signals, everywhere)
        lists = self.counts.support.filled
        low, high = [], []
        for h, one in enumerate(self.members):
            laws = np.matmul(one.phi, one.mu[:, None])  # k S A S
            listed = np.take_along_axis(laws, lists[None], axis=-1)
            listed = np.where(self.counts.support.states[None] < 0, 0.0, listed)  # padding of a list
            low.append(np.einsum("nsak,msak->mnsa", select_step(rewards.low, h), listed))
            high.append(np.einsum("nsak,msak->mnsa", select_step(rewards.high, h), listed))
        return Layout(psi.psi, signals, everywhere, Expected(tuple(low), tuple(high)), rewards.positions)

    def policy(self, actions: Int[DeviceArray, "H R"]) -> DeterministicPolicy:
        """Return the planned actions: every state has its own."""
        return DeterministicPolicy(np.asarray(actions), self.counts.pairs.shape[2])


_LISTED = 12  # steps that are listed one by one


@final
@dataclass(frozen=True)
class Candidates:
    """Numbers of candidates of every step that may still be true, and of all its candidates."""

    __repr__ = describe_briefly

    left: tuple[int, ...]
    of: tuple[int, ...]

    @property
    def most(self) -> int:
        """The number left at the step that has most of them."""
        return max(self.left)

    @property
    def worst(self) -> str:
        """A description of that step."""
        return f"{self.most}/{self.of[self.left.index(self.most)]} at the worst step"

    def __str__(self) -> str:
        if len(self.left) > _LISTED:
            return f"{self.worst}, and a single one at {self.left.count(1)} of {len(self.left)} steps"
        if len(set(self.of)) > 1:
            return " ".join(f"{left}/{of}" for left, of in zip(self.left, self.of, strict=True)) + " at the steps"
        return f"{' '.join(map(str, self.left))} of {self.of[0]} at the steps"

    def to_dict(self) -> dict[str, list[int]]:
        """Return the options as JSON values."""
        return {"left": list(self.left), "of": list(self.of)}
