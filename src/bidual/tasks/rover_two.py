"""The Mars rover with a second constraint: hardly any time in the upper right quarter of the map."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Task, open_limit
from bidual.tasks.rover import build_rover_world


def rover_two(budget: float = 0.3, quadrant: float = 0.06, slip: float = 0.1, horizon: int = 30) -> Task:
    """Maximise reward with pits at most `budget` and at most `quadrant` expected steps in the quadrant."""
    import cvxpy as cp

    mdp, grid, reward, cost = build_rover_world(slip, horizon)
    inside = np.zeros((8, 8))
    inside[:4, 4:] = 1.0
    x = mdp.embedding(reward=reward, cost=cost, inside=inside.ravel())
    limits = {
        "pits": cp.sum(x.cost) <= open_limit("budget", budget),
        "quadrant": cp.sum(x.inside) <= open_limit("quadrant", quadrant),
    }
    return Task(Problem(cp.Maximize(cp.sum(x.reward)), limits), mdp, grid)


ENTRY = Entry(
    name="rover-two",
    summary="the rover with two constraints: pits, and time in the upper right quadrant",
    source="Brantley et al. 2020, with a second constraint added here",
    objective="max reward",
    limits=("pits <= budget", "quadrant <= quadrant"),
    optimum=1.530124,
    build=rover_two,
)

ENTRIES = (ENTRY,)
