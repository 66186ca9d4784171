"""RiverSwim: swim against the current to the big reward, with a budget of strokes."""

import numpy as np

from bidual._base.errors import TaskError
from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Task, open_limit
from bidual.world.mdp import TabularMDP

LEFT, RIGHT = 0, 1


def riverswim(budget: float = 15.0, states: int = 6, horizon: int = 20) -> Task:
    """Maximise reward with at most `budget` expected strokes to the right.

    0.005 for staying at the left end, 1 for a stroke at the right end, where the current pushes back.
    """
    import cvxpy as cp

    if states < 2:
        raise TaskError(f"states={states}: a river has at least 2 states")
    last = states - 1
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        transitions[s, LEFT, max(s - 1, 0)] = 1.0
        transitions[s, RIGHT, [max(s - 1, 0), s, min(s + 1, last)]] = (0.05, 0.6, 0.35)
    transitions[0, RIGHT, :2] = (0.4, 0.6)
    transitions[last, RIGHT, last - 1 :] = (0.4, 0.6)
    reward, right = np.zeros((states, 2)), np.zeros((states, 2))
    reward[0, LEFT], reward[last, RIGHT], right[:, RIGHT] = 0.005, 1.0, 1.0
    mdp = TabularMDP(transitions, initial=0, horizon=horizon)
    x = mdp.embedding(reward=reward, right=right)
    limit = open_limit("budget", budget)
    return Task(Problem(cp.Maximize(cp.sum(x.reward)), {"right": cp.sum(x.right) <= limit}), mdp)


ENTRY = Entry(
    name="riverswim",
    summary="swim upstream to the reward with at most `budget` strokes to the right",
    source="Strehl and Littman 2008, with a budget added here",
    objective="max reward",
    limits=("right <= budget",),
    optimum=2.901068,
    build=riverswim,
)

ENTRIES = (ENTRY,)
