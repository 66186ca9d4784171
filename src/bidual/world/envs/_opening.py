"""Opening a Gymnasium environment: what it must be, and how its observations and actions are numbered."""

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from bidual._base.errors import FAILURES, EnvError, ModelError
from bidual.world.envs._remedies import describe_controls, describe_vectors
from bidual.world.observations import (
    STATES_LIMIT,
    FiniteSpace,
    Met,
    Numbering,
    NumberRange,
    find_unnumbered,
    list_leaves,
)

if TYPE_CHECKING:
    from gymnasium import Env

_MUJOCO = "gymnasium[mujoco]"


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
    if hasattr(env, "num_envs"):
        raise EnvError(
            f"a {type(env).__name__} is a vector of environments, which is for states that are numbered "
            "(bd.envs.vector_environment): give one environment, its name, or a function that makes it"
        )
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


def number_actions(env: object) -> tuple[int, int]:
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


def number_states(
    env: object, states: Callable[[Any], Any] | None, num_states: int | None, states_limit: int | None
) -> Numbering:
    """Return the numbering of observations: that of a function, of a finite space, or in the order they are met."""
    if num_states is not None and (states is None or states_limit is not None):
        raise ModelError(
            "num_states is how many numbers states= gives, a function of an observation: give it with that function, "
            "and not with states_limit, which is for numbers that are given as values are met"
        )
    limit = STATES_LIMIT if states_limit is None else check_count("states_limit", states_limit)
    space = getattr(env, "observation_space", None)
    if states is not None:
        if not callable(states):
            raise ModelError(f"states must be a function from an observation to a state; got {states!r:.80}")
        numbers = Met(limit) if num_states is None else NumberRange(check_count("num_states", num_states))
        return Numbering(numbers, states, functional=True, entries=_count_entries(space))
    return _number_space(space, limit, asked=states_limit is not None)


def _number_space(space: Any, limit: int, *, asked: bool) -> Numbering:  # noqa: ANN401 - any space
    """Return the numbering of a space: beforehand where it has few elements, or is Discrete and no limit was given."""
    from gymnasium.spaces import Discrete

    if isinstance(space, Discrete) and (int(space.n) <= limit or not asked):
        return Numbering(NumberRange(int(space.n), int(space.start)))
    leaves = list_leaves(space)
    if leaves is not None and math.prod(leaf.size for leaf in leaves) <= limit:
        return Numbering(FiniteSpace(leaves), entries=_count_entries(space))
    if find_unnumbered(space) is None and space is not None:
        return Numbering(Met(limit), entries=_count_entries(space))
    raise EnvError(f"the observation space is {space}, which has real numbers. {describe_vectors()}")


def _count_entries(space: Any) -> int | None:  # noqa: ANN401
    """Return the number of entries of observations that are arrays."""
    from gymnasium.spaces import Box, MultiBinary, MultiDiscrete

    return math.prod(space.shape) if isinstance(space, Box | MultiBinary | MultiDiscrete) else None


def check_count(name: str, value: object) -> int:
    """Check a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ModelError(f"{name} must be a whole number, at least 1; got {value!r}")
    return int(value)
