"""The interface of policies, and the actor that runs one for an episode."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from bidual._errors import PolicyError


class Actor:
    """One episode of a policy: the only mutable object here, for it must know the time.

    Made by ``policy.reset(rng)``; call ``act(observation)`` once per step.
    """

    def __init__(
        self,
        choose: Callable[[int, Any], Any],
        horizon: int,
        num_states: int,
        read: Callable[[int, Any], Any] | None = None,
    ) -> None:
        self._choose = choose
        self._horizon = horizon
        self._num_states = num_states
        self._read = read
        self._step = 0

    def reading(self, read: Callable[[int, Any], int]) -> "Actor":
        """The same actor for observations that are no states: `read` says which state a step's observation is of."""
        return Actor(self._choose, self._horizon, self._num_states, read)

    def act(self, observation: Any) -> Any:  # noqa: ANN401 - a state, what a decoder reads, a vector
        """The action at this step in the state that `observation` is, or is of."""
        return self.act_in(self.state(observation))

    def act_in(self, state: Any) -> Any:  # noqa: ANN401
        """The action at this step in a state that is known already."""
        if self._step >= self._horizon:
            raise PolicyError(f"the episode is over: the horizon is {self._horizon} steps; call policy.reset(rng)")
        action = self._choose(self._step, state)
        self._step += 1
        return action

    def state(self, observation: Any) -> Any:  # noqa: ANN401
        """The state that an observation at this step is, or is of; the actor does not move on."""
        if self._read is not None:
            return self._read(self._step, observation)
        state = int(observation)
        if state != observation or not 0 <= state < self._num_states:
            raise PolicyError(f"observation {observation!r} is not a state: states are 0 to {self._num_states - 1}")
        return state


class AbstractPolicy(abc.ABC):
    """A rule for acting over H steps in S states."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""

    @abc.abstractmethod
    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode. `rng` is a NumPy generator or a seed; all randomness comes from it."""
