"""What counts of states and actions say: all laws that may be true, and single ones to plan in."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

from bidual._errors import EnvError, ModelError, ProblemError
from bidual._types import Episode, Placed
from bidual.features import Pieces, Psi
from bidual.mdp import TabularMDP
from bidual.models._arrivals import Paid, expected, paid_on_lists
from bidual.models._base import Layout
from bidual.models._counts import Counts, no_counts
from bidual.models._elliptical import Rectangular
from bidual.models._knowledge import AbstractKnowledge
from bidual.models._known import Known
from bidual.models._latents import Latents
from bidual.models._optimistic import Optimistic
from bidual.models._plausible import Plausible
from bidual.models._posterior import lists, lists_for_planner, single_law, start_estimate
from bidual.policies import DecodedPolicy, DeterministicPolicy, MarkovPolicy

Table = TypeVar("Table", DeterministicPolicy, MarkovPolicy)


@dataclass(frozen=True, eq=False)
class AbstractCounted(AbstractKnowledge):
    """What episodes over finitely many states and actions have taught so far."""

    counts: Counts
    pieces: Pieces
    horizon: int
    initial: Float[np.ndarray, "S"] | None
    delta: float  # the probability that the true law is outside the set, at any time
    set: str

    @abc.abstractmethod
    def possible(self) -> Rectangular | Plausible | Latents:
        """All laws that may be true; raises where there can be none."""

    @abc.abstractmethod
    def drawn(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """One law at random, by how likely it is to be true, and the features under it."""

    @abc.abstractmethod
    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Several such laws, as models."""

    @abc.abstractmethod
    def likely(self) -> Float[np.ndarray, "law S A K"]:
        """The law that is expected, on the lists of the counts."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        _, S, A = self.counts.pairs.shape
        return self.horizon, S, A

    @property
    def outline(self) -> tuple[object, ...]:
        """Sizes and settings."""
        return self.counts.pairs.shape, self.horizon, self.delta, self.set

    @property
    def told(self) -> bool:
        """Whether every observed signal was a function of the transition so far."""
        return self.counts.told

    def resumed(self, now: "AbstractKnowledge") -> "AbstractCounted":
        """What was counted is what was learned; the set of laws that may be true is made of it and of `delta`."""
        if not isinstance(now, AbstractCounted) or type(now) is not type(self):
            raise ProblemError("the state to go on from was learned with another kind of model: give the model of then")
        then, asked = self.counts.pairs.shape, now.counts.pairs.shape
        if then[1:] != asked[1:]:
            raise ProblemError(
                f"the state to go on from is over {then[1:]} states and actions, the environment has {asked[1:]}: "
                "give the environment that it was learned in"
            )
        if then != asked:
            raise ProblemError(
                f"the state to go on from has counts for {then[0]} of the steps, the model asks for {asked[0]}: "
                "declare stationary=... as it was then"
            )
        return replace(self, delta=now.delta)

    def at(self, counts: Counts) -> "AbstractCounted":
        """What was known when these were all the episodes."""
        return replace(self, counts=counts)

    @cached_property
    def optimistic(self) -> Rectangular | Plausible | Latents:
        """All laws that may be true."""
        return self.possible()

    @cached_property
    def layout(self) -> Layout:
        """The features for the optimistic planner."""
        return self.optimistic.restrict(self.pieces)

    @property
    def anything(self) -> Optimistic:
        """Every law within the declared support, chance chosen freely: what an episode can possibly pay."""
        empty = no_counts(self.counts.support, self.counts.noisy)
        return Optimistic(empty, self.delta, self.initial, "ball", pathwise=True)

    @property
    def estimate(self) -> tuple[Known, Psi]:
        """The expected law, and the features under it."""
        return self.single(self.likely())

    def playable(self, policy: Table) -> Table | DecodedPolicy:
        """A policy that was made in such a model as one for the environment."""
        return policy

    def smoothed(self) -> TabularMDP:
        """The expected law as a model."""
        return self.model(self.likely())

    def features(self, mdp: TabularMDP) -> Psi:
        """The features under a model that was made from these counts."""
        return expected(self.pieces, self._paid, mdp.successors.probabilities)

    def single(self, law: Float[np.ndarray, "law S A K"]) -> tuple[Known, Psi]:
        """A law on the lists for the exact planner, and the features under it."""
        start = start_estimate(self.counts, self.initial)
        return single_law(self.counts, law, start, self._lists), expected(self.pieces, self._paid, law)

    def model(self, law: Float[np.ndarray, "law S A K"]) -> TabularMDP:
        """A law on the lists as a model."""
        if not self.counts.episodes and self.initial is None:
            raise ModelError("nothing is known of where episodes start: run at least one, or declare initial=...")
        start = start_estimate(self.counts, self.initial)
        probabilities = law[0] if len(law) == 1 else law
        return TabularMDP((lists(self.counts), probabilities), start, self.horizon, actions=self.counts.support.allowed)

    def check_starts(self, episodes: Sequence[Episode]) -> None:
        """Raise where an episode began in a state that the declared start law holds impossible."""
        starts = (int(episode.states[0]) for episode in episodes)
        start = None if self.initial is None else next((s for s in starts if not self.initial[s]), None)
        if start is not None:
            raise EnvError(
                f"an episode began in state {start}, which has probability 0 in the start law: declare the true one, "
                "or an unknown one (hidden_start=True of a simulator, no initial=... of the model)"
            )

    @cached_property
    def _paid(self) -> Paid:
        return paid_on_lists(self.pieces, self.counts, self.delta)

    @cached_property
    def _lists(self) -> Int[Placed, "1 K A S"]:
        return lists_for_planner(self.counts)
