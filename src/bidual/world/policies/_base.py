"""The interface of policies, and the actor that runs one for an episode."""

import abc
import secrets
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Bool

from bidual._base.brief import describe_briefly
from bidual._base.errors import PolicyError
from bidual._base.html import format_html_table
from bidual._base.names import UNNAMED, Names, find
from bidual.world.policies._batches import count_batch, split_batch


class Actor:
    """One episode of a policy: the only mutable object here, for it counts the steps.

    Constructed by ``policy.reset(rng)``; call ``act(observation)`` once per step. Where states have names, it takes
    them too, and answers a name with the name of the action, if that has one. `choose` gets step, state and memory, and
    returns the action with the memory after it.
    """

    def __init__(
        self,
        choose: Callable[[int, Any, Any], tuple[Any, Any]],
        memory: object,
        horizon: int,
        num_states: int,
        read: Callable[[int, Any], Any] | None = None,
        names: Names = UNNAMED,
    ) -> None:
        self._choose = choose
        self._memory = memory
        self._horizon = horizon
        self._num_states = num_states
        self._read = read
        self._names = names
        self._step = 0

    def with_decoder(self, read: Callable[[int, Any], int]) -> "Actor":
        """Return this actor for observations that are not states: `read` maps step and observation to a state."""
        return Actor(self._choose, self._memory, self._horizon, self._num_states, read)

    def copy(self) -> "Actor":
        """Return an actor at the same step, with a memory and draws of its own."""
        copied = copy(self)
        copied._memory = deepcopy(self._memory)
        return copied

    @property
    def step(self) -> int:
        """The number of actions so far."""
        return self._step

    def act(self, observation: Any) -> Any:  # noqa: ANN401 - a state, what a decoder reads, a vector
        """Return the action at this step for an observation."""
        if self._read is None and isinstance(observation, str):
            number = self.act_in(find(self._names.find_state, observation, PolicyError))
            return number if self._names.actions is None else self._names.action(number)
        return self.act_in(self.state(observation))

    def act_in(self, state: Any) -> Any:  # noqa: ANN401
        """Return the action at this step in a known state."""
        if self._step >= self._horizon:
            raise PolicyError(
                f"the episode is over: the horizon is {self._horizon} steps; call policy.reset(rng), or let the "
                f"environment end its episodes there (gymnasium.wrappers.TimeLimit(env, {self._horizon}))"
            )
        action, self._memory = self._choose(self._step, state, self._memory)
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


@final
@dataclass(frozen=True, eq=False)
class PredictionState:
    """The state of `predict`: for every environment its episode and step, and the memory of the policy there.

    It never changes: every call returns the next one, and a call with an earlier one is repeated to the last bit.

    Args:
        seed: of all draws; episode k of environment i has draws of its own.
    """

    __repr__ = describe_briefly

    seed: int
    _: KW_ONLY
    episodes: tuple[int, ...] = ()  # begun so far in every environment
    actors: tuple[Actor, ...] = ()
    policy: "AbstractPolicy | None" = None  # whose actors they are
    acting: "AbstractPolicy | None" = None  # the same, or its most likely choices
    deterministic: bool = False
    single: bool = False  # whether one observation came without a batch

    @property
    def steps(self) -> tuple[int, ...]:
        """The number of actions so far, in the episode of every environment."""
        return tuple(actor.step for actor in self.actors)

    def begin(self, count: int | None, begins: Bool[np.ndarray, "n"]) -> "PredictionState":
        """Return a copy in which episodes have begun where they should, and everywhere if there are none yet."""
        fresh = not self.actors
        numbers = self.episodes or (0,) * len(begins)
        episodes = tuple(k + bool(fresh or begin) for k, begin in zip(numbers, begins, strict=True))
        actors = tuple(
            self._reset(i, k) if fresh or begins[i] else self.actors[i].copy() for i, k in enumerate(episodes)
        )
        return replace(self, episodes=episodes, actors=actors, single=count is None)

    def _reset(self, environment: int, episode: int) -> Actor:
        assert self.acting is not None  # set by the policy
        seed = 0 if self.deterministic else (self.seed, environment, episode)
        return self.acting.reset(np.random.default_rng(seed))


class AbstractPolicy(abc.ABC):
    """A rule for acting over H steps in S states."""

    names: Names = UNNAMED

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""

    @property
    def observation_size(self) -> int | None:
        """The number of entries of the vectors that it reads; None where an observation is no vector."""
        return None

    @abc.abstractmethod
    def most_likely(self) -> "AbstractPolicy":
        """Return the policy that takes the most likely choice wherever this one draws.

        It is another policy: where limits are kept by drawing at random, as they often are, it may violate them.
        """

    @abc.abstractmethod
    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode. `rng` is a NumPy generator or a seed; all randomness comes from it."""

    def predict(
        self,
        observation: Any,  # noqa: ANN401 - a state, a vector, whatever is read; or a batch of them
        state: PredictionState | tuple[Any, ...] | None = None,
        episode_start: Bool[np.ndarray, "n"] | Sequence[bool] | bool | None = None,
        deterministic: bool = False,
    ) -> tuple[Any, PredictionState]:
        """Return the actions for an observation or a batch of them, and the state to pass with the next ones.

        The same as `predict` of Stable-Baselines3, whose ``evaluate_policy`` runs on any policy. A policy depends on
        the step, so what it returns as state must come back with the next observations.

        Args:
            observation: one observation, or one per environment along the first axis.
            state: what the call before returned, or `bd.policies.PredictionState` with a seed; None begins episodes
                with draws that nobody can repeat.
            episode_start: whether an episode begins, for every environment: its policy is reset.
            deterministic: act as `most_likely` does, which may break limits that are kept by drawing at random. A
                controller that samples its plans draws the same ones in every episode.
        """
        before = _find_state(self, state, deterministic)
        starts = np.asarray(False if episode_start is None else episode_start, dtype=bool)
        count = _count_environments(observation, before, starts, self.observation_size)
        observations = [observation] if count is None else split_batch(observation, count)
        after = before.begin(count, np.broadcast_to(starts, len(observations)))
        actions = [actor.act(one) for actor, one in zip(after.actors, observations, strict=True)]
        return actions[0] if count is None else np.stack(actions), after

    def _repr_html_(self) -> str:
        return format_html_table(repr(self), [])


def _find_state(policy: AbstractPolicy, state: object, deterministic: bool) -> PredictionState:
    """Return the state that a call begins with, checked to be one of this policy."""
    if state is None:
        state = PredictionState(secrets.randbits(64))
    if not isinstance(state, PredictionState):
        raise PolicyError(
            f"state must be what the call of predict before returned, or None; got a {type(state).__name__}: "
            "bd.policies.PredictionState(seed) begins with draws that can be repeated"
        )
    if state.policy is None:
        acting = policy.most_likely() if deterministic else policy
        return replace(state, policy=policy, acting=acting, deterministic=deterministic)
    if state.policy is not policy:
        raise PolicyError("the state belongs to another policy: begin its episodes with state=None")
    if state.deterministic != deterministic:
        raise PolicyError(f"the state began with deterministic={state.deterministic}: begin anew with state=None")
    return state


def _count_environments(
    observation: object, state: PredictionState, starts: Bool[np.ndarray, "..."], size: int | None
) -> int | None:
    """Return the number of environments that observations come from; None for one without a batch."""
    if state.actors:
        count = None if state.single else len(state.actors)
    else:
        count = len(starts) if starts.ndim else count_batch(observation, size)
    if starts.ndim and starts.shape != (count or 1,):
        raise PolicyError(
            f"episode_start has shape {starts.shape} for {count or 1} environments: give one truth value for each"
        )
    return count
