"""The choice among executions of a plan by what they cost in the model: how far ahead to plan, and how often."""

from dataclasses import dataclass
from typing import final

import numpy as np

from bidual._base.errors import ProblemError
from bidual._base.keys import Draw, Purpose
from bidual.planners.control._execution import AbstractExecution, ExecutedControls, PlannedControls
from bidual.planners.control._rollouts import embedding


@final
@dataclass(frozen=True)
class Cheapest(AbstractExecution):
    """The execution that is cheapest on a few paths of the model, the same noise for each.

    A pole is kept upright by short plans that are made again and again; a car that has to swing back first needs long
    ones. A model that was learned from a few episodes mostly knows which.

    Args:
        executions: what to choose from, `Mpc(2, 40)` and `Mpc(5, 100)` for instance.
        paths: the number of paths for each.
    """

    executions: tuple[AbstractExecution, ...]
    paths: int = 2

    def __post_init__(self) -> None:
        if len(self.executions) < 2 or not all(isinstance(one, AbstractExecution) for one in self.executions):
            raise ProblemError(
                f"executions must be a tuple of two or more, (Mpc(2, 40), Mpc(5, 100)); got {self!r:.80}"
            )
        if not isinstance(self.paths, int) or isinstance(self.paths, bool) or self.paths < 1:
            raise ProblemError(f"paths must be a whole number of at least 1; got {self.paths!r}")

    def ahead(self, horizon: int) -> int:
        """Return the longest plan that one of them needs."""
        return max(one.ahead(horizon) for one in self.executions)

    def __call__(self, planned: PlannedControls) -> ExecutedControls:
        """Turn the sequence into a policy in each way, and return the cheapest."""
        horizon = planned.psi.horizon
        found = [one(planned._replace(nominal=planned.nominal[: one.ahead(horizon)])) for one in self.executions]
        costs = [self._evaluate(planned, one) for one in found]
        return found[int(np.argmin(costs))]

    def _evaluate(self, planned: PlannedControls, executed: ExecutedControls) -> float:
        """Return the mean cost on the paths, infinite where one passes all bounds."""
        draw = Draw(0, Purpose.PLAN, 0)
        seen = embedding(executed.law, planned.dynamics, planned.psi, self.paths, draw.seed_words())
        return float(np.vdot(planned.theta, seen)) if np.isfinite(seen).all() else np.inf
