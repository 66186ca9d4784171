"""Deep-sea treasure: the deeper the treasure, the more it is worth and the longer the dive."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._gridworld import MOVES, find_cells, find_neighbours
from bidual.tasks._task import Entry, Grid, Task, open_limit
from bidual.world.mdp import TabularMDP

MAP = (
    "S..........",
    "T..........",
    "WT.........",
    "WWT........",
    "WWWTTT.....",
    "WWWWWW.....",
    "WWWWWW.....",
    "WWWWWWTT...",
    "WWWWWWWW...",
    "WWWWWWWWT..",
    "WWWWWWWWWT.",
)
VALUES = (0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7)  # from left to right


def deep_sea_treasure(budget: float = 10.0, horizon: int = 30) -> Task:
    """Maximise the expected treasure with at most `budget` expected steps until it is found.

    A policy that draws lots between two dives reaches every point between them, so the optimum as a function of the
    budget is the concave hull of the dives' (steps, treasure).
    """
    import cvxpy as cp

    marks = np.array(list("".join(MAP)))
    end, worth = len(marks), np.zeros(len(marks))
    worth[marks == "T"] = VALUES
    targets = find_neighbours(MAP)
    targets = np.where(marks[targets] == "W", np.arange(end)[:, None], targets)
    next_states = np.full((end + 1, 4, 1), end)
    next_states[:end, :, 0] = np.where(marks[targets] == "T", end, targets)
    mdp = TabularMDP((next_states, np.ones(next_states.shape)), initial=0, horizon=horizon)
    x = mdp.embedding(treasure=np.append(worth[targets], np.zeros((1, 4)), axis=0), time=np.arange(end + 1) < end)
    limit = open_limit("budget", budget)
    problem = Problem(cp.Maximize(cp.sum(x.treasure)), {"time": cp.sum(x.time) <= limit})
    return Task(problem, mdp, Grid(MAP, find_cells(MAP, ends="WT"), MOVES))


ENTRY = Entry(
    name="deep-sea-treasure",
    summary="dive for treasure: most expected treasure in at most `budget` expected steps",
    source="Vamplew et al. 2011, the map of Yang et al. 2019 as in MO-Gymnasium",
    objective="max treasure",
    limits=("time <= budget",),
    optimum=16.975,
    build=deep_sea_treasure,
)

ENTRIES = (ENTRY,)
