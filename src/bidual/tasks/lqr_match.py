"""The double integrator like an expert with more force: moments of the position, whose optimum is a convex program."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array, Float

from bidual.models import KNR
from bidual.problem.features import Computed, computed, linear, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._task import Entry, Picture, Task, open_limit
from bidual.tasks.lqr import FORCE, NOISE, exact

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

FARTHEST = 5.0  # where positions are held for the moments: no policy worth running gets there
_START = np.array([1.0, 0.0])
_PICTURE = Picture(("position", "speed"), ("force",), seconds=0.2)


def lqr_match(budget: float = 6.0, horizon: int = 20) -> Task:
    """Match the positions under the optimal law of `lqr`, with an expected sum of squared forces within `budget`.

    Least l2 distance of the expected positions and squared positions of all steps to those of that law, whose own
    expected sum of squared forces is 11.93.
    """
    import cvxpy as cp

    from bidual.tasks._control_envs import DoubleIntegrator

    x = _build_signals().embedding(horizon)
    position, square = compute_expert_moments(horizon)
    apart = cp.hstack([x.position - position, x.square - square])
    problem = Problem(cp.Minimize(cp.norm(apart)), {"effort": cp.sum(x.effort) <= open_limit("budget", budget)})
    model = KNR(linear(), ridge=1e-3, noise=NOISE)
    return Task(
        problem, None, model=model, env=DoubleIntegrator(NOISE, FORCE), explorer=_build_explorer(), picture=_PICTURE
    )


def compute_expert_moments(horizon: int) -> tuple[Float[np.ndarray, "H"], Float[np.ndarray, "H"]]:
    """Compute mean and mean square of the position after every step, under the optimal law of `lqr`."""
    problem = exact(horizon)
    means, covariances = problem.moments(problem.solve(), _START)
    arrived = means[:, 3]  # of (s, u, s')
    return arrived, covariances[:, 3, 3] + arrived**2


def _build_signals() -> Computed:
    return computed(
        position=signal(_read_position, -FARTHEST, FARTHEST),
        square=signal(_square_position, 0.0, FARTHEST**2),
        effort=signal(SQUARED, 0.0, FORCE**2),
    )


def _read_position(x: Float[Array, "2"], u: Float[Array, "1"], y: Float[Array, "2"]) -> Float[Array, ""]:
    return y[0]


def _square_position(x: Float[Array, "2"], u: Float[Array, "1"], y: Float[Array, "2"]) -> Float[Array, ""]:
    return y[0] ** 2


def _build_explorer() -> "Controls":
    from bidual.loop.explorers import Controls
    from bidual.planners.control import Feedback, Thompson, icem

    return Controls(Thompson(), icem(64, 10), Feedback())


ENTRY = Entry(
    name="lqr-match",
    summary="move like the optimal law of `lqr`, with a limit `budget` of expected squared forces (to be learned)",
    source="the same double integrator, with a convex objective",
    objective="min l2 distance to expert",
    limits=("effort <= budget",),
    optimum=0.406355,
    build=lqr_match,
    episodes=120,
    family="control",
)

ENTRIES = (ENTRY,)
