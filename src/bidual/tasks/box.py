"""Push a box out of the way without leaving it in a corner for long."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._gridworld import MOVES, make_slippery
from bidual.tasks._task import Entry, Grid, Task, open_limit
from bidual.world.mdp import TabularMDP

MAP = (
    "WWWWWW",
    "W.SWWW",
    "W.X..W",
    "WW...W",
    "WWW.GW",
    "WWWWWW",
)
Cell = tuple[int, int]


def box(budget: float = 0.1, slip: float = 0.1, horizon: int = 30) -> Task:
    """Maximise the reward for reaching G subject to the cost of boxes stuck at two walls.

    A state is (agent's cell, box's cell). Reaching G has the reward 1, then 1/horizon per step. Every arrival in
    a state whose box touches two walls or more costs 1/horizon, also after the goal is reached.
    """
    import cvxpy as cp

    free = [(i, j) for i, row in enumerate(MAP) for j, mark in enumerate(row) if mark != "W"]
    states = [(agent, load) for agent in free for load in free if agent != load]
    number = {state: index for index, state in enumerate(states)}
    targets = np.array([[number[_push(state, move, free)] for move in MOVES] for state in states])
    done = np.array([MAP[agent[0]][agent[1]] == "G" for agent, _ in states])
    stuck = np.array([sum(_step(load, move) not in free for move in MOVES) >= 2 for _, load in states])

    transitions = make_slippery(targets, slip)
    transitions[done] = np.eye(len(states))[done][:, None, :]
    mdp = TabularMDP(transitions, initial=number[_find("S"), _find("X")], horizon=horizon)
    reward = np.where(done[:, None, None], 1 / horizon, done[None, None, :].astype(float))
    x = mdp.embedding(
        reward=np.broadcast_to(reward, transitions.shape),
        cost=np.broadcast_to(stuck / horizon, transitions.shape),
    )
    limit = open_limit("budget", budget)
    problem = Problem(cp.Maximize(cp.sum(x.reward)), {"corners": cp.sum(x.cost) <= limit})
    cells = np.array([agent[0] * len(MAP[0]) + agent[1] for agent, _ in states])
    return Task(problem, mdp, Grid(MAP, cells, MOVES))


def _find(mark: str) -> Cell:
    return next((i, row.index(mark)) for i, row in enumerate(MAP) if mark in row)


def _step(cell: Cell, move: Cell) -> Cell:
    return cell[0] + move[0], cell[1] + move[1]


def _push(state: tuple[Cell, Cell], move: Cell, free: list[Cell]) -> tuple[Cell, Cell]:
    """Return the state after a move: walking into the box pushes it; impossible moves change nothing."""
    agent, load = _step(state[0], move), state[1]
    if agent == load:
        load = _step(load, move)
    return (agent, load) if agent in free and load in free else state


ENTRY = Entry(
    name="box",
    summary="push a box out of the way, leaving it in a corner at most `budget` of the time",
    source="Brantley et al. 2020, Constrained episodic reinforcement learning",
    objective="max reward",
    limits=("corners <= budget",),
    optimum=1.749677,
    build=box,
)

ENTRIES = (ENTRY,)
