"""Vectors of Gymnasium environments: as many episodes at once as there are copies.

Every copy is reset with the seed of its episode, so an episode is the same as in a single environment. A copy whose
episode has ended is stepped on with the first action and ignored until all have ended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from bidual._base.brief import describe_briefly
from bidual._base.errors import FAILURES, EnvError, PolicyError
from bidual._base.keys import Draw
from bidual._base.types import Episode
from bidual.problem.features import Observed
from bidual.world.envs._base import check_numbering, check_policy
from bidual.world.envs._calls import CallResult, CallSite
from bidual.world.envs._numbered import AbstractNumberedEnvironment
from bidual.world.envs._opening import check_count, number_actions, number_states
from bidual.world.envs._readings import Reading, Step, read_signature
from bidual.world.envs._vector_answers import BatchAnswers
from bidual.world.observations import Book
from bidual.world.policies import AbstractPolicy, Actor

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

_SEEDS = "gymnasium.make_vec(..., vectorization_mode='sync') or 'async' makes one whose copies have seeds of their own"


@final
@dataclass(frozen=True, eq=False)
class VectorEnvironment(AbstractNumberedEnvironment):
    """Copies of a Gymnasium environment for H steps; constructed by `vector_environment`.

    States are those of `GymnasiumEnvironment`, with the one added where terminated episodes stay.
    """

    __repr__ = describe_briefly

    env: "VectorEnv[Any, Any, Any]"
    mode: str  # how a copy begins anew: "NextStep", "SameStep" or "Disabled"
    horizon: int
    num_actions: int
    first_action: int
    book: Book
    readings: tuple[Reading, ...]

    @property
    def simultaneous(self) -> int:
        """The number of copies."""
        return self.env.num_envs

    def with_signals(self, observed: Sequence[tuple[str, Observed]]) -> "VectorEnvironment":
        """Return the same environment with other observed signals."""
        return replace(self, readings=tuple(read_signature(name, signal, self._places) for name, signal in observed))

    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """Run one episode, in the first copy; the others idle."""
        return self.collect_many(policy, [draw])[0]

    def collect_many(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> list[Episode]:
        """Run several episodes, as many at once as there are copies."""
        check_policy(policy, self.shape)
        check_numbering(policy, self.numbering)
        size, episodes = self.simultaneous, []
        for first in range(0, len(draws), size):
            episodes += self._collect_together(policy, draws[first : first + size])
        return episodes

    def _collect_together(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> list[Episode]:
        pairs = [draw.integers() for draw in draws]
        idle = self.simultaneous - len(draws)
        observations = self._reset(
            [seed for seed, _ in pairs] + [pairs[-1][0]] * idle, CallSite(0, self.horizon, draws[0].number)
        )
        copies = [
            _Copy.begin(self, policy.reset(whim), draw, observations[i])
            for i, (draw, (_, whim)) in enumerate(zip(draws, pairs, strict=True))
        ]
        for h in range(self.horizon):
            running = [copy for copy in copies if not copy.ended]
            if not running:
                break
            actions = [copy.choose(self, h) for copy in copies] + [0] * idle
            answers = self._step(np.array(actions) + self.first_action, running[0].moment(self, h))
            for i, copy in enumerate(copies):
                if not copy.ended:
                    copy.take(self, h, answers.at(i, actions[i] + self.first_action, copy.moment(self, h)))
        return [Episode(copy.states, copy.actions, copy.observed) for copy in copies]

    def _reset(self, seeds: list[int], moment: CallSite) -> Any:  # noqa: ANN401 - a batch of observations
        try:
            observations, _ = self.env.reset(seed=seeds)  # pyright: ignore[reportArgumentType]: a list is one per copy
        except FAILURES as error:
            raise EnvError(
                f"env.reset(seed=[...]), a seed for every copy, failed at {moment}: {type(error).__name__}: {error}. "
                f"An episode must belong to its seed alone: {_SEEDS}"
            ) from error
        return observations

    def _step(self, actions: np.ndarray, moment: CallSite) -> BatchAnswers:
        try:
            answers = BatchAnswers(*self.env.step(actions), same_step=self.mode == "SameStep")
            over = np.asarray(answers.terminated) | np.asarray(answers.truncated)
            if self.mode == "Disabled" and over.any():
                self.env.reset(options={"reset_mask": over})
        except FAILURES as error:
            raise EnvError(
                f"env.step of {self.simultaneous} environments failed at {moment}: {type(error).__name__}: {error}. "
                "Correct the environment; reset with the same seeds and the same actions it fails again"
            ) from error
        return answers

    def _places(self, step: Step, moment: CallSite) -> tuple[int, int, int]:
        arrived = self.book.place(step.next_obs, moment).number if step.terminated else step.next_state
        return step.state, step.action - self.first_action, arrived

    def close(self) -> None:
        """Close all environments."""
        self.env.close()


class _Copy:
    """One episode on its way: filled step by step."""

    def __init__(self, env: VectorEnvironment, actor: Actor, draw: Draw) -> None:
        H, S, _ = env.shape
        self.actor, self.draw, self.ended = actor, draw, False
        self.states, self.actions = np.full(H + 1, S - 1, dtype=np.int32), np.zeros(H, dtype=np.int32)
        self.observed = np.zeros((H, len(env.readings)))
        self.obs: Any = None

    @classmethod
    def begin(cls, env: VectorEnvironment, actor: Actor, draw: Draw, obs: object) -> "_Copy":
        """Begin an episode with its first observation."""
        copy = cls(env, actor, draw)
        copy.obs, copy.states[0] = obs, env.book.place(obs, CallSite(0, env.horizon, draw.number)).number
        return copy

    def moment(self, env: VectorEnvironment, h: int) -> CallSite:
        """Return the place of a step for messages."""
        return CallSite(h + 1, env.horizon, self.draw.number)

    def choose(self, env: VectorEnvironment, h: int) -> int:
        """Return the action of the policy, or 0 after the end."""
        if self.ended:
            return 0
        action = self.actor.act_in(int(self.states[h]))
        if not 0 <= action < env.num_actions:
            raise PolicyError(
                f"the policy takes action {action} in state {self.states[h]} at {self.moment(env, h)}; "
                f"actions are 0 to {env.num_actions - 1}: correct the policy's table"
            )
        self.actions[h] = action
        return action

    def take(self, env: VectorEnvironment, h: int, answer: CallResult) -> None:
        """Take the answer to the action of a step."""
        moment = self.moment(env, h)
        then = env.numbering.size if answer.terminated else env.book.place(answer.obs, moment).number
        step = Step(
            *(self.obs, int(self.actions[h]) + env.first_action, answer.obs, answer.reward, answer.terminated),
            *(answer.info, int(self.states[h]), then),
        )
        self.states[h + 1], self.obs, self.ended = then, answer.obs, answer.terminated
        self.observed[h] = [signal.read(step, moment) for signal in env.readings]


class _Spaces(NamedTuple):
    """The spaces of one copy, where those of a single environment are read."""

    observation_space: Any
    action_space: Any


def vector_environment(
    env: "VectorEnv[Any, Any, Any]",
    horizon: int,
    observed: Sequence[tuple[str, Observed]] = (),
    *,
    states: Callable[[Any], int] | None = None,
    num_states: int | None = None,
) -> VectorEnvironment:
    """Open a vector of environments to learn from, with as many episodes at a time as it has copies.

    Args:
        env: a Gymnasium vector environment: `SyncVectorEnv`, `AsyncVectorEnv`, what ``gymnasium.make_vec`` makes in
            these modes, or another whose copies can be reset with a seed each. In any mode of autoreset. Its own time
            limit must not end an episode before the horizon (``make_vec(..., max_episode_steps=-1)``).
        horizon: the number of steps H of an episode.
        observed: signals that only the environment can compute, as for `gymnasium_environment`.
        states: a function from an observation to a state, as for `gymnasium_environment`.
        num_states: the number of states of that function.
    """
    if not is_vector(env):
        raise EnvError(f"expected a gymnasium.vector.VectorEnv; got a {type(env).__name__}")
    single = _Spaces(env.single_observation_space, env.single_action_space)
    count, first = number_actions(single)
    numbering = number_states(single, states, num_states, None)
    if numbering.grows:
        raise EnvError(
            "the states of a vector of environments are numbered beforehand, and this space is too large for "
            "that: give states=, a function to a number, with num_states=, or learn in a single environment"
        )
    opened = VectorEnvironment(env, _read_mode(env), check_count("horizon", horizon), count, first, Book(numbering), ())
    return opened.with_signals(observed)


def is_vector(env: object) -> bool:
    """Return whether an object is a vector of Gymnasium environments."""
    try:
        from gymnasium.vector import VectorEnv
    except ImportError:
        return False
    return isinstance(env, VectorEnv)


def _read_mode(env: "VectorEnv[Any, Any, Any]") -> str:
    from gymnasium.vector import AutoresetMode

    mode = (env.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(mode).value
    except ValueError:
        possible = ", ".join(f"AutoresetMode.{one.name}" for one in AutoresetMode)
        raise EnvError(
            f"the vector environment does not say when its copies begin anew: metadata['autoreset_mode'] is {mode!r}; "
            f"set one of {possible} there"
        ) from None
