"""FrozenLake: cross slippery ice to the goal, breaking through a hole not too often."""

from bidual._base.errors import TaskError
from bidual.problem.modelling import Problem
from bidual.tasks._gridworld import find_cells
from bidual.tasks._task import Entry, Grid, Task, open_limit
from bidual.world.mdp import TabularMDP

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up: Gymnasium's order


def frozenlake(budget: float = 0.05, size: int = 8, horizon: int = 100) -> Task:
    """Maximise the probability of reaching the goal with a probability of at most `budget` of ending in a hole.

    On Gymnasium's maps of 8x8 or 4x4 cells a move goes where it should, or to either side, with probability 1/3 each.
    """
    import cvxpy as cp
    from gymnasium.envs.toy_text.frozen_lake import MAPS

    name = f"{size}x{size}"
    if name not in MAPS:
        raise TaskError(
            f"size={size}: Gymnasium has maps of size {', '.join(sorted(key.split('x')[0] for key in MAPS))}"
        )
    mdp = TabularMDP.from_gymnasium("FrozenLake-v1", horizon, map_name=name)
    x = mdp.embedding(goal=lambda t: t.reward, holes=lambda t: t.terminated and t.reward == 0)
    limit = open_limit("budget", budget)
    problem = Problem(cp.Maximize(cp.sum(x.goal)), {"holes": cp.sum(x.holes) <= limit})
    rows = tuple(MAPS[name])
    return Task(problem, mdp, Grid(rows, find_cells(rows, ends="GH"), MOVES))


ENTRY = Entry(
    name="frozenlake",
    summary="cross the frozen lake to the goal, ending in a hole with probability at most `budget`",
    source="Gymnasium's FrozenLake-v1, slippery, with a budget added here",
    objective="max probability of the goal",
    limits=("holes <= budget",),
    optimum=0.620873,
    build=frozenlake,
)

ENTRIES = (ENTRY,)
