"""The combination lock with rich observations: hidden latents, to be found in vectors.

There is no model to solve here: the problem is over observations of an environment. The latent chain behind it is known
to us, and with it the exact optimum.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import TaskError
from bidual.models import Latent
from bidual.problem.features import observed, signals
from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Task, open_limit
from bidual.world.mdp import TabularMDP


def lock(horizon: int = 5, combination: int = 1, latents: int = 3) -> Task:
    """Maximise the reward: 1 for the right action at every step, and small consolations that mislead.

    Args:
        horizon: the number of steps.
        combination: a number that the right actions are drawn from.
        latents: how many of them the learner may tell apart; the truth has three.
    """
    import cvxpy as cp

    x = signals(reward=observed(_compute_reward)).embedding(horizon)
    problem = Problem(cp.Maximize(cp.sum(x.reward)))
    return Task(
        problem, build_latent_chain(horizon, combination), model=Latent(latents), env=_open_env(horizon, combination)
    )


def lock_spread(budget: float = 0.8, horizon: int = 5, combination: int = 1, latents: int = 3) -> Task:
    """Visit all latents alike, the dead one too, but open the lock with probability at least `budget`.

    Which latent an observation is of is a function of it that the user knows: here the inverse of the Hadamard matrix.
    """
    import cvxpy as cp

    if not 0 <= budget <= 1:
        raise TaskError(f"budget={budget}: it is the probability of opening the lock, from 0 to 1")
    shares = {f"latent_{z}": observed(_LatentIndicator(z, horizon)) for z in range(3)}
    x = signals(goal=observed(_find_goal, at_end=True), **shares).embedding(horizon, total=True)
    shares_of_time = cp.hstack([x.latent_0, x.latent_1, x.latent_2]) / horizon
    limit = open_limit("budget", budget)
    problem = Problem(cp.Minimize(cp.norm(shares_of_time - np.full(3, 1 / 3))), {"goal": x.goal >= limit})
    return Task(
        problem, build_latent_chain(horizon, combination), model=Latent(latents), env=_open_env(horizon, combination)
    )


def build_latent_chain(horizon: int, combination: int) -> TabularMDP:
    """Return the hidden chain: two good latents, a dead one, and the end."""
    from bidual.tasks._lock_env import ACTIONS, DEAD, draw_combination

    right = draw_combination(horizon, combination)
    P = np.zeros((horizon, 3, ACTIONS, 3))
    P[:, :, :, DEAD] = 1.0
    for h, z in np.ndindex(horizon, 2):
        P[h, z, right[h, z]] = [0.5, 0.5, 0.0]
    return TabularMDP(P, np.array([0.5, 0.5, 0.0]), horizon)


def compute_goal_signal(horizon: int, combination: int) -> Float[np.ndarray, "H 3 A"]:
    """Return the probability of opening the lock with an action, as a signal over the latent chain."""
    from bidual.tasks._lock_env import ACTIONS, draw_combination

    goal = np.zeros((horizon, 3, ACTIONS))
    last: Int[np.ndarray, "good"] = draw_combination(horizon, combination)[-1]
    goal[-1, [0, 1], last] = 1.0
    return goal


class _LatentIndicator:
    """The indicator of one latent, as a function of an observation of the lock."""

    def __init__(self, latent: int, horizon: int) -> None:
        from bidual.tasks._lock_env import build_hadamard, choose_dimension

        self.latent, self._rows = latent, build_hadamard(choose_dimension(horizon))[:3]

    def __call__(self, step: Any) -> float:  # noqa: ANN401 - a step of an environment
        return float(np.argmax(self._rows @ step.obs) == self.latent)


def _compute_reward(step: Any) -> float:  # noqa: ANN401
    return step.reward


def _find_goal(step: Any) -> float:  # noqa: ANN401
    return float(step.reward == 1)


def _open_env(horizon: int, combination: int) -> Any:  # noqa: ANN401 - Gymnasium is imported at first use
    from bidual.tasks._lock_env import LockEnv

    return LockEnv(horizon, combination)


ENTRY = Entry(
    name="lock",
    summary="open a combination lock whose state is hidden in vectors with noise (to be learned)",
    source="the block-MDP literature: rich observations of a combination lock",
    objective="max reward",
    limits=(),
    optimum=1.0,
    build=lock,
    family="latent",
)
SPREAD = Entry(
    name="lock-spread",
    summary="visit the latents of the lock alike, opening it with probability at least `budget` (to be learned)",
    source="the same lock, with a convex objective added here",
    objective="min l2 distance to uniform",
    limits=("goal >= budget",),
    optimum=0.212289,
    build=lock_spread,
    family="latent",
)

ENTRIES = (
    ENTRY,
    SPREAD,
)
