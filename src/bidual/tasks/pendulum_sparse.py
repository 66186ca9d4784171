"""The pendulum that pays only near the top and at rest there, and costs torque: who does nothing loses nothing."""

import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from bidual.features import Computed, computed, fourier, signal
from bidual.models import KNR
from bidual.problem import Problem
from bidual.tasks._control_laws import SPARSE
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.explorers import Controls

_EFFORT_COST = 0.1
_AT_MARGIN = 0.1  # what a tolerance leaves at the end of its margin
_PICTURE = Picture(("cosine", "sine", "speed"), ("torque",), angle=(0, 1), seconds=SPARSE.repeat * SPARSE.dt)


def pendulum_sparse(horizon: int = 60) -> Task:
    """Maximise the sum of rewards near the top less 0.1 torque^2; a control is held for four steps of 1/80 s."""
    import cvxpy as cp

    x = _signals().embedding(horizon, total=True)
    return _task(Problem(cp.Maximize(x.reward - _EFFORT_COST * x.effort)))


def pendulum_sparse_effort(budget: float = 20.0, horizon: int = 60) -> Task:
    """Maximise the sum of rewards near the top with an expected sum of torque^2 within `budget`."""
    import cvxpy as cp

    x = _signals().embedding(horizon, total=True)
    return _task(Problem(cp.Maximize(x.reward), {"effort": x.effort <= open_limit("budget", budget)}))


def tolerance(x: Float[Array, ""], low: float, high: float, margin: float) -> Float[Array, ""]:
    """1 between two ends, and falling off like a normal density to 0.1 at the margin: that of DeepMind's suite."""
    beyond = jnp.maximum(jnp.maximum(low - x, x - high), 0.0) / margin
    return jnp.exp(math.log(_AT_MARGIN) * beyond**2)


def _task(problem: Problem) -> Task:
    phi = fourier(128, 1.5, scales=(1.0, 1.0, 10.0, SPARSE.torque))
    return Task(problem, None, model=KNR(phi, ridge=1e-4), env=_env(), explorer=_explorer(), picture=_PICTURE)


def _signals() -> Computed:
    return computed(reward=signal(_reward, 0.0, 1.0), effort=signal(_effort, 0.0, SPARSE.torque**2))


def _reward(x: Float[Array, "3"], u: Float[Array, "1"], y: Float[Array, "3"]) -> Float[Array, ""]:
    return tolerance(y[0], 0.95, 1.0, 0.1) * tolerance(y[2], -0.5, 0.5, 0.5)


def _effort(x: Float[Array, "3"], u: Float[Array, "1"], y: Float[Array, "3"]) -> Float[Array, ""]:
    return u @ u


def _env() -> Any:  # noqa: ANN401 - Gymnasium is imported at first use
    from bidual.tasks._control_envs import Pendulum

    return Pendulum(SPARSE)


def _explorer() -> "Controls":
    from bidual.control import Feedback, Hallucinated, icem
    from bidual.explorers import Controls

    return Controls(Hallucinated(0.01), icem(256, 20, deviation=1.0), Feedback())


ENTRY = Entry(
    name="pendulum-sparse",
    summary="swing a pendulum up that pays only at the top, and costs torque (to be learned)",
    source="the sparse pendulum of H-UCRL (Curi, Berkenkamp and Krause 2020), freely: controls held for four steps",
    constraints=(),
    optimum=None,
    build=pendulum_sparse,
)
EFFORT = Entry(
    name="pendulum-sparse-effort",
    summary="the same, with an expected sum of squared torques within `budget` instead of their cost (to be learned)",
    source="the same pendulum, with a limit added here",
    constraints=("effort",),
    optimum=None,
    build=pendulum_sparse_effort,
)
