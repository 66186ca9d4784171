"""Single-item inventory: sell as much as possible within a budget for ordering and storing."""

import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks._task import Entry, Task, open_limit
from bidual.world.mdp import TabularMDP

DEMAND = (0.3, 0.2, 0.2, 0.2, 0.05, 0.05)


def inventory(budget: float = 2.5, horizon: int = 7) -> Task:
    """Maximise expected sales subject to an expected cost of at most `budget`.

    With s items in stock at most 5 - s can be ordered. Demand D is drawn anew each day; a sold item earns 0.08. An
    order of a > 0 costs 4 + 2a, storing s + a costs one each; costs are in units of 19.
    """
    import cvxpy as cp

    size = len(DEMAND)
    stock, order = np.ogrid[:size, :size]
    allowed = stock + order < size
    filled = np.minimum(stock + order, size - 1)
    transitions = np.zeros((size, size, size))
    sales = np.zeros((size, size))
    for demand, chance in enumerate(DEMAND):
        left = np.maximum(filled - demand, 0)
        transitions[stock, order, left] += chance
        sales += 0.08 * chance * np.minimum(filled, demand)
    cost = np.where(order > 0, 4 + 2 * order, 0) + filled
    mdp = TabularMDP(transitions, initial=0, horizon=horizon, actions=allowed)
    x = mdp.embedding(sales=sales, cost=cost / 19)
    limit = open_limit("budget", budget)
    return Task(Problem(cp.Maximize(cp.sum(x.sales)), {"cost": cp.sum(x.cost) <= limit}), mdp)


ENTRY = Entry(
    name="inventory",
    summary="one item for a week: most sales with ordering and storing costs at most `budget`",
    source="the classic single-item inventory model with a cost budget",
    objective="max sales",
    limits=("cost <= budget",),
    optimum=0.705538,
    build=inventory,
)

ENTRIES = (ENTRY,)
