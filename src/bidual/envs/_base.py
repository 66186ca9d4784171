"""The interface of environments: where episodes come from, and what is known about them beforehand."""

import abc
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from bidual._errors import PolicyError
from bidual._keys import Draw
from bidual._types import Episode
from bidual.policies import AbstractPolicy


class AbstractEnvironment(abc.ABC):
    """S states and A actions whose transitions are seen only by acting, for H steps at a time."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""

    @property
    def absorbing(self) -> Bool[np.ndarray, "S"]:
        """The states that are known never to be left, and to pay what the features say: nothing to learn there."""
        return np.zeros(self.shape[1], dtype=bool)

    @property
    def initial(self) -> Float[np.ndarray, "S"] | None:
        """The law of the first state, where it is known."""
        return None

    @property
    def allowed(self) -> Bool[np.ndarray, "S A"]:
        """Which actions each state allows."""
        return np.ones(self.shape[1:], dtype=bool)

    @abc.abstractmethod
    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """One episode of a policy. All randomness, the policy's too, comes from `draw`: same draw, same episode."""

    def collect_many(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> list[Episode]:
        """The same episodes as one by one; environments that can make many at once are faster here."""
        return [self.collect(policy, draw) for draw in draws]


def check_policy(policy: AbstractPolicy, shape: tuple[int, int, int]) -> None:
    """A policy must be made for the environment it runs in."""
    if policy.shape != shape:
        H, S, A = policy.shape
        raise PolicyError(
            f"the policy is for {H} steps, {S} states and {A} actions, but the environment has {shape[0]}, {shape[1]} "
            f"and {shape[2]}: run it where it was made for, or make one of shape (H, S, A) = {shape}"
        )
