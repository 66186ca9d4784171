"""The callbacks of a call of `learn` as one: what they want to see, and how their answers and errors are handled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np

from bidual._base.errors import FAILURES, ProblemError
from bidual.learning.callbacks import AbstractCallback, EpisodeReport, LogProgress, StopWhen
from bidual.learning.learned import Learned, LearnProgress
from bidual.learning.metrics import name_values
from bidual.learning.setup import LearnSetup
from bidual.loop.vpdpo import BatchIteration

Seen = TypeVar("Seen")


class CallbackFailed(Exception):
    """The failure of a callback, with what it raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@final
@dataclass(frozen=True, eq=False)
class Watch:
    """All callbacks, and the function that displays progress. The methods return whether some callback stops."""

    callbacks: tuple[AbstractCallback, ...]
    goal: StopWhen | None
    progress: Callable[[LearnProgress], None] | None = None

    @property
    def gap(self) -> float | None:
        """The gap that was asked for, with which a feasible solution counts as optimal."""
        return None if self.goal is None else self.goal.gap

    @property
    def needs_solutions(self) -> bool:
        """Whether some callback wants to see solutions on the way."""
        return any(type(one).on_solution is not AbstractCallback.on_solution for one in self.callbacks)

    def show(self, progress: LearnProgress) -> None:
        """Call the function that displays progress."""
        if self.progress is not None:
            _call(self.progress, progress)

    def see_episodes(self, setup: LearnSetup, turn: BatchIteration) -> bool:
        """Show the episodes of a batch, to callbacks that want them."""
        wanting = [one for one in self.callbacks if _wants_episodes(one)]
        if not wanting:
            return False
        values, first = name_values(setup, turn.episodes), turn.state.episodes - len(turn.episodes) + 1
        stops = False
        for i, episode in enumerate(turn.episodes):
            each = {name: float(numbers[i]) for name, numbers in values.items()}
            report = EpisodeReport(first + i, turn.choice.policy, episode, each)
            stops |= any([_ask(one.on_episode, report) for one in wanting])
        return stops

    def see_progress(self, progress: LearnProgress) -> bool:
        """Show bounds that were computed."""
        self.show(progress)
        return any([_ask(one.on_progress, progress) for one in self.callbacks])

    def see_solution(self, solution: Learned) -> bool:
        """Show a solution."""
        return any([_ask(one.on_solution, solution) for one in self.callbacks])


def watch(
    callback: AbstractCallback | Sequence[AbstractCallback] | None,
    goal: StopWhen | None,
    progress: Callable[[LearnProgress], None] | None = None,
) -> Watch:
    """Bring callbacks, the goal, which is one of them, and the display together; log where nobody else does."""
    given: list[AbstractCallback] = []
    for one in [] if callback is None else callback if isinstance(callback, list | tuple) else [callback]:
        if not isinstance(one, AbstractCallback):
            raise ProblemError(
                f"callback must be an object whose class derives from bd.callbacks.AbstractCallback, or several of "
                f"them; got {one!r:.80}" + (": make an object of it" if isinstance(one, type) else "")
            )
        given.append(one)
    goals = [one for one in (goal, *given) if isinstance(one, StopWhen)]
    if len(goals) > 1:
        raise ProblemError("learning has one goal: give stop_when=..., or one bd.stop_when(...) among the callbacks")
    logs = () if any(isinstance(one, LogProgress) for one in given) else (LogProgress(),)
    everyone = (*logs, *given, *(() if goal is None else (goal,)))
    return Watch(everyone, goals[0] if goals else None, progress)


def _wants_episodes(callback: AbstractCallback) -> bool:
    if isinstance(callback, LogProgress):
        return callback.every is not None
    return type(callback).on_episode is not AbstractCallback.on_episode


def _ask(method: Callable[[Seen], bool | None], seen: Seen) -> bool:
    """Return the answer of a callback; nothing is no."""
    answer = _call(method, seen)
    if answer is not None and not isinstance(answer, bool | np.bool_):
        wrong = TypeError(
            f"{method.__qualname__} must return True to stop, or None to go on; it returned {answer!r:.80}"
        )
        raise CallbackFailed(wrong)
    return bool(answer)


def _call(function: Callable[[Seen], object], seen: Seen) -> object:
    try:
        return function(seen)
    except FAILURES as error:
        raise CallbackFailed(error) from error
