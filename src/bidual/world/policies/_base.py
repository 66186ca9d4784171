"""The interface of policies, and the actor that runs one for an episode."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from bidual._base.errors import PolicyError
from bidual._base.html import format_html_table
from bidual._base.names import UNNAMED, Names, find


class Actor:
    """One episode of a policy: the only mutable object here, for it counts the steps.

    Constructed by ``policy.reset(rng)``; call ``act(observation)`` once per step. Where states have names, it takes
    them too, and answers a name with the name of the action, if that has one.
    """

    def __init__(
        self,
        choose: Callable[[int, Any], Any],
        horizon: int,
        num_states: int,
        read: Callable[[int, Any], Any] | None = None,
        names: Names = UNNAMED,
    ) -> None:
        self._choose = choose
        self._horizon = horizon
        self._num_states = num_states
        self._read = read
        self._names = names
        self._step = 0

    def with_decoder(self, read: Callable[[int, Any], int]) -> "Actor":
        """Return this actor for observations that are not states: `read` maps step and observation to a state."""
        return Actor(self._choose, self._horizon, self._num_states, read)

    def act(self, observation: Any) -> Any:  # noqa: ANN401 - a state, what a decoder reads, a vector
        """Return the action at this step for an observation."""
        if self._read is None and isinstance(observation, str):
            number = self.act_in(find(self._names.find_state, observation, PolicyError))
            return number if self._names.actions is None else self._names.action(number)
        return self.act_in(self.state(observation))

    def act_in(self, state: Any) -> Any:  # noqa: ANN401
        """Return the action at this step in a known state."""
        if self._step >= self._horizon:
            raise PolicyError(f"the episode is over: the horizon is {self._horizon} steps; call policy.reset(rng)")
        action = self._choose(self._step, state)
        self._step += 1
        return action

    def state(self, observation: Any) -> Any:  # noqa: ANN401
        """Return the state of an observation at this step, without moving on to the next."""
        if self._read is not None:
            return self._read(self._step, observation)
        state = int(observation)
        if state != observation or not 0 <= state < self._num_states:
            raise PolicyError(f"observation {observation!r} is not a state: states are 0 to {self._num_states - 1}")
        return state


class AbstractPolicy(abc.ABC):
    """A rule for acting over H steps in S states."""

    names: Names = UNNAMED

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""

    def _repr_html_(self) -> str:
        return format_html_table(repr(self), [])

    @abc.abstractmethod
    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode. `rng` is a NumPy generator or a seed; all randomness comes from it."""
