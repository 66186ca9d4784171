"""Observed signals: functions of a step, evaluated during the episode and checked against their bounds."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from bidual._base.errors import FAILURES, EnvError, ModelError
from bidual.problem.features import ArrivalTable, Observed
from bidual.world.envs._calls import CallSite, to_number


class Step(NamedTuple):
    """The argument of a signal: observations and action of the environment, with our numbers of states."""

    obs: Any
    action: int
    next_obs: Any
    reward: Any  # a float, or a vector where the environment pays several rewards
    terminated: bool
    info: dict[str, Any]
    state: int
    next_state: int  # the added state, if the step has terminated the episode


# State, action and next state of a step, also of one that ends its episode, with the environment's own numbers.
Places = Callable[[Step, CallSite], tuple[int, int, int]]


@final
@dataclass(frozen=True, eq=False)
class Reading:
    """A named signal with a function of a step, and of where that was made."""

    name: str
    function: Callable[[Step, CallSite], object]
    signal: Observed

    def read(self, step: Step, moment: CallSite) -> float:
        """Evaluate the signal at a step, and check its bounds."""
        try:
            value = self.function(step, moment)
        except FAILURES as error:
            raise EnvError(
                f"signal {self.name!r} failed at {moment} (observation {step.obs!r:.80}, action {step.action}): "
                f"{type(error).__name__}: {error}. Correct the function"
            ) from error
        number = to_number(value)
        if number is None:
            raise EnvError(
                f"signal {self.name!r} gave {value!r:.80} at {moment}: it must give a number{_suggest_entry(value)}"
            )
        if self.signal.at_end and not step.terminated:
            if number != 0:
                raise EnvError(
                    f"signal {self.name!r} gave {number:g} at {moment}, but it was declared to be 0 at every step that "
                    "does not terminate the episode: leave out at_end=True, or correct the function"
                )
            return 0.0
        low, high = self.signal.low, self.signal.high
        if not low <= number <= high:  # NaN is refused here as well
            raise EnvError(
                f"signal {self.name!r} gave {number:g} at {moment}, but it was declared to lie in "
                f"[{low:g}, {high:g}]: declare the true bounds, bd.features.observed(function, low, high), "
                "or correct the function"
            )
        return number


def read_signature(name: str, observed: Observed, places: Places | None = None) -> Reading:
    """Return the reading of a signal, after inspecting the arguments of its function once.

    `places` is for arrays over an environment's own states.
    """
    table = observed.function
    if isinstance(table, ArrivalTable) and places is not None:
        return Reading(name, lambda step, moment: table(*places(step, moment)), observed)
    function = observed.function
    match _count_required(name, function):
        case 1:

            def call(step: Step, moment: CallSite) -> object:
                del moment
                return function(step)
        case 4:

            def call(step: Step, moment: CallSite) -> object:
                del moment
                return function(step.obs, step.action, step.next_obs, step.info)

        case count:
            raise ModelError(
                f"signal {name!r} is a function with {count} required arguments: write it with one, a step with the "
                f"fields {', '.join(Step._fields)}, or with the four obs, action, next_obs, info"
            )
    return Reading(name, call, observed)


def _suggest_entry(value: object) -> str:
    """Return how to make a number of a vector; nothing for anything else."""
    size = len(value) if isinstance(value, list | tuple) else value.size if isinstance(value, np.ndarray) else 0
    return f", and these are {size}: choose one, as in lambda step: step.reward[0]" if size else ""


def _count_required(name: str, function: Callable[..., object]) -> int:
    """Count the required positional arguments of a function."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ModelError(
            f"signal {name!r} does not tell its arguments: wrap it, for example lambda step: function(step.reward)"
        ) from None
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    named = [parameter.name for parameter in required if parameter.kind is parameter.KEYWORD_ONLY]
    if named:
        raise ModelError(f"signal {name!r} needs {', '.join(named)} by name, which nobody gives: set a default")
    return sum(parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in required)
