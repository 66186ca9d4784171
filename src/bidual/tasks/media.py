"""Media streaming: keep the buffer from running empty with few uses of the fast service."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Task, open_limit
from bidual.world.mdp import TabularMDP


def media(budget: float = 5.0, horizon: int = 10) -> Task:
    """Minimise the expected steps at an empty buffer with at most `budget` expected uses of the fast service.

    A packet arrives with probability 0.9 (fast, action 0) or 0.1 (slow, action 1); one is played with
    probability 0.8, independently; the buffer holds 0 to 9 packets and starts empty.
    """
    import cvxpy as cp

    levels, played = 10, 0.8
    transitions = np.zeros((levels, 2, levels))
    for s in range(levels):
        for a, arrival in enumerate((0.9, 0.1)):
            for came, left in np.ndindex(2, 2):
                chance = (arrival if came else 1 - arrival) * (played if left else 1 - played)
                transitions[s, a, np.clip(s + came - left, 0, levels - 1)] += chance
    mdp = TabularMDP(transitions, initial=0, horizon=horizon)
    fast = np.tile([1.0, 0.0], (levels, 1))
    x = mdp.embedding(empty=np.arange(levels) == 0, fast=fast)
    limit = open_limit("budget", budget)
    return Task(Problem(cp.Minimize(cp.sum(x.empty)), {"fast": cp.sum(x.fast) <= limit}), mdp)


ENTRY = Entry(
    name="media",
    summary="media streaming: fewest steps at an empty buffer with at most `budget` fast services",
    source="the streaming example used with OptCMDP and DOPE",
    objective="min steps at empty buffer",
    limits=("fast <= budget",),
    optimum=6.746704,
    build=media,
)

ENTRIES = (ENTRY,)
