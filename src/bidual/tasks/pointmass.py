"""A point mass in the plane with unknown drag and wind: to a goal, or like an expert, and around an obstacle."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual.models import KNR
from bidual.problem.features import Computed, computed, fourier, rbf, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._control_laws import STEP
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

NOISE = 0.01
GOAL = (2.0, 0.0)
OBSTACLE = (1.0, 0.0, 0.4)  # centre and radius
WIDTH = 0.4  # of the bumps that places are counted by
_SOFT = 0.05  # over which the obstacle begins
_FARTHEST = 4.0
_PICTURE = Picture(
    ("x", "y", "velocity in x", "velocity in y"),
    ("push in x", "push in y"),
    plane=(0, 1),
    goal=GOAL,
    discs=(OBSTACLE,),
    seconds=STEP,
)


def pointmass(budget: float = 0.02, horizon: int = 30) -> Task:
    """Minimise the mean distance to the goal; the expected share of time in the obstacle must be within `budget`."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    obstacle = x.obstacle / horizon <= open_limit("budget", budget)
    return _build_task(Problem(cp.Minimize(x.distance / horizon), {"obstacle": obstacle}))


def pointmass_match(budget: float = 0.02, effort: float = 8.0, horizon: int = 30) -> Task:
    """Visit places like an expert: least l2 distance of mean place features, within limits of effort and obstacle.

    The expert goes along half an ellipse that grazes the obstacle, so that not all of it can be imitated.
    """
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    limits = {
        "obstacle": x.obstacle / horizon <= open_limit("budget", budget),
        "effort": x.effort <= open_limit("effort", effort),
    }
    return _build_task(Problem(cp.Minimize(cp.norm(x.places / horizon - compute_expert_features(horizon))), limits))


def trace_expert_path(horizon: int) -> Float[np.ndarray, "H 2"]:
    """Compute the expert's position after every step: on half an ellipse from the start to the goal."""
    angle = np.pi * np.arange(1, horizon + 1) / horizon
    return np.stack([1 - np.cos(angle), 0.45 * np.sin(angle)], axis=1)


def compute_expert_features(horizon: int) -> Float[np.ndarray, "p"]:
    """Compute the mean place features along that path."""
    offsets = trace_expert_path(horizon)[:, None] - list_centres()
    return np.exp(-0.5 * (offsets**2).sum(axis=-1) / WIDTH**2).mean(axis=0)


def list_centres() -> Float[np.ndarray, "p 2"]:
    """Return the centres of the bumps: a grid of 5 x 4 places around the way."""
    x, y = np.meshgrid(np.linspace(0.0, 2.0, 5), np.linspace(-0.5, 1.0, 4), indexing="ij")
    return np.stack([x.ravel(), y.ravel()], axis=1)


def _build_task(problem: Problem) -> Task:
    from bidual.tasks._control_envs import PointMass

    # Drag and wind are alike everywhere, which the learner does not know: places are on a scale of 4.
    phi = fourier(128, 2.0, scales=(_FARTHEST, _FARTHEST, 2.0, 2.0, 1.0, 1.0))
    return Task(
        problem, None, model=KNR(phi, ridge=1e-3), env=PointMass(NOISE), explorer=_build_explorer(), picture=_PICTURE
    )


def _build_signals() -> Computed:
    return computed(
        distance=signal(_compute_distance, 0.0, _FARTHEST),
        effort=signal(SQUARED, 0.0, 2.0),
        obstacle=signal(_compute_obstacle, 0.0, 1.0),
        places=rbf(list_centres(), WIDTH, of=(0, 1)),
    )


def _compute_distance(x: Float[Array, "4"], u: Float[Array, "2"], y: Float[Array, "4"]) -> Float[Array, ""]:
    return _compute_length(y[:2] - jnp.asarray(GOAL))


def _compute_obstacle(x: Float[Array, "4"], u: Float[Array, "2"], y: Float[Array, "4"]) -> Float[Array, ""]:
    """Return about 1 inside and 0 outside, with a slope that plans can follow."""
    *centre, radius = OBSTACLE
    return jax.nn.sigmoid((radius - _compute_length(y[:2] - jnp.asarray(centre))) / _SOFT)


def _compute_length(offset: Float[Array, "2"]) -> Float[Array, ""]:
    return jnp.sqrt(offset @ offset + 1e-6)  # differentiable at 0


def _build_explorer() -> "Controls":
    from bidual.loop.explorers import Controls
    from bidual.planners.control import Feedback, Thompson, icem

    # The limit is a small share of the time, which 32 paths know to .001 only; and plans are chosen by where it is low.
    return Controls(Thompson(), icem(128, 15), Feedback(), rollouts=256)


ENTRY = Entry(
    name="pointmass",
    summary="fly to a goal through wind and drag, with a share of time in an obstacle within `budget` (to be learned)",
    source="a planar point mass, defined here",
    objective="min distance to the goal",
    limits=("obstacle <= budget",),
    optimum=None,
    build=pointmass,
    episodes=40,
    family="control",
)
MATCH = Entry(
    name="pointmass-match",
    summary="visit places like an expert, with limits of effort and of time in the obstacle (to be learned)",
    source="the same point mass, with a convex objective",
    objective="min l2 distance to expert",
    limits=("obstacle <= budget", "effort <= effort"),
    optimum=None,
    build=pointmass_match,
    episodes=40,
    family="control",
)

ENTRIES = (
    ENTRY,
    MATCH,
)
