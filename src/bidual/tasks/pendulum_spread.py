"""Pendulums to be spread evenly over all angles: a convex objective of the frequencies near each of them."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bidual.models import KNR
from bidual.problem.features import Computed, computed, fourier, rbf, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import DENSE, SPARSE, PendulumLaw
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

ANGLES, WIDTH = 12, 0.4  # bumps around the circle, and their deviation as a distance in the plane


def pendulum_spread(budget: float = 150.0, horizon: int = 100) -> Task:
    """Visit all angles equally often, with an expected sum of torque^2 within `budget`.

    Least l2 distance of the mean nearness to twelve angles to that of a uniform angle.
    """
    return _build_task(DENSE, budget, horizon)


def pendulum_sparse_spread(budget: float = 20.0, horizon: int = 60) -> Task:
    """Visit them with the pendulum of `pendulum-sparse`, whose controls are held for four steps of 1/80 s."""
    return _build_task(SPARSE, budget, horizon)


def list_centres() -> Float[np.ndarray, "p 2"]:
    """Return cosine and sine of the twelve angles."""
    angles = 2 * np.pi * np.arange(ANGLES) / ANGLES
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def compute_uniform_features() -> float:
    """Compute the mean nearness of a uniform angle to any of the angles: e^(-1/w^2) I_0(1/w^2), I_0 being Bessel's."""
    # |a - b|^2 = 2 - 2 cos(angle between them) on the circle; the mean of e^(k cos) is I_0(k).
    from scipy.special import ive

    return float(ive(0, 1 / WIDTH**2))


def _build_task(law: PendulumLaw, budget: float, horizon: int) -> Task:
    import cvxpy as cp

    from bidual.tasks._control_envs import Pendulum

    x = _build_signals(law).embedding(horizon, total=True)
    apart = x.angles / horizon - compute_uniform_features()
    problem = Problem(cp.Minimize(cp.norm(apart)), {"effort": x.effort <= open_limit("budget", budget)})
    phi = fourier(128, 1.5, scales=(1.0, 1.0, min(law.fastest, 10.0), law.torque))
    picture = Picture(("cosine", "sine", "speed"), ("torque",), angle=(0, 1), seconds=law.repeat * law.dt)
    return Task(
        problem, None, model=KNR(phi, ridge=1e-4), env=Pendulum(law), explorer=_build_explorer(), picture=picture
    )


def _build_signals(law: PendulumLaw) -> Computed:
    return computed(angles=rbf(list_centres(), WIDTH, of=(0, 1)), effort=signal(SQUARED, 0.0, law.torque**2))


def _build_explorer() -> "Controls":
    from bidual.loop.explorers import Controls
    from bidual.planners.control import Feedback, Thompson, icem

    return Controls(Thompson(), icem(256, 20), Feedback())


ENTRY = Entry(
    name="pendulum-spread",
    summary="be at all angles alike, with an expected sum of squared torques within `budget` (to be learned)",
    source="Gymnasium's Pendulum-v1, always from hanging at rest, with a convex objective",
    objective="min l2 distance to uniform",
    limits=("effort <= budget",),
    optimum=None,
    build=pendulum_spread,
    episodes=12,
    family="control",
)
SPARSE_SPREAD = Entry(
    name="pendulum-sparse-spread",
    summary="the same with the pendulum of `pendulum-sparse` (to be learned)",
    source="the pendulum of `pendulum-sparse`, with a convex objective",
    objective="min l2 distance to uniform",
    limits=("effort <= budget",),
    optimum=None,
    build=pendulum_sparse_spread,
    episodes=12,
    family="control",
)

ENTRIES = (
    ENTRY,
    SPARSE_SPREAD,
)
