"""Slippery CliffWalking: along the cliff's edge one may fall, on the grass above it one should not walk."""

from bidual.problem.modelling import Problem
from bidual.tasks._gridworld import MOVES, find_cells
from bidual.tasks._task import Entry, Grid, Task, open_limit
from bidual.world.mdp import TabularMDP

MAP = (
    "............",
    "............",
    "............",
    "SCCCCCCCCCCG",
)


def cliffwalking(budget: float = 1.0, goal: float = 0.5, horizon: int = 100) -> Task:
    """Minimise the expected steps on the two upper rows, the grass, with at most `budget` expected falls.

    The goal must be reached with probability at least `goal`. A move goes where it should, or to either side, with
    probability 1/3 each; a fall leads back to the start. Falls alone would cost nothing to avoid: the way over the
    grass is as quick as the way along the edge.
    """
    import cvxpy as cp

    mdp = TabularMDP.from_gymnasium("CliffWalking-v1", horizon, is_slippery=True)
    grass = 2 * len(MAP[0])
    x = mdp.embedding(
        grass=lambda t: t.state < grass,
        falls=lambda t: t.reward == -100,
        goal=lambda t: t.terminated,
    )
    limits = {
        "falls": cp.sum(x.falls) <= open_limit("budget", budget),
        "goal": cp.sum(x.goal) >= open_limit("goal", goal),
    }
    grid = Grid(MAP, find_cells(MAP, ends="CG"), MOVES)
    return Task(Problem(cp.Minimize(cp.sum(x.grass)), limits), mdp, grid)


ENTRY = Entry(
    name="cliffwalking",
    summary="slippery cliff: fewest steps on the grass with at most `budget` falls and the goal reached often enough",
    source="Gymnasium's CliffWalking-v1, slippery; grass and limits added here",
    objective="min steps on the grass",
    limits=("falls <= budget", "goal >= goal"),
    optimum=24.618903,
    build=cliffwalking,
)

ENTRIES = (ENTRY,)
