"""Checked calls of a Gymnasium environment.

Environments are other people's programs. Their errors are reported where they occur: a NaN inside an estimate of a mean
would go unnoticed.
"""

from numbers import Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bidual._base.errors import FAILURES, EnvError


@runtime_checkable
class Playable(Protocol):
    """The part of `gymnasium.Env` that is called."""

    def reset(self, *, seed: int) -> object:
        """Start an episode."""
        ...

    def step(self, action: Any) -> object:  # noqa: ANN401 - a number, or a vector of controls
        """Take one step."""
        ...

    def close(self) -> None:
        """Close the environment."""
        ...


class Raised(Exception):
    """An exception of another process, with its description as the message."""


class Unanswered(Exception):
    """A call that another process did not answer: the reason, and a remedy."""

    def __init__(self, happened: str, remedy: str) -> None:
        super().__init__(happened)
        self.remedy = remedy


class CallSite(NamedTuple):
    """The step and episode of a call, for messages. Steps count from 1; step 0 is the reset."""

    step: int
    horizon: int
    episode: int

    def __str__(self) -> str:
        step = f"step {self.step} of {self.horizon}" if self.step else "the reset"
        return f"{step}, episode {self.episode}"


class CallResult(NamedTuple):
    """The checked result of a step."""

    obs: Any
    reward: Any  # a number, or whatever else the environment pays, a vector for one
    terminated: bool
    info: dict[str, Any]


def call_reset(env: Playable, seed: int, moment: CallSite) -> object:
    """Reset the environment, and return the first observation of an episode."""
    try:
        answer = env.reset(seed=seed)
    except FAILURES as error:
        remedy = "It must take a seed and start an episode"
        raise _call_error(f"env.reset(seed={seed})", moment, error, remedy) from error
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        raise EnvError(
            f"env.reset must return (observation, info) with a dict as info; at {moment} it returned {answer!r:.80}. "
            "An environment of the old gym needs porting to Gymnasium"
        )
    return answer[0]


def call_step(env: Playable, action: Any, moment: CallSite) -> CallResult:  # noqa: ANN401
    """Take one step, check its result, and refuse an episode ended by a time limit."""
    try:
        answer = env.step(action)
    except FAILURES as error:
        remedy = "Correct the environment; reset with the same seed and the same actions it fails again"
        raise _call_error(f"env.step({action})", moment, error, remedy) from error
    return read_step(answer, action, moment)


def read_step(answer: object, action: object, moment: CallSite) -> CallResult:
    """Check the answer to a step, and refuse an episode ended by a time limit."""
    obs, reward, terminated, truncated, info = _unpack_step(answer, moment)
    value = _read_reward(reward, action, moment)
    ended, cut = _read_flag("terminated", terminated, moment), _read_flag("truncated", truncated, moment)
    if cut and not ended:
        _refuse_time_limit(moment)
    return CallResult(obs, value, ended, info)


def to_number(value: object) -> float | None:
    """Convert a real number, or an array without axes, to float; return None for anything else."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # pyright: ignore[reportAttributeAccessIssue]: scalars of any array library
    return float(value) if isinstance(value, Real) else None


def _read_reward(reward: object, action: object, moment: CallSite) -> object:
    """Return a reward as a float where it is a number, else as it is: signals say what it means."""
    number = to_number(reward)
    if not _is_finite(reward if number is None else number):
        raise EnvError(
            f"env.step({action}) gave the reward {reward!r:.80} at {moment}: what it pays must be finite; "
            "correct the environment"
        )
    return reward if number is None else number


def _is_finite(reward: object) -> bool:
    """Return whether nothing in a number or an array is NaN or infinite; what is neither has nothing to be so."""
    try:
        array = np.asarray(reward)
    except ValueError:  # lists of different lengths
        return True
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _unpack_step(answer: object, moment: CallSite) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Return the five values of a step; raise `EnvError` for anything else."""
    if isinstance(answer, tuple) and len(answer) == 5 and isinstance(answer[4], dict):
        return answer
    got = f"{len(answer)} values" if isinstance(answer, tuple) and len(answer) != 5 else f"{answer!r:.80}"
    remedy = "correct the environment"
    if isinstance(answer, tuple) and len(answer) == 4:
        remedy = "this is the old gym's step, with one done: port the environment to Gymnasium, with two"
    raise EnvError(
        "env.step must return (observation, reward, terminated, truncated, info) with a dict as info; "
        f"at {moment} it returned {got}: {remedy}"
    )


def _read_flag(name: str, value: object, moment: CallSite) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise EnvError(f"env.step gave {name} = {value!r} at {moment}: it must be True or False; write bool(...)")
    return bool(value)


def _refuse_time_limit(moment: CallSite) -> None:
    """Raise before the horizon: the missing steps would have to be invented."""
    if moment.step < moment.horizon:
        raise EnvError(
            f"a time limit of the environment ended the episode at {moment}: disable it "
            f"(gymnasium.make(..., max_episode_steps=-1)), or lower the horizon to {moment.step}"
        )


def describe_error(error: BaseException) -> str:
    """Describe an exception, whichever process raised it."""
    return str(error) if isinstance(error, Raised) else f"{type(error).__name__}: {error}"


def _call_error(call: str, moment: CallSite, error: BaseException, remedy: str) -> EnvError:
    if isinstance(error, Unanswered):
        return EnvError(f"{call} at {moment} {error}. {error.remedy}")
    return EnvError(f"{call} failed at {moment}: {describe_error(error)}. {remedy}")
