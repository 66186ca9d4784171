"""MuJoCo's pole on a cart, to be kept upright for a thousand steps: an environment that is somebody else's program."""

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual.models import KNR
from bidual.problem.features import Computed, computed, linear, signal
from bidual.problem.modelling import Problem
from bidual.tasks._control_laws import EFFORT as SQUARED
from bidual.tasks._control_laws import POLE_REPEAT, POLE_STEP, step_inverted_pendulum
from bidual.tasks._task import Entry, Picture, Task, open_limit

if TYPE_CHECKING:
    from bidual.loop.explorers import Controls

LAW = partial(step_inverted_pendulum, xp=jnp)  # for planners that know it
_STRONGEST, _FALLEN = 3.0, 0.2  # the force, and the angle at which an episode ends
_LENGTH, _RAIL = 0.6, ((-1.0, 0.0), (1.0, 0.0))


def _place_joints(x: Float[np.ndarray, "4 k"]) -> Float[np.ndarray, "2 2 k"]:
    """Return the cart and the tip of its pole."""
    cart = np.stack([x[0], np.zeros_like(x[0])])
    return np.stack([cart, cart + _LENGTH * np.stack([np.sin(x[1]), np.cos(x[1])])])


_NAMES = ("place", "angle", "speed", "spin")
_PICTURE = Picture(_NAMES, ("force",), joints=_place_joints, ground=_RAIL, seconds=POLE_REPEAT * POLE_STEP)


def inverted_pendulum(horizon: int = 1000) -> Task:
    """Maximise the number of steps upright, less 10 angle^2 + place^2 + 0.1 speed^2 + 0.1 spin^2 and 0.001 force^2."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    return _build_task(Problem(cp.Maximize(x.upright - x.swing - 0.001 * x.effort)))


def inverted_pendulum_effort(budget: float = 0.05, horizon: int = 1000) -> Task:
    """Maximise the same, with an expected sum of force^2 within `budget`."""
    import cvxpy as cp

    x = _build_signals().embedding(horizon, total=True)
    limit = {"effort": x.effort <= open_limit("budget", budget)}
    return _build_task(Problem(cp.Maximize(x.upright - x.swing - 0.001 * x.effort), limit))


def _build_task(problem: Problem) -> Task:
    # Near the top the law is nearly linear, and states are about 0.01, so the ridge must be small. MuJoCo adds no
    # noise: if that were estimated, what the first falls leave unexplained would be expected of every step, at an
    # effort far above what it takes.
    model, env = KNR(linear(), ridge=1e-6, noise=1e-4), "InvertedPendulum-v5"
    return Task(problem, None, model=model, env=env, explorer=_build_explorer(), picture=_PICTURE)


def _build_signals() -> Computed:
    return computed(
        upright=signal(_is_upright, 0.0, 1.0),
        swing=signal(_compute_swing, 0.0, 20.0),
        effort=signal(SQUARED, 0.0, _STRONGEST**2),
    )


def _is_upright(x: Float[Array, "4"], u: Float[Array, "1"], y: Float[Array, "4"]) -> Float[Array, ""]:
    """Return the indicator by which rollouts of the model recognise the end of an episode."""
    return jnp.where(jnp.abs(y[1]) <= _FALLEN, 1.0, 0.0).astype(y.dtype)


def _compute_swing(x: Float[Array, "4"], u: Float[Array, "1"], y: Float[Array, "4"]) -> Float[Array, ""]:
    place, angle, speed, spin = y
    return 10 * angle**2 + place**2 + 0.1 * speed**2 + 0.1 * spin**2


def _build_explorer() -> "Controls":
    from bidual.loop.explorers import Controls
    from bidual.planners.control import Chain, Descent, Mean, Mpc, icem

    # After five gentle falls at random the first plan already holds; after one it takes more, and far more effort,
    # perhaps because controls by a linear law are a function of states, whose effects cannot be distinguished.
    search = Chain(icem(32, 2), Descent(2))
    return Controls(Mean(), search, Mpc(1, 30), rollouts=1, warmup=5, push=0.2)


ENTRY = Entry(
    name="inverted-pendulum",
    summary="keep a pole upright on a cart for 1000 steps (to be learned; needs the extra mujoco)",
    source="Gymnasium's InvertedPendulum-v5, by MuJoCo",
    objective="max steps upright less cost",
    limits=(),
    optimum=None,
    build=inverted_pendulum,
    episodes=12,
    family="control",
)
EFFORT = Entry(
    name="inverted-pendulum-effort",
    summary="the same, with an expected sum of squared forces within `budget` (to be learned; needs the extra mujoco)",
    source="Gymnasium's InvertedPendulum-v5, by MuJoCo, with a limit added here",
    objective="max steps upright less cost",
    limits=("effort <= budget",),
    optimum=None,
    build=inverted_pendulum_effort,
    episodes=12,
    family="control",
)

ENTRIES = (
    ENTRY,
    EFFORT,
)
