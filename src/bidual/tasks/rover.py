"""The Mars rover: reach the goal through a field of pits, falling into one not too often."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._gridworld import MOVES, find_neighbours, make_slippery
from bidual.tasks._task import Entry, Grid, Task, open_limit
from bidual.world.mdp import TabularMDP

MAP = (
    "S.......",
    "........",
    "...P..P.",
    "........",
    "........",
    ".PP.....",
    ".P..P.P.",
    "...P...G",
)


def rover(budget: float = 0.3, slip: float = 0.1, horizon: int = 30) -> Task:
    """Maximise reward subject to an expected cost of pits of at most `budget`.

    Entering the goal has the reward 1; entering a pit the reward 1 and the cost 1. Both are absorbing, with reward (and
    cost) 1/horizon per step from then on.
    """
    import cvxpy as cp

    mdp, grid, reward, cost = build_rover_world(slip, horizon)
    x = mdp.embedding(reward=reward, cost=cost)
    limit = open_limit("budget", budget)
    problem = Problem(cp.Maximize(cp.sum(x.reward)), {"pits": cp.sum(x.cost) <= limit})
    return Task(problem, mdp, grid)


def build_rover_world(slip: float, horizon: int) -> tuple[TabularMDP, Grid, np.ndarray, np.ndarray]:
    """Build the model, its map, and reward and cost on arrival."""
    cells = np.array(list("".join(MAP)))
    pit, end = cells == "P", (cells == "P") | (cells == "G")
    transitions = make_slippery(find_neighbours(MAP), slip)
    transitions[end] = np.eye(len(cells))[end][:, None, :]
    goal_reward = np.where(end[:, None, None], 1 / horizon, end[None, None, :].astype(float))
    reward = np.broadcast_to(goal_reward, transitions.shape)
    grid = Grid(MAP, np.arange(len(cells)), MOVES)
    mdp = TabularMDP(transitions, initial=int(np.argmax(cells == "S")), horizon=horizon)
    return mdp, grid, reward, reward * pit[None, None, :]


ENTRY = Entry(
    name="rover",
    summary="8x8 Mars rover: reach the goal, fall into pits at most `budget` in expectation",
    source="Brantley et al. 2020, Constrained episodic reinforcement learning",
    objective="max reward",
    limits=("pits <= budget",),
    optimum=1.536288,
    build=rover,
)

ENTRIES = (ENTRY,)
