"""The Mars rover as a convex problem: cover as much of the map as possible, or follow a desired law of visits."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Task
from bidual.tasks.rover import build_rover_world


def rover_entropy(budget: float = 0.3, slip: float = 0.1, horizon: int = 30) -> Task:
    """Maximise the entropy, in nats, of the time-averaged visits, with an expected cost of pits of at most `budget`."""
    import cvxpy as cp

    mdp, grid, _, cost = build_rover_world(slip, horizon)
    x = mdp.embedding(visits=True, cost=cost)
    limit = cp.Parameter(name="budget", value=budget)
    law = cp.sum(x.visits, axis=0) / horizon
    return Task(Problem(cp.Maximize(cp.sum(cp.entr(law))), {"pits": cp.sum(x.cost) <= limit}), mdp, grid)


def rover_match(budget: float = 0.3, slip: float = 0.1, horizon: int = 30) -> Task:
    """Bring the time-averaged visits as close as possible, in the l2 norm, to a law on the right half of the map.

    The target gives every cell of the four right columns the same weight. Pits are limited as in the rover.
    """
    import cvxpy as cp

    mdp, grid, _, cost = build_rover_world(slip, horizon)
    x = mdp.embedding(visits=True, cost=cost)
    limit = cp.Parameter(name="budget", value=budget)
    width = len(grid.rows[0])
    right = np.asarray(grid.cells) % width >= width // 2
    law = cp.sum(x.visits, axis=0) / horizon
    return Task(Problem(cp.Minimize(cp.norm(law - right / right.sum())), {"pits": cp.sum(x.cost) <= limit}), mdp, grid)


_SOURCE = "map and pits of Brantley et al. 2020; the convex objectives are ours"

ENTROPY = Entry(
    name="rover-entropy",
    summary="the rover sees as much of the map as it can: most entropy of its visits; convex, solve with --gap 1e-3",
    source=_SOURCE,
    objective="max entropy of visits",
    limits=("pits <= budget",),
    optimum=4.108622,
    build=rover_entropy,
)
MATCH = Entry(
    name="rover-match",
    summary="the rover's visits come as close as they can, in l2, to the right half of the map; convex",
    source=_SOURCE,
    objective="min l2 distance of visits",
    limits=("pits <= budget",),
    optimum=0.069554,
    build=rover_match,
)

ENTRIES = (
    ENTROPY,
    MATCH,
)
