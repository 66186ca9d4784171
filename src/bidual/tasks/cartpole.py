"""A pole to be balanced on a cart, nearly upright at first: the cart pole, with the pole's height as reward."""

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bidual.models import KNR
from bidual.problem.features import Computed, computed, fourier, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._lc3_laws import CART_STEP, HALF, step_cartpole
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

LAW = partial(step_cartpole, xp=jnp)  # for planners that know it
_UPRIGHT = "cos(next_obs[2]) - 0.01 * next_obs[0] ** 2"  # less the cost of being away from the middle
_LEAST = -2.0  # upside down, ten metres away: no step costs more


def _place_joints(x: Float[np.ndarray, "4 k"]) -> Float[np.ndarray, "2 2 k"]:
    """Return the cart and the tip of its pole."""
    cart = np.stack([x[0], np.zeros_like(x[0])])
    return np.stack([cart, cart + 2 * HALF * np.stack([np.sin(x[2]), np.cos(x[2])])])


_NAMES = ("position", "speed", "angle", "turning speed")
_PICTURE = Picture(_NAMES, ("force",), joints=_place_joints, ground=((-1.2, 0.0), (1.2, 0.0)), seconds=CART_STEP)


def cartpole(horizon: int = 200) -> Task:
    """Maximise the sum of cos(angle) - 0.01 position^2 of the states arrived at."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.upright)), plans=1)


def cartpole_effort(budget: float = 1.0, horizon: int = 200) -> Task:
    """Maximise the same with an expected sum of force^2 within `budget`; a force of 1 is ten newtons."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.upright), {"effort": x.effort <= open_limit("budget", budget)}), plans=4)


def _build_task(problem: Problem, plans: int) -> Task:
    from bidual.tasks._lc3_envs import CartPole

    phi = fourier(200, 1.5)  # of position, speed, angle, its speed and force in their units, as in LC3
    return Task(
        problem, None, model=KNR(phi, ridge=5e-4), env=CartPole(), explorer=_build_explorer(plans), picture=_PICTURE
    )


def _build_signals() -> Computed:
    return computed(upright=signal(_UPRIGHT, _LEAST, 1.0), effort=signal(SQUARED, 0.0, 1.0))


def _build_explorer(plans: int) -> "Controls":
    from bidual.loop.explorers import Controls, Corrective
    from bidual.planners.control import Mpc, Thompson, icem

    inner = Corrective(gap=None, max_plans=plans)
    return Controls(Thompson(0.3), icem(128, 5, deviation=0.2), Mpc(5, 50), inner=inner, rollouts=4)


ENTRY = Entry(
    name="cartpole",
    summary="balance a pole on a cart (to be learned)",
    source=(
        "Gymnasium's CartPole-v1 with any force up to 10 N, paid by height for 200 steps as in LC3 "
        "(Kakade et al. 2020), which has two forces"
    ),
    objective="max uprightness",
    limits=(),
    optimum=None,
    build=cartpole,
    episodes=20,
    family="control",
)
EFFORT = Entry(
    name="cartpole-effort",
    summary="the same, with an expected sum of squared forces within `budget` (to be learned)",
    source="the same cart and pole, with a limit added here",
    objective="max uprightness",
    limits=("effort <= budget",),
    optimum=None,
    build=cartpole_effort,
    episodes=20,
    family="control",
)

ENTRIES = (
    ENTRY,
    EFFORT,
)
