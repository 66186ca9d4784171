"""Every task solves to its pinned optimum, which the occupancy program computes anew."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from tests.helpers import keep_few, occupancy_optimum, occupancy_program

PRICES = {
    "rover": {"pits": 0.19298},
    "rover-two": {"pits": 0.1996, "quadrant": 0.0743},
    "box": {"corners": 0.0782},
    "media": {"fast": 0.4952},
    "riverswim": {"right": 0.160},
    "inventory": {"cost": 0.2219},
    "frozenlake": {"holes": 0.7593},
    "cliffwalking": {"falls": 4.545, "goal": 9.956},
    "taxi": {"fuel": 1 / 12},
    "deep-sea-treasure": {"time": 0.875},
    "lock-discrete": {},
}
# Where the occupancy program takes HiGHS too long for three budgets: settings that are quicker, with their own budget.
QUICKER = {
    "frozenlake": {"size": "4", "horizon": "50", "budget": "0.1"},
    "cliffwalking": {"horizon": "50", "goal": "0.25"},
}
# Treasure and steps of every dive, as MO-Gymnasium publishes them for its convex map.
FRONT = {1: 0.7, 3: 8.2, 5: 11.5, 7: 14.0, 8: 15.1, 9: 16.1, 13: 19.6, 14: 20.3, 17: 22.4, 19: 23.7}
# The price of an unlocked lock is (H - 1) / H sqrt(3 / 2): as much time less in C.
CONVEX = {
    "rover-entropy": ("pits", 0.6335),
    "rover-match": ("pits", 0.0914),
    "lock-discrete-spread": ("goal", 0.8 * 1.5**0.5),
    "perturbation": ("cost", 0.3255),
}
# Which have no known finite model: see units/test_lock.py, units/test_control_tasks.py and units/test_lc3_tasks.py.
LEARNED = (
    *("lock", "lock-spread", "lqr", "lqr-effort", "lqr-match", "pointmass", "pointmass-match"),
    *("pendulum", "pendulum-effort", "pendulum-spread", "inverted-pendulum", "inverted-pendulum-effort"),
    *("pendulum-sparse", "pendulum-sparse-effort", "pendulum-sparse-spread"),
    *("mountain-car", "mountain-car-effort", "cartpole", "cartpole-effort", "acrobot", "acrobot-effort"),
)
NAMES = [entry.name for entry in bd.tasks.ENTRIES if entry.name not in (*CONVEX, *LEARNED)]
LIMITED = [name for name in NAMES if "budget" in bd.tasks.find(name).parameters]


def test_all_tasks_are_listed():
    assert {entry.name for entry in bd.tasks.ENTRIES} == {*PRICES, *CONVEX, *LEARNED}


@pytest.mark.parametrize("name", CONVEX)
def test_the_convex_tasks_are_certified_to_four_digits(name):
    """The pinned optima: 4.108621 to 4.108623 is known of the entropy; CVXPY and Clarabel give 0.06955363.

    Those of the lock and the perturbations are in test_class_tasks.
    """
    entry = bd.tasks.find(name)
    task = entry.build()
    solution = bd.solve(task.problem, task.mdp, gap=1e-4, relative=True)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-4 * max(abs(solution.lower), abs(solution.upper))
    assert solution.lower <= entry.optimum + 1e-6
    assert solution.upper >= entry.optimum - 1e-6
    constraint, price = CONVEX[name]
    assert entry.constraints == (constraint,)
    assert abs(solution.constraint(constraint).price - price) <= 0.02 * price


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


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("share", keep_few([0.6, 0.9, 1.3], 1))
def test_other_budgets_agree_with_the_occupancy_program(name, share):
    entry = bd.tasks.find(name)
    settings = {"budget": str(entry.parameters["budget"]), **QUICKER.get(name, {})}
    task = entry.with_settings({**settings, "budget": str(share * float(settings["budget"]))})
    solution = bd.solve(task.problem, task.mdp)
    status, optimum = occupancy_optimum(task.problem, task.mdp)
    assert (status, solution.status) == ("optimal", "optimal")
    sign = -1 if solution.sense == "maximize" else 1
    assert abs(solution.value - sign * optimum) <= 3e-6


@pytest.mark.parametrize("name", ["frozenlake", "cliffwalking", "taxi", "deep-sea-treasure"])
def test_the_pinned_optimum_is_that_of_the_occupancy_program(name):
    """By HiGHS's interior point method: its simplex needs several times as long and sometimes gives up."""
    entry = bd.tasks.find(name)
    task = entry.build()
    status, optimum = occupancy_optimum(task.problem, task.mdp, method="highs-ipm")
    sign = -1 if task.problem.maximises else 1
    assert status == "optimal"
    assert abs(sign * optimum - entry.optimum) <= 2e-6


@pytest.mark.parametrize("budget", [1.0, 2.0, 3.0, 4.5, 8.5, 15.0, 19.0, 25.0])
def test_the_treasure_is_the_hull_of_the_published_front(budget):
    task = bd.tasks.find("deep-sea-treasure").build(budget=budget)
    hull = np.interp(budget, list(FRONT), list(FRONT.values()))  # its slopes decrease: the front is its own hull
    assert abs(bd.solve(task.problem, task.mdp).value - hull) <= 2e-6


@pytest.mark.parametrize("name", NAMES)
def test_a_map_has_a_place_for_every_state(name):
    task = bd.tasks.find(name).build()
    if task.grid is None:
        return
    rows = task.grid.rows
    assert task.grid.cells.shape == (task.mdp.num_states,)
    assert task.grid.cells.max() < len(rows) * len(rows[0])
    assert len(task.grid.moves) == task.mdp.num_actions
    start = task.grid.cells[task.mdp.initial > 0]
    marks = {"".join(rows)[cell] for cell in start}
    assert marks == {"S"} if any("S" in row for row in rows) else -1 not in start


def test_the_two_roads_to_the_optimum_agree():
    """The occupancy program by CVXPY and Clarabel, which shares nothing with the rows we compile."""
    task = bd.tasks.find("media").build()
    psi = task.problem.embedding.features.stage(task.mdp.successors).signals[0]
    _, flow, (empty, fast) = occupancy_program(task.mdp, psi)
    value = cp.Problem(cp.Minimize(empty), [*flow, fast <= 5]).solve(solver=cp.CLARABEL)
    assert abs(value - bd.tasks.find("media").optimum) <= 2e-6


@pytest.mark.parametrize(
    ("name", "budget", "optimum", "price"),
    [
        ("inventory", 3.5, 0.879822, 0.1216),
        ("rover", 10.0, 1.816822, 0.0),
        ("box", 2.0, 1.815769, 0.0),
        ("frozenlake", 0.1, 0.640132, 0.1142803),
        ("frozenlake", 1.0, 0.640719, 0.0),
    ],
)
def test_known_values_at_other_budgets(name, budget, optimum, price):
    task = bd.tasks.find(name).build(budget=budget)
    # A price is a slope between two optima: a gap of 1e-6 leaves its second digit open, one of 1e-10 does not.
    solution = bd.solve(task.problem, task.mdp, gap=1e-10)
    assert abs(solution.value - optimum) <= 2e-6
    assert abs(solution.constraints[0].price - price) <= 1e-6


@pytest.mark.parametrize(("budget", "optimum", "price"), [(0.1, 0.463890, 4.500437), (1.0, 0.545909, 0.0)])
def test_known_values_of_the_small_lake(budget, optimum, price):
    task = bd.tasks.find("frozenlake").build(budget=budget, size=4, horizon=50)
    solution = bd.solve(task.problem, task.mdp, gap=1e-10)
    assert abs(solution.value - optimum) <= 2e-6
    assert abs(solution.constraints[0].price - price) <= 1e-6


def test_a_lake_of_another_size_is_refused():
    with pytest.raises(bd.TaskError, match="size=5: Gymnasium has maps of size 4, 8"):
        bd.tasks.find("frozenlake").build(size=5)


def test_unknown_names_list_what_there_is():
    with pytest.raises(bd.TaskError, match="Possible: rover"):
        bd.tasks.find("mars")
    with pytest.raises(bd.TaskError, match=r"no parameter 'bugdet'; did you mean 'budget'\? Possible: budget, slip, "):
        bd.tasks.find("rover").with_settings({"bugdet": "1"})
    with pytest.raises(bd.TaskError, match="must be a whole number"):
        bd.tasks.find("rover").with_settings({"horizon": "3.5"})
