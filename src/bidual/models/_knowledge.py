"""The interface of what is known while a model is learned."""

import abc

from bidual._types import Episode
from bidual.features import Pieces
from bidual.models._candidates import Candidates
from bidual.models._collection import Rollout
from bidual.policies import Played


class AbstractKnowledge(abc.ABC):
    """Everything that episodes have taught so far; `update` gives the next."""

    pieces: Pieces
    horizon: int
    delta: float  # the probability that the truth is outside of what is held possible, at any time

    @abc.abstractmethod
    def update(self, *episodes: Episode) -> "AbstractKnowledge":
        """Learn from episodes; raises where one shows what was declared impossible."""

    @property
    @abc.abstractmethod
    def certifies(self) -> bool:
        """Whether what is held possible is known to hold the truth with the probability that is claimed."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """That of its policies."""

    @property
    @abc.abstractmethod
    def outline(self) -> tuple[object, ...]:
        """What stays as it is while episodes are learned from."""

    @property
    @abc.abstractmethod
    def told(self) -> bool:
        """Whether every observed signal was a function of the transition so far."""

    @abc.abstractmethod
    def resumed(self, now: "AbstractKnowledge") -> "AbstractKnowledge":
        """What was known then, to go on from with the probability that is asked for now; raises where it cannot."""

    @property
    def candidates(self) -> Candidates | None:
        """How many candidates of a finite class may be true; None where there is no such class."""
        return None

    @property
    def rollouts(self) -> int:
        """How many are made for one plan."""
        return 1

    def rollout(self, policy: Played, number: int) -> Rollout:
        """What is run for a planned policy as rollout `number` (from 1 on): here the policy itself."""
        del number
        return Rollout(policy)
