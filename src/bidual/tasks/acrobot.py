"""Two links to be swung up by a torque between them: the acrobot, with the height of its tip as reward."""

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bidual.models import KNR
from bidual.problem.features import Computed, computed, fourier, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._lc3_laws import LINK_STEP, step_observed_acrobot
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

LAW = partial(step_observed_acrobot, xp=jnp)  # for planners that know it
_NAMES = ("upper cosine", "upper sine", "lower cosine", "lower sine", "upper speed", "lower speed")


def _place_joints(x: Float[np.ndarray, "6 k"]) -> Float[np.ndarray, "3 2 k"]:
    """Return the hinge, the middle and the tip; links of length 1, hanging at angle 0."""
    middle = np.stack([x[1], -x[0]])
    along = np.stack([x[1] * x[2] + x[0] * x[3], -(x[0] * x[2] - x[1] * x[3])])  # sine and cosine of the sum
    return np.stack([np.zeros_like(middle), middle, middle + along])


# The heights of upper and lower link, -cos(first) and -cos(first + second): each between -1 and 1.
_HEIGHT = "-next_obs[0] - (next_obs[0] * next_obs[2] - next_obs[1] * next_obs[3])"
_PICTURE = Picture(
    _NAMES,
    ("torque",),
    turns=(("upper angle", 0, 1), ("lower angle", 2, 3)),
    joints=_place_joints,
    ground=((-1.0, 0.0), (1.0, 0.0)),
    seconds=LINK_STEP,
)


def acrobot(horizon: int = 200) -> Task:
    """Maximise the sum of the heights of the tip over the hinge, of the states arrived at."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.height)), plans=1)


def acrobot_effort(budget: float = 100.0, horizon: int = 200) -> Task:
    """Maximise the same with an expected sum of torque^2 within `budget`."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.height), {"effort": x.effort <= open_limit("budget", budget)}), plans=4)


def _build_task(problem: Problem, plans: int) -> Task:
    from bidual.tasks._lc3_envs import Acrobot

    # LC3 has 200 features, all scales 1 and a ridge of 0.01. One step is foretold ten times better so. With 400
    # features and the same optimism, what was learned by episode 25 is partly lost again by episode 100.
    model = KNR(fourier(800, 4.5, scales=(0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0)), ridge=1e-5)
    return Task(problem, None, model=model, env=Acrobot(), explorer=_build_explorer(plans), picture=_PICTURE)


def _build_signals() -> Computed:
    return computed(height=signal(_HEIGHT, -2.0, 2.0), effort=signal(SQUARED, 0.0, 1.0))


def _build_explorer(plans: int) -> "Controls":
    from bidual.loop.explorers import Controls, Corrective
    from bidual.planners.control import Mpc, Thompson, mppi

    inner = Corrective(gap=None, max_plans=plans)
    return Controls(Thompson(0.1), mppi(256, 3, deviation=1.0), Mpc(3, 30), inner=inner, rollouts=2)


ENTRY = Entry(
    name="acrobot",
    summary="swing two links up by a torque between them (to be learned)",
    source=(
        "Gymnasium's Acrobot-v1 with any torque up to 1, paid by height for 200 steps as in LC3 "
        "(Kakade et al. 2020), which has three torques"
    ),
    objective="max height of the tip",
    limits=(),
    optimum=None,
    build=acrobot,
    episodes=50,
    family="control",
)
EFFORT = Entry(
    name="acrobot-effort",
    summary="the same, with an expected sum of squared torques within `budget` (to be learned)",
    source="the same acrobot, with a limit added here",
    objective="max height of the tip",
    limits=("effort <= budget",),
    optimum=None,
    build=acrobot_effort,
    episodes=50,
    family="control",
)

ENTRIES = (
    ENTRY,
    EFFORT,
)
