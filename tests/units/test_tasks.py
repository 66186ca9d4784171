"""Every task solves to its pinned optimum, which the occupancy program computes anew."""

import cvxpy as cp
import pytest

import bidual as bd
from tests.helpers import occupancy_optimum, occupancy_program

PRICES = {
    "rover": {"pits": 0.19298},
    "rover-two": {"pits": 0.1996, "quadrant": 0.0743},
    "box": {"corners": 0.0782},
    "media": {"fast": 0.4952},
    "riverswim": {"right": 0.160},
    "inventory": {"cost": 0.2219},
}
NAMES = [entry.name for entry in bd.tasks.ENTRIES]


def test_all_tasks_are_listed():
    assert set(NAMES) == set(PRICES)


@pytest.mark.parametrize("name", NAMES)
def test_the_pinned_optimum_and_prices(name):
    entry = bd.tasks.find(name)
    task = entry.build()
    solution = bd.solve(task.problem, task.mdp, gap=1e-6)
    assert solution.status == "optimal"
    assert abs(solution.value - entry.optimum) <= 2e-6
    assert tuple(c.name for c in solution.constraints) == entry.constraints
    for constraint, price in PRICES[name].items():
        assert abs(solution.constraint(constraint).price - price) <= 2e-3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.6, 0.9, 1.3])
def test_other_budgets_agree_with_the_occupancy_program(name, share):
    entry = bd.tasks.find(name)
    task = entry.with_settings({"budget": str(share * entry.parameters["budget"])})
    solution = bd.solve(task.problem, task.mdp)
    status, optimum = occupancy_optimum(task.problem, task.mdp)
    assert (status, solution.status) == ("optimal", "optimal")
    sign = -1 if solution.sense == "maximize" else 1
    assert abs(solution.value - sign * optimum) <= 3e-6


def test_the_two_roads_to_the_optimum_agree():
    """The occupancy program by CVXPY and Clarabel, which shares nothing with the rows we compile."""
    task = bd.tasks.find("media").build()
    psi = task.problem.embedding.features.stage(task.mdp.successors).signals[0]
    _, flow, (empty, fast) = occupancy_program(task.mdp, psi)
    value = cp.Problem(cp.Minimize(empty), [*flow, fast <= 5]).solve(solver=cp.CLARABEL)
    assert abs(value - bd.tasks.find("media").optimum) <= 2e-6


@pytest.mark.parametrize(
    ("name", "budget", "optimum", "price"),
    [("inventory", 3.5, 0.879822, 0.1216), ("rover", 10.0, 1.816822, 0.0), ("box", 2.0, 1.815769, 0.0)],
)
def test_known_values_at_other_budgets(name, budget, optimum, price):
    task = bd.tasks.find(name).build(budget=budget)
    solution = bd.solve(task.problem, task.mdp)
    assert abs(solution.value - optimum) <= 2e-6
    assert abs(solution.constraints[0].price - price) <= 2e-3


def test_unknown_names_list_what_there_is():
    with pytest.raises(bd.TaskError, match="there are rover"):
        bd.tasks.find("mars")
    with pytest.raises(bd.TaskError, match="no parameter 'bugdet'; it has budget, slip, horizon"):
        bd.tasks.find("rover").with_settings({"bugdet": "1"})
    with pytest.raises(bd.TaskError, match="must be a whole number"):
        bd.tasks.find("rover").with_settings({"horizon": "3.5"})
