"""Taxi: choose passengers when there is not fuel enough for all."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Grid, Task, open_limit
from bidual.world.mdp import TabularMDP

MAP = (
    "D...D",
    ".....",
    ".....",
    ".....",
    "D..D.",
)
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1), (0, 0), (0, 0))  # south, north, east, west, pick up, drop off
STATES_PER_CELL = 20  # passenger at one of four stands or inside, four destinations


def taxi(budget: float = 6.0, horizon: int = 20) -> Task:
    """Maximise the probability of delivering the passenger with at most `budget` expected moves.

    Taxi, passenger and destination are drawn anew for each episode, and every trip fits into 20 steps. A trip too long
    for the fuel is refused by picking up where nobody stands, which moves nothing.
    """
    import cvxpy as cp

    mdp = TabularMDP.from_gymnasium("Taxi-v4", horizon)
    x = mdp.embedding(delivered=lambda t: t.terminated, fuel=lambda t: t.action < 4)
    limit = open_limit("budget", budget)
    problem = Problem(cp.Maximize(cp.sum(x.delivered)), {"fuel": cp.sum(x.fuel) <= limit})
    cells = np.append(np.arange(mdp.num_states - 1) // STATES_PER_CELL, -1)
    return Task(problem, mdp, Grid(MAP, cells, MOVES))


ENTRY = Entry(
    name="taxi",
    summary="deliver as many passengers as possible with fuel for `budget` expected moves",
    source="Gymnasium's Taxi-v4, with a budget added here",
    objective="max probability to deliver",
    limits=("fuel <= budget",),
    optimum=0.629444,
    build=taxi,
)

ENTRIES = (ENTRY,)
