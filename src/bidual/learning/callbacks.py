"""Callbacks of `learn`: objects that see episodes, bounds and candidate solutions while it runs, and can stop it.

A method that returns True stops learning, as an end of the budget would: the batch is finished, and the run concludes.
One that raises stops it too, with its error, which gets a `state` to go on from.
"""

import abc
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import final

import numpy as np

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual._base.types import Episode
from bidual.learning.learned import Learned, LearnProgress
from bidual.world.policies import Played

__all__ = ["AbstractCallback", "EpisodeReport", "KeepBest", "LogProgress", "StopWhen"]

LOGGER = logging.getLogger("bidual.learn")
LOGGER.addHandler(logging.NullHandler())


@final
@dataclass(frozen=True, eq=False)
class EpisodeReport:
    """An episode of learning, as callbacks see it.

    `values` are what it reached: "objective" and linear constraints by name, in the user's sense and units.
    """

    __repr__ = describe_briefly

    number: int  # from 1
    policy: Played
    episode: Episode
    values: Mapping[str, float]


class AbstractCallback(abc.ABC):  # noqa: B024 - every method may be left out
    """An object that sees how learning goes on, and can stop it. Override what you need; True stops, None goes on."""

    def on_episode(self, episode: EpisodeReport) -> bool | None:
        """See every episode of learning, in order; those of a batch when all of it has been run.

        A run that was killed and resumed shows the episodes after its last checkpoint again.
        """
        del episode

    def on_progress(self, progress: LearnProgress) -> bool | None:
        """See the bounds where they are computed: after 16, 32, 64, ... episodes, and at the end."""
        del progress

    def on_solution(self, solution: Learned) -> bool | None:
        """See the solution to end with, where bounds are computed from 100 episodes on, and at the end.

        Only where some callback has this method are there such solutions before the end: their policies are evaluated
        on fresh episodes of their own. All their bounds hold together. True makes the solution the result.
        """
        del solution


@final
@dataclass(frozen=True)
class StopWhen(AbstractCallback):
    """The condition under which learning stops early: once this is certified.

    Args:
        gap: the policy is at most this far from optimal.
        violation: it violates every constraint by at most this.
    """

    gap: float
    violation: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings."""
        numbers = isinstance(self.gap, Real) and isinstance(self.violation, Real)
        if not (numbers and self.gap > 0 and self.violation >= 0):
            raise ProblemError(f"stop_when needs gap > 0 and violation >= 0; got {self.gap!r} and {self.violation!r}")

    def on_solution(self, solution: Learned) -> bool:
        """Return whether a solution is certified to be this good."""
        if solution.gap is None or solution.gap > self.gap:
            return False
        return all(constraint.violation_upper <= self.violation for constraint in solution.constraints)


def stop_when(gap: float, violation: float = 0.0) -> StopWhen:
    """Stop as soon as the policy is certified to be within `gap` of optimal and to violate by at most `violation`."""
    return StopWhen(gap, violation)


@final
class KeepBest(AbstractCallback):
    """A keeper of the best solution on the way, in `solution`; None before the first.

    Those that are certified to violate by at most `violation` come first, by their certified value; then others, by the
    violation that they may have.
    """

    def __init__(self, violation: float = 0.0) -> None:
        if not (isinstance(violation, Real) and violation >= 0):
            raise ProblemError(f"KeepBest needs violation >= 0; got {violation!r}")
        self.violation = float(violation)
        self.solution: Learned | None = None

    def on_solution(self, solution: Learned) -> None:
        """Keep the solution if it is better than the one so far."""
        if self.solution is None or self._rank(solution) < self._rank(self.solution):
            self.solution = solution

    def _rank(self, solution: Learned) -> tuple[float, float, float]:
        """Return what is smaller for better solutions."""
        maximises = solution.sense == "maximize"
        reached, sign = (solution.lower, -1.0) if maximises else (solution.upper, 1.0)
        worst = max((one.violation_upper for one in solution.constraints), default=0.0)
        certified = np.inf if reached is None else sign * reached
        return (0.0 if worst <= self.violation else worst), certified, sign * solution.value


@final
@dataclass(frozen=True)
class LogProgress(AbstractCallback):
    """A callback that writes to the logger "bidual.learn": every `learn` has one, unless another is given.

    Args:
        level: of bounds and solutions.
        every: also log each episode whose number is a multiple of this, at the level DEBUG; None: no episode.
    """

    level: int = logging.INFO
    every: int | None = None
    logger: logging.Logger = field(default=LOGGER, repr=False)

    def __post_init__(self) -> None:
        """Check the settings."""
        for name, value, least in (("level", self.level, 0), ("every", self.every, 1)):
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
            if not (whole or (name == "every" and value is None)):
                raise ProblemError(f"{name} of LogProgress must be a whole number, at least {least}; got {value!r}")

    def on_episode(self, episode: EpisodeReport) -> None:
        """Log what the episode reached, if it is one to log."""
        if self.every is not None and episode.number % self.every == 0 and self.logger.isEnabledFor(logging.DEBUG):
            values = ", ".join(f"{name} {value:.6g}" for name, value in episode.values.items())
            self.logger.debug("episode %d: %s", episode.number, values)

    def on_progress(self, progress: LearnProgress) -> None:
        """Log the bounds."""
        numbers = (("bound", progress.bound), ("reached", progress.reached), ("violation", progress.violation))
        # Six digits of the largest: what is 0 up to rounding is to be read as 0.
        digits = 5 - math.floor(math.log10(max((abs(number) for _, number in numbers if number), default=1.0)))
        known = "".join(f", {name} {round(number, digits) + 0.0:.6g}" for name, number in numbers if number is not None)
        counts = (progress.episodes, known, progress.plans, progress.seconds)
        self.logger.log(self.level, "%d episodes%s, %d plans, %.1f s", *counts)
