"""Opening a Gymnasium environment: what it must be, and how its observations and actions are numbered."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import numpy as np

from bidual._base.errors import FAILURES, EnvError, ModelError
from bidual.world.envs._calls import CallSite, Playable
from bidual.world.envs._remedies import describe_controls, describe_vectors

if TYPE_CHECKING:
    from gymnasium import Env

_MUJOCO = "gymnasium[mujoco]"


@final
@dataclass(frozen=True, eq=False)
class Numbering:
    """A numbering of states: an observation's own number, less the first, or the value of a function."""

    size: int
    first: int
    function: Callable[[Any], int] | None

    def state(self, obs: object, moment: CallSite) -> int:
        """Return the state of an observation, a number from 0 to size - 1."""
        answer = obs if self.function is None else self._call_function(obs, moment)
        try:
            state = operator.index(answer) - self.first  # pyright: ignore[reportArgumentType]: it raises what is caught
        except TypeError:
            raise EnvError(
                f"{self._describe_source(obs)} {answer!r:.80} at {moment}: it must be a whole number"
            ) from None
        if not 0 <= state < self.size:
            raise EnvError(
                f"{self._describe_source(obs)} {answer!r} at {moment}, which is not one of {self.first} to "
                f"{self.first + self.size - 1}: " + ("correct it, or num_states" if self.function else "correct it")
            )
        return state

    def _call_function(self, obs: object, moment: CallSite) -> object:
        assert self.function is not None
        try:
            return self.function(obs)
        except FAILURES as error:
            raise EnvError(
                f"states({obs!r:.80}) failed at {moment}: {type(error).__name__}: {error}. "
                "It must give a state for every observation"
            ) from error

    def _describe_source(self, obs: object) -> str:
        return "the environment gave the observation" if self.function is None else f"states({obs!r:.80}) gave"


def open_env(
    env: "Env[Any, Any] | str | Callable[[], Env[Any, Any]]", options: Mapping[str, object]
) -> "Env[Any, Any]":
    """Open the environment, without a time limit if it is given by name: the horizon ends episodes."""
    kind = _import_env_class()
    if isinstance(env, str):
        return _make(env, options)
    if options:
        raise ModelError(
            f"options ({', '.join(options)}) are for environments given by name: set them in the one given"
        )
    if isinstance(env, kind):
        return env
    if callable(env):
        return _call_maker(env)
    raise EnvError(
        f"an environment must be a gymnasium.Env, or the name of one; got a {type(env).__name__}. "
        "A function that makes one will do as well; a known model goes to bd.envs.Simulator"
    )


def check_maker(env: object, where: str) -> None:
    """Check that another process can construct the environment: an existing object cannot be sent to it."""
    if not isinstance(env, str) and (isinstance(env, _import_env_class()) or not callable(env)):
        raise EnvError(
            f"env must be a name, or a function without arguments that makes the environment, {where}: another "
            f"process makes it; got a {type(env).__name__}"
        )


def check_limit(limit: float | None) -> float | None:
    """Check a positive number of seconds, or None."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, Real) or not 0 < limit < math.inf:
        raise ModelError(f"step_limit must be a positive number of seconds; got {limit!r}")
    return float(limit)


def _import_env_class() -> "type[Env[Any, Any]]":
    """Return the class `gymnasium.Env`, importing the package at first use."""
    try:
        from gymnasium import Env
    except ImportError as error:
        raise EnvError(f"this environment needs the package gymnasium: pip install gymnasium ({error})") from error
    return Env


def _call_maker(function: "Callable[[], Env[Any, Any]]") -> "Env[Any, Any]":
    """Call a function of the user that opens an environment."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        env = function()
    except FAILURES as error:  # a function of the user may raise anything
        raise EnvError(
            f"{name}() was to make the environment and failed: {type(error).__name__}: {error}. Correct the function"
        ) from error
    if not isinstance(env, _import_env_class()):
        raise EnvError(f"{name}() was to make a gymnasium.Env; it made a {type(env).__name__}: correct the function")
    return env


def _make(name: str, options: Mapping[str, object]) -> "Env[Any, Any]":
    """Open an environment that Gymnasium has registered, without its checker and time limit."""
    import gymnasium

    ours = {"max_episode_steps", "disable_env_checker"} & set(options)
    if ours:
        raise ModelError(f"{', '.join(sorted(ours))} cannot be set: the horizon ends an episode, nothing else")
    try:
        # The tests of the checker are done here, with the step and the episode in the message.
        return gymnasium.make(name, max_episode_steps=-1, disable_env_checker=True, **options)
    except FAILURES as error:  # an environment's constructor may raise anything
        given = " with " + ", ".join(f"{key}={value!r}" for key, value in options.items()) if options else ""
        if _MUJOCO in str(error):  # Gymnasium names its own extra, which leaves out a version that works
            raise EnvError(f"{name!r} needs an extra: pip install 'bidual[mujoco]'") from error
        raise EnvError(f"gymnasium cannot make {name!r}{given}: {type(error).__name__}: {error}") from error


def number_actions(env: Playable) -> tuple[int, int]:
    """Return the number of actions, and the first of them."""
    from gymnasium.spaces import Box, Discrete

    space = getattr(env, "action_space", None)
    if isinstance(space, Box):
        raise EnvError(f"the action space must be Discrete; it is {space}. {describe_controls()}")
    if not isinstance(space, Discrete):
        raise EnvError(
            f"the action space must be Discrete; it is {space}: discretise it, for example with "
            "gymnasium.wrappers.TransformAction"
        )
    return int(space.n), int(space.start)


def number_states(env: Playable, states: Callable[[Any], int] | None, num_states: int | None) -> Numbering:
    """Return the numbering of a Discrete observation space, or that of a function."""
    from gymnasium.spaces import Box, Discrete

    if (states is None) != (num_states is None):
        missing = "num_states, how many there are" if num_states is None else "states, a function of an observation"
        raise ModelError(f"states and num_states belong together: give {missing}")
    if states is not None:
        if not callable(states):
            raise ModelError(f"states must be a function from an observation to a state; got {states!r:.80}")
        return Numbering(check_count("num_states", num_states), 0, states)
    space = getattr(env, "observation_space", None)
    if isinstance(space, Box):
        raise EnvError(f"the observation space is {space}, not Discrete. {describe_vectors()}")
    if not isinstance(space, Discrete):
        raise EnvError(
            f"the observation space is {space}, not Discrete: give states=, a function from an observation to a state "
            "number, and num_states="
        )
    return Numbering(int(space.n), int(space.start), None)


def check_count(name: str, value: object) -> int:
    """Check a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ModelError(f"{name} must be a whole number, at least 1; got {value!r}")
    return int(value)
