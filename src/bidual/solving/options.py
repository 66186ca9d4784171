"""The options of a solve: the requested gap, the budgets, and the players."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from bidual._base.errors import ProblemError
from bidual.certificate.constraints import Goal
from bidual.dual import AbstractDual
from bidual.models import Known, Stationary
from bidual.planners import (
    AbstractSoftPlanner,
    BackwardInduction,
    PolicyIteration,
    SparseInduction,
    choose_exact_planner,
)
from bidual.solving.solution import Progress

_SHARE = 1e-6  # of the size of the bounds, the default gap
LEAST_FLOOR = float(np.finfo(np.float64).tiny)  # a default goal has a floor, if one that does not matter


@final
@dataclass(frozen=True, eq=False)
class SolveOptions:
    """The settings of a solve, checked."""

    gap: float | None = None  # None: a millionth of the problem's own scale
    relative: bool = False
    time_limit: float | None = None
    max_plans: int | None = None
    dual: AbstractDual[Any, Any] | None = None  # None: the one that fits the program
    planner: AbstractSoftPlanner[Any] | None = None  # None: the exact one for the model
    progress: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_budgets(self.goal.gap, self.time_limit, self.max_plans)
        _check_players(self.dual, self.planner, self.progress)

    @property
    def goal(self) -> Goal:
        """The test of whether the gap is closed."""
        return Goal(_SHARE, True) if self.gap is None else Goal(self.gap, self.relative)

    def goal_at(self, scale: float, noise: float = 0.0) -> Goal:
        """Return the goal for a problem whose objective is of this size: by default not less than a share of that.

        Nor less than the noise of its arithmetic, where that is known.
        """
        if self.gap is not None or not math.isfinite(scale):
            return self.goal
        return self.goal._replace(floor=max(_SHARE * scale, noise if math.isfinite(noise) else 0.0, LEAST_FLOOR))

    @property
    def has_budget(self) -> bool:
        """Whether the caller says how long to search."""
        return self.time_limit is not None or self.max_plans is not None

    def best_planner(self, model: Known | Stationary) -> AbstractSoftPlanner[Any]:
        """Return the given planner, or the exact one for this kind of model."""
        endless = isinstance(model, Stationary)
        if isinstance(self.planner, BackwardInduction | SparseInduction if endless else PolicyIteration):
            time, suited = ("an unbounded time", "PolicyIteration") if endless else ("a horizon", "BackwardInduction")
            raise ProblemError(
                f"{type(self.planner).__name__} cannot plan over {time}: leave planner out, or give {suited}()"
            )
        return self.planner or choose_exact_planner(model)

    def is_spent(self, state: Progress) -> bool:
        """Check whether a budget is used up."""
        return (self.time_limit is not None and state.seconds >= self.time_limit) or state.plans == self.max_plans


def _check_budgets(gap: float, time_limit: float | None, max_plans: int | None) -> None:
    if not (_is_number(gap) and math.isfinite(gap) and gap > 0):
        raise ProblemError(f"gap must be a positive number; got {gap!r}")
    if time_limit is not None and not (_is_number(time_limit) and time_limit > 0):
        raise ProblemError(f"the time limit must be positive seconds; got {time_limit!r}")
    if max_plans is not None and not (_is_number(max_plans) and max_plans == int(max_plans) and max_plans >= 1):
        raise ProblemError(f"the number of plans must be a whole number, at least 1; got {max_plans!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _check_players(dual: object, planner: object, progress: object) -> None:
    if progress is not None and not callable(progress):
        raise ProblemError(f"progress must be a function; got {progress!r}")
    for player, kind, room in ((dual, AbstractDual, "bd.dual"), (planner, AbstractSoftPlanner, "bd.planners")):
        if player is not None and not isinstance(player, kind):
            raise ProblemError(f"expected an instance of {kind.__name__}, such as those of {room}, got {player!r}")
