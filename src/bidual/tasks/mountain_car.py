"""A car in a valley that has to swing back before its engine can drive it out, with the position as reward."""

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bidual.models import KNR
from bidual.problem.features import Computed, computed, fourier, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._lc3_laws import FASTEST, LEFT, RIGHT, step_mountain_car
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

GOAL = 0.45  # where Gymnasium's flag stands
LAW = partial(step_mountain_car, xp=jnp)  # for planners that know it


def _place_joints(x: Float[np.ndarray, "2 k"]) -> Float[np.ndarray, "1 2 k"]:
    """Return the car on its road."""
    return np.stack([x[0], _compute_height(x[0])])[None]


def _compute_height(position: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"]:
    return 0.45 * np.sin(3 * position) + 0.55  # as Gymnasium draws it


_AT = np.linspace(LEFT, RIGHT, 60)
_ROAD = tuple(zip(_AT.tolist(), _compute_height(_AT).tolist(), strict=True))
_PICTURE = Picture(("position", "speed"), ("force",), joints=_place_joints, ground=_ROAD)


def mountain_car(horizon: int = 200) -> Task:
    """Maximise the sum of the positions that the car arrives at."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.position)), plans=1)


def mountain_car_effort(budget: float = 60.0, horizon: int = 200) -> Task:
    """Maximise the same with an expected sum of force^2 within `budget`."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.position), {"effort": x.effort <= open_limit("budget", budget)}), plans=5)


def _build_task(problem: Problem, plans: int) -> Task:
    from bidual.tasks._lc3_envs import MountainCar

    # As in LC3 (ridge 0.01 there), but speeds in units of the fastest: else all are alike to a bandwidth of 1.3.
    model = KNR(fourier(100, 1.3, scales=(1.0, FASTEST, 1.0)), ridge=1e-4)
    return Task(problem, None, model=model, env=MountainCar(), explorer=_build_explorer(plans), picture=_PICTURE)


def _build_signals() -> Computed:
    return computed(position=signal("next_obs[0]", LEFT, RIGHT), effort=signal(SQUARED, 0.0, 1.0))


def _build_explorer(plans: int) -> "Controls":
    from bidual.loop.explorers import Controls, Corrective
    from bidual.planners.control import Mpc, Thompson, icem

    sampler, inner = icem(128, 5, deviation=1.0), Corrective(gap=None, max_plans=plans)
    return Controls(Thompson(0.3), sampler, Mpc(10, 110), inner=inner, rollouts=4)


ENTRY = Entry(
    name="mountain-car",
    summary="drive out of a valley with a weak engine (to be learned)",
    source="Gymnasium's MountainCarContinuous-v0, paid by position for 200 steps as in LC3 (Kakade et al. 2020)",
    objective="max position",
    limits=(),
    optimum=None,
    build=mountain_car,
    episodes=20,
    family="control",
)
EFFORT = Entry(
    name="mountain-car-effort",
    summary="the same, with an expected sum of squared forces within `budget` (to be learned)",
    source="the same car, with a limit added here",
    objective="max position",
    limits=("effort <= budget",),
    optimum=None,
    build=mountain_car_effort,
    episodes=20,
    family="control",
)

ENTRIES = (
    ENTRY,
    EFFORT,
)
