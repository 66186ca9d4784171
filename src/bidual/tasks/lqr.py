"""A noisy double integrator with quadratic costs: the exact optimum is that of the Riccati recursion."""

from typing import TYPE_CHECKING

import numpy as np

from bidual.models import KNR
from bidual.problem.features import Computed, computed, linear, quadratic
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import A, B
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Riccati
    from bidual.planners.control import LinearQuadratic

NOISE, FORCE = 0.1, 5.0
SPEED_COST, FORCE_COST = 0.1, 0.1
_PICTURE = Picture(("position", "speed"), ("force",), seconds=0.2)


def lqr(horizon: int = 20, highest: float = np.inf) -> Task:
    """Minimise the sum of position^2 + 0.1 speed^2 + 0.1 force^2, of the state arrived at and the force of a step.

    Where the cost of a step is clipped at `highest`, episodes certify an upper bound for a policy; where it is not, it
    is quadratic, and there is a lower bound for all policies.
    """
    import cvxpy as cp

    x = _build_signals(highest).embedding(horizon, total=True)
    return _build_task(Problem(cp.Minimize(x.distance + FORCE_COST * x.effort)))


def lqr_effort(budget: float = 3.0, horizon: int = 20, highest: float = np.inf) -> Task:
    """Minimise the same without a cost of forces, whose expected sum of squares must be within `budget` instead."""
    import cvxpy as cp

    x = _build_signals(highest).embedding(horizon, total=True)
    return _build_task(Problem(cp.Minimize(x.distance), {"effort": x.effort <= open_limit("budget", budget)}))


def exact(horizon: int, price: float = FORCE_COST) -> "LinearQuadratic":
    """Build the same with a price of forces, as a linear-quadratic problem without limits of forces."""
    from bidual.planners.control import linear_quadratic

    # x = (s, u, s'): costs are of the state arrived at, because the first one cannot be changed.
    M = np.diag([0.0, 0.0, price, 1.0, SPEED_COST])
    return linear_quadratic(A, B, M, NOISE**2 * np.eye(2), horizon)


def _build_task(problem: Problem) -> Task:
    from bidual.tasks._control_envs import DoubleIntegrator

    # The true W is (A - I, B), of norm 0.2: the effect of a step of 0.2 is known to be about as large as that.
    model = KNR(linear(), ridge=1e-3, noise=NOISE, bound=0.5, first=(1.0, 0.0))
    return Task(
        problem, None, model=model, env=DoubleIntegrator(NOISE, FORCE), explorer=_build_explorer(), picture=_PICTURE
    )


def _build_signals(highest: float) -> Computed:
    # Of (s, u, s'). No control is beyond its limits, so that the bounds of efforts are never met.
    distance = quadratic(np.diag([0.0, 0.0, 0.0, 1.0, SPEED_COST]), low=0.0, high=highest)
    return computed(distance=distance, effort=quadratic(np.diag([0.0, 0, 1, 0, 0]), low=0.0, high=FORCE**2))


def _build_explorer() -> "Riccati":
    from bidual.loop.explorers import Controls, Riccati
    from bidual.planners.control import Feedback, Thompson, icem

    return Riccati(otherwise=Controls(Thompson(), icem(64, 10), Feedback()))


ENTRY = Entry(
    name="lqr",
    summary="bring a noisy double integrator to rest at quadratic costs (to be learned)",
    source="the textbook case of linear dynamics and quadratic costs",
    objective="min quadratic cost",
    limits=(),
    optimum=5.570863,
    build=lqr,
    episodes=120,
    family="control",
)
EFFORT = Entry(
    name="lqr-effort",
    summary="the same, with an expected sum of squared forces within `budget` (to be learned)",
    source="the same double integrator, with a limit added here",
    objective="min quadratic cost",
    limits=("effort <= budget",),
    optimum=6.634285,
    build=lqr_effort,
    episodes=120,
    family="control",
)

ENTRIES = (
    ENTRY,
    EFFORT,
)
