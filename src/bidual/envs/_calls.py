"""Calling a Gymnasium environment without trusting its answers.

Environments are other people's programs. What they get wrong is named where it happens: a NaN that slips into an
estimate of a mean is found by nobody.
"""

import math
from numbers import Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bidual._errors import EnvError


@runtime_checkable
class Playable(Protocol):
    """What is called of a `gymnasium.Env`, and nothing more."""

    def reset(self, *, seed: int) -> object:
        """Start an episode."""
        ...

    def step(self, action: Any) -> object:  # noqa: ANN401 - a number, or a vector of controls
        """Go on with it."""
        ...

    def close(self) -> None:
        """No more episodes."""
        ...


class Raised(Exception):
    """An exception in another process, in the words that `told` has for it."""


class Unanswered(Exception):
    """A call that another process gave no answer to: what happened, and what to do about it."""

    def __init__(self, happened: str, remedy: str) -> None:
        super().__init__(happened)
        self.remedy = remedy


class Moment(NamedTuple):
    """When something happened, for messages. Steps count from 1; step 0 is the reset."""

    step: int
    horizon: int
    episode: int

    def __str__(self) -> str:
        step = f"step {self.step} of {self.horizon}" if self.step else "the reset"
        return f"{step}, episode {self.episode}"


class Answer(NamedTuple):
    """What a step gave, checked."""

    obs: Any
    reward: float
    terminated: bool
    info: dict[str, Any]


def call_reset(env: Playable, seed: int, moment: Moment) -> object:
    """The first observation of an episode."""
    try:
        answer = env.reset(seed=seed)
    except Exception as error:
        remedy = "It must take a seed and start an episode"
        raise _failed(f"env.reset(seed={seed})", moment, error, remedy) from error
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)):
        raise EnvError(
            f"env.reset must return (observation, info) with a dict as info; at {moment} it returned {answer!r:.80}. "
            "An environment of the old gym needs porting to Gymnasium"
        )
    return answer[0]


def call_step(env: Playable, action: Any, moment: Moment) -> Answer:  # noqa: ANN401
    """One step, which must not be cut short by a time limit."""
    try:
        answer = env.step(action)
    except Exception as error:
        remedy = "Correct the environment; reset with the same seed and the same actions it fails again"
        raise _failed(f"env.step({action})", moment, error, remedy) from error
    obs, reward, terminated, truncated, info = _five(answer, moment)
    value = as_number(reward)
    if value is None or not math.isfinite(value):
        raise EnvError(
            f"env.step({action}) gave the reward {reward!r} at {moment}: a reward must be a finite number; "
            "correct the environment"
        )
    ended, cut = _flag("terminated", terminated, moment), _flag("truncated", truncated, moment)
    if cut and not ended:
        _refuse_time_limit(moment)
    return Answer(obs, value, ended, info)


def as_number(value: object) -> float | None:
    """A real number, also as an array without axes; None where it is nothing of the kind."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # pyright: ignore[reportAttributeAccessIssue]: scalars of any array library
    return float(value) if isinstance(value, Real) else None


def _five(answer: object, moment: Moment) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
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


def _flag(name: str, value: object, moment: Moment) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise EnvError(f"env.step gave {name} = {value!r} at {moment}: it must be True or False; write bool(...)")
    return bool(value)


def _refuse_time_limit(moment: Moment) -> None:
    """Fine at the horizon; earlier the steps that are missing would have to be invented."""
    if moment.step < moment.horizon:
        raise EnvError(
            f"a time limit of the environment ended the episode at {moment}: disable it "
            f"(gymnasium.make(..., max_episode_steps=-1)), or lower the horizon to {moment.step}"
        )


def told(error: Exception) -> str:
    """An exception in words, wherever it was raised."""
    return str(error) if isinstance(error, Raised) else f"{type(error).__name__}: {error}"


def _failed(call: str, moment: Moment, error: Exception, remedy: str) -> EnvError:
    if isinstance(error, Unanswered):
        return EnvError(f"{call} at {moment} {error}. {error.remedy}")
    return EnvError(f"{call} failed at {moment}: {told(error)}. {remedy}")
