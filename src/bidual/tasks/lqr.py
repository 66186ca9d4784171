"""A noisy double integrator with quadratic costs: the exact optimum is that of the Riccati recursion."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Float

from bidual.features import Computed, computed, linear, signal
from bidual.models import KNR
from bidual.problem import Problem
from bidual.tasks._control_laws import A, B
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.control import LinearQuadratic
    from bidual.explorers import Controls

NOISE, FORCE = 0.1, 5.0
SPEED_COST, FORCE_COST = 0.1, 0.1
_PICTURE = Picture(("position", "speed"), ("force",), seconds=0.2)


def lqr(horizon: int = 20) -> Task:
    """Minimise the sum of position^2 + 0.1 speed^2 + 0.1 force^2, of the state arrived at and the force of a step."""
    import cvxpy as cp

    x = _signals().embedding(horizon, total=True)
    return _task(Problem(cp.Minimize(x.distance + FORCE_COST * x.effort)))


def lqr_effort(budget: float = 3.0, horizon: int = 20) -> Task:
    """The same without a cost of forces, whose expected sum of squares must be within `budget` instead."""
    import cvxpy as cp

    x = _signals().embedding(horizon, total=True)
    return _task(Problem(cp.Minimize(x.distance), {"effort": x.effort <= open_limit("budget", budget)}))


def quadratic(horizon: int, price: float = FORCE_COST) -> "LinearQuadratic":
    """The same with a price of forces, as a linear-quadratic problem without limits of forces."""
    from bidual.control import linear_quadratic

    # x = (s, u, s'): costs are of the state arrived at, because nobody can change the first one.
    M = np.diag([0.0, 0.0, price, 1.0, SPEED_COST])
    return linear_quadratic(A, B, M, NOISE**2 * np.eye(2), horizon)


def _task(problem: Problem) -> Task:
    return Task(
        problem, None, model=KNR(linear(), ridge=1e-3, noise=NOISE), env=_env(), explorer=_explorer(), picture=_PICTURE
    )


def _signals() -> Computed:
    # Bounds that a policy worth running never meets: they are there so that episodes can certify something.
    return computed(distance=signal(_distance, 0.0, 20.0), effort=signal(_effort, 0.0, FORCE**2))


def _distance(x: Float[Array, "2"], u: Float[Array, "1"], y: Float[Array, "2"]) -> Float[Array, ""]:
    return y[0] ** 2 + SPEED_COST * y[1] ** 2


def _effort(x: Float[Array, "2"], u: Float[Array, "1"], y: Float[Array, "2"]) -> Float[Array, ""]:
    return u @ u


def _env() -> Any:  # noqa: ANN401 - Gymnasium is imported at first use
    from bidual.tasks._control_envs import DoubleIntegrator

    return DoubleIntegrator(NOISE, FORCE)


def _explorer() -> "Controls":
    from bidual.control import Feedback, Thompson, icem
    from bidual.explorers import Controls

    return Controls(Thompson(), icem(64, 10), Feedback())


ENTRY = Entry(
    name="lqr",
    summary="bring a noisy double integrator to rest at quadratic costs (to be learned)",
    source="the textbook case of linear dynamics and quadratic costs",
    constraints=(),
    optimum=5.570863,
    build=lqr,
)
EFFORT = Entry(
    name="lqr-effort",
    summary="the same, with an expected sum of squared forces within `budget` (to be learned)",
    source="the same double integrator, with a limit added here",
    constraints=("effort",),
    optimum=6.634285,
    build=lqr_effort,
)
