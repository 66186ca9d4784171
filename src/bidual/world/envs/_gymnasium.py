"""Any Gymnasium environment with finitely many actions, and states that can be numbered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._base.brief import describe_briefly
from bidual._base.errors import PolicyError
from bidual._base.keys import Draw
from bidual._base.types import Episode
from bidual.problem.features import Observed
from bidual.world.envs._base import check_numbering, check_policy, continue_numbering
from bidual.world.envs._calls import CallSite, Playable, call_reset, call_step
from bidual.world.envs._numbered import AbstractNumberedEnvironment
from bidual.world.envs._opening import check_count, check_limit, number_actions, number_states, open_env
from bidual.world.envs._readings import Reading, Step, read_signature
from bidual.world.envs._remote import remote
from bidual.world.observations import Book, Numbering, StatePlace
from bidual.world.policies import AbstractPolicy, Actor

if TYPE_CHECKING:
    from gymnasium import Env


@final
@dataclass(frozen=True, eq=False)
class GymnasiumEnvironment(AbstractNumberedEnvironment):
    """A Gymnasium environment for H steps; constructed by `gymnasium_environment`.

    States keep their order. One is added at the end: there a terminated episode stays until the horizon, with action
    0 and every signal 0, so that all episodes are equally long.
    """

    __repr__ = describe_briefly

    env: Playable
    horizon: int
    num_actions: int
    first_action: int
    book: Book
    readings: tuple[Reading, ...]

    def with_numbering(self, numbering: Numbering) -> "GymnasiumEnvironment":
        """Return the same environment with a numbering of its own that begins as another does."""
        return replace(self, book=Book(continue_numbering(self.numbering, numbering)))

    def with_signals(self, observed: Sequence[tuple[str, Observed]]) -> "GymnasiumEnvironment":
        """Return the same environment with other observed signals."""
        return replace(self, readings=tuple(read_signature(name, signal, self._places) for name, signal in observed))

    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """Run one episode; the environment and the policy get seeds of their own."""
        check_policy(policy, self.shape)
        check_numbering(policy, self.numbering)
        H, S, _ = self.shape
        states, actions = np.full(H + 1, S - 1, dtype=np.int32), np.zeros(H, dtype=np.int32)
        observed = np.zeros((H, len(self.readings)))
        seed, whim = draw.integers()
        actor, moment = policy.reset(whim), CallSite(0, H, draw.number)
        obs = call_reset(self.env, seed, moment)
        place = self.book.place(obs, moment)
        states[0] = place.number
        for h in range(H):
            moment = CallSite(h + 1, H, draw.number)
            step, place = self._step(obs, place, actor, moment)
            actions[h], states[h + 1] = step.action - self.first_action, place.number
            observed[h] = [signal.read(step, moment) for signal in self.readings]
            if step.terminated:
                break
            obs = step.next_obs
        return Episode(states, actions, observed)

    def _step(self, obs: object, place: StatePlace, actor: Actor, moment: CallSite) -> tuple[Step, StatePlace]:
        """Take one step from a place, and return it with the place that it leads to."""
        action = actor.act_in(place.number)
        if not 0 <= action < self.num_actions:
            raise PolicyError(
                f"the policy takes action {action} in state {place.number} at {moment}; "
                f"actions are 0 to {self.num_actions - 1}: correct the policy's table"
            )
        raw = action + self.first_action
        answer = call_step(self.env, raw, moment)
        arrived = self._end if answer.terminated else self.book.place(answer.obs, moment)
        step = Step(obs, raw, answer.obs, answer.reward, answer.terminated, answer.info, place.visible, arrived.visible)
        return step, arrived

    @property
    def _end(self) -> StatePlace:
        """The added state, which has no number for signals where these see what numbers are given for."""
        numbering = self.book.numbering
        return StatePlace(numbering.size, None if numbering.grows else numbering.size)

    def _places(self, step: Step, moment: CallSite) -> tuple[int, int, int]:
        arrived = self.book.place(step.next_obs, moment).number if step.terminated else step.next_state
        return step.state, step.action - self.first_action, arrived

    def close(self) -> None:
        """Close the environment, its windows if it has any, and the process that it lives in."""
        self.env.close()


def gymnasium_environment(
    env: "Env[Any, Any] | str | Callable[[], Env[Any, Any]]",
    horizon: int,
    observed: Sequence[tuple[str, Observed]] = (),
    *,
    states: Callable[[Any], Any] | None = None,
    num_states: int | None = None,
    states_limit: int | None = None,
    options: Mapping[str, object] | None = None,
    step_limit: float | None = None,
) -> GymnasiumEnvironment:
    """Open an environment to learn from.

    Args:
        env: a Gymnasium environment with a Discrete action space, its name ("FrozenLake-v1"), or a function without
            arguments that makes it.
        horizon: the number of steps H of an episode. An environment given by name gets no time limit of its own; one
            of an environment given as an object must not end an episode earlier.
        observed: signals that only the environment can compute, with their names. Their functions take one `Step`, or
            the four arguments obs, action, next_obs, info. `learn` puts those of its problem here.
        states: a function from an observation to its state: from 0 to num_states - 1 where that is given, or else any
            number, text, tuple or dictionary, numbered as they are met. Needed where observations have real numbers;
            a finite space (Discrete, MultiDiscrete, MultiBinary, Box of whole numbers, Tuple and Dict of such) has
            numbers itself.
        num_states: the number of states of that function.
        states_limit: the number of different observations (or values of `states`) that can occur at most, by default
            1000, where a space has more elements or a function no `num_states`: bounds rest on it, and more are an
            error. A space with at most as many is numbered beforehand.
        options: arguments of ``gymnasium.make`` for an environment given by name.
        step_limit: the most seconds of a reset or a step; None: no limit. With a limit the
            environment lives in a process of its own, which must be able to make it: give a name that it knows
            ("module:Name-v0" imports the module first), or a function of a module. A script must then do its work
            under ``if __name__ == "__main__":``, because that process imports it. A call costs about 0.1 ms more.
    """
    horizon, limit = check_count("horizon", horizon), check_limit(step_limit)
    opened = open_env(env, options or {}) if limit is None else remote(env, options or {}, limit)
    count, first = number_actions(opened)
    book = Book(number_states(opened, states, num_states, states_limit))
    return GymnasiumEnvironment(opened, horizon, count, first, book, ()).with_signals(observed)
