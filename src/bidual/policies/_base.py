"""The interface of policies, and the actor that runs one for an episode."""

import abc
from collections.abc import Callable

import numpy as np

from bidual._errors import PolicyError


class Actor:
    """One episode of a policy: the only mutable object here, for it must know the time.

    Made by ``policy.reset(rng)``; call ``act(observation)`` once per step.
    """

    def __init__(self, choose: Callable[[int, int], int], horizon: int, num_states: int) -> None:
        self._choose = choose
        self._horizon = horizon
        self._num_states = num_states
        self._step = 0

    def act(self, observation: int | np.integer) -> int:
        """The action at this step in the state `observation`."""
        if self._step >= self._horizon:
            raise PolicyError(f"the episode is over: the horizon is {self._horizon} steps; call policy.reset(rng)")
        state = int(observation)
        if state != observation or not 0 <= state < self._num_states:
            raise PolicyError(f"observation {observation!r} is not a state: states are 0 to {self._num_states - 1}")
        action = self._choose(self._step, state)
        self._step += 1
        return action


class AbstractPolicy(abc.ABC):
    """A rule for acting over H steps in S states."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""

    @abc.abstractmethod
    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode. `rng` is a NumPy generator or a seed; all randomness comes from it."""
