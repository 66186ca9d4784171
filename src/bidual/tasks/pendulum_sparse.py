"""The pendulum with rewards only near the top and at rest there, and a cost of pushing: idling loses nothing.

H-UCRL's (Curi, Berkenkamp and Krause 2020) over its 400 steps of 1/80 s, with one liberty: a control is held for four.
"""

import math
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Float

from bidual._base.errors import TaskError
from bidual.models import KNR
from bidual.problem.features import computed, fourier, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._control_laws import SPARSE
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

_AT_MARGIN = 0.1  # the value of a tolerance at the end of its margin
_PICTURE = Picture(("cosine", "sine", "speed"), ("torque",), angle=(0, 1), seconds=SPARSE.repeat * SPARSE.dt)


def pendulum_sparse(cost: float = 0.1, horizon: int = 100) -> Task:
    """Maximise the sum of rewards near the top, less `cost` for every control beyond a tenth."""
    import cvxpy as cp

    if not (math.isfinite(cost) and cost >= 0):
        raise TaskError(f"cost={cost}: what a push costs must be a number of at least 0")
    x = computed(reward=signal(_compute_reward, 0.0, 1.0), push=signal(_push, 0.0, 1.0)).embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.reward - cost * x.push)))


def pendulum_sparse_effort(budget: float = 20.0, horizon: int = 100) -> Task:
    """Maximise the sum of rewards near the top with an expected sum of torque^2 within `budget`."""
    import cvxpy as cp

    signals = computed(reward=signal(_compute_reward, 0.0, 1.0), effort=signal(SQUARED, 0.0, SPARSE.torque**2))
    x = signals.embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.reward), {"effort": x.effort <= open_limit("budget", budget)}))


def compute_tolerance(x: Float[Array, ""], low: float, high: float, margin: float) -> Float[Array, ""]:
    """Return 1 between two ends, falling off like a normal density to 0.1 at the margin, as in DeepMind's suite."""
    beyond = jnp.maximum(jnp.maximum(low - x, x - high), 0.0) / margin
    return jnp.exp(math.log(_AT_MARGIN) * beyond**2)


def _build_task(problem: Problem) -> Task:
    from bidual.tasks._control_envs import Pendulum

    # A ridge that says of what was never seen that it does not move: with a hundredth of it a single gentle episode
    # often tells the estimate how to get up, and nothing is left to explore.
    model = KNR(fourier(128, 1.5, scales=(1.0, 1.0, 10.0, SPARSE.torque)), ridge=1e-2)
    return Task(problem, None, model=model, env=Pendulum(SPARSE), explorer=_build_explorer(), picture=_PICTURE)


def _compute_reward(x: Float[Array, "3"], u: Float[Array, "1"], y: Float[Array, "3"]) -> Float[Array, ""]:
    return compute_tolerance(y[0], 0.95, 1.0, 0.1) * compute_tolerance(y[2], -0.5, 0.5, 0.5)


def _push(x: Float[Array, "3"], u: Float[Array, "1"], y: Float[Array, "3"]) -> Float[Array, ""]:
    return 1.0 - compute_tolerance(u[0], -0.1, 0.1, 0.1)


def _build_explorer() -> "Controls":
    from bidual.loop.explorers import Controls
    from bidual.planners.control import Hallucinated, Mpc, icem

    # A sequence of 100 controls that balances at the top is hardly ever drawn; half of it, again and again, is. Nothing
    # is random but the planner, so one path of the model gives the value of a plan.
    return Controls(Hallucinated(0.1, rank=64), icem(128, 8, deviation=1.0), Mpc(4, 50), rollouts=1, push=0.1)


ENTRY = Entry(
    name="pendulum-sparse",
    summary="swing a pendulum up that pays only at the top, and charges for pushing (to be learned)",
    source="the sparse pendulum of H-UCRL (Curi, Berkenkamp and Krause 2020), each control held for four of its steps",
    objective="max reward less pushes",
    limits=(),
    optimum=None,
    build=pendulum_sparse,
    episodes=12,
    family="control",
)
EFFORT = Entry(
    name="pendulum-sparse-effort",
    summary="the same, with an expected sum of squared torques within `budget` instead of a charge (to be learned)",
    source="the same pendulum, with a limit added here",
    objective="max reward",
    limits=("effort <= budget",),
    optimum=None,
    build=pendulum_sparse_effort,
    episodes=12,
    family="control",
)

ENTRIES = (
    ENTRY,
    EFFORT,
)
