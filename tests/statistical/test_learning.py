"""How good learned policies are, by exact evaluation in the true model, which the learner never sees.

Seeds are fixed, so nothing here is random from run to run; the counts were measured, and floors are those of the
benchmark (benchmarks/learn.py). Value and costs must keep their floors in the same run to count.
"""

import pytest
from benchmarks.learn import CONVEX, UNKNOWN, Floor, declared, exact, good

import bidual as bd

FLOORS = {
    "box 300": (Floor("box", 300, 1.740, (0.102,)), 18),
    "box 1000": (Floor("box", 1000, 1.745, (0.102,)), 19),
    "rover 1000": (Floor("rover", 1000, 1.510, (0.306,)), 18),
    "rover 3000": (Floor("rover", 3000, 1.525, (0.306,)), 18),
    "media 1000": (Floor("media", 1000, 6.87, (5.05,)), 19),
    "riverswim 1000": (Floor("riverswim", 1000, 2.79, (15.15,)), 19),
}


def _runs(floor, seeds, unknown=False):
    task = bd.tasks.find(floor.task).build()
    for seed in seeds:
        solution = bd.learn(task.problem, task.mdp, declared(task, unknown=unknown), episodes=floor.episodes, seed=seed)
        value, costs = exact(task, solution.policy)
        _check_bounds(task, floor, solution, value, costs)
        yield solution, good(task, floor, value, costs)


def _check_bounds(task, floor, solution, value, costs):
    """Every printed bound is true in these runs."""
    optimum = bd.tasks.find(floor.task).optimum
    lower, upper = (-x if task.problem.maximises and x is not None else x for x in (solution.lower, solution.upper))
    lower, upper = (upper, lower) if task.problem.maximises else (lower, upper)
    sign = -1 if task.problem.maximises else 1
    assert lower is None or lower <= sign * optimum + 1e-6
    assert upper is None or upper >= sign * value
    for cost, result in zip(costs, solution.constraints, strict=True):
        over = cost - result.limit if result.sense == "<=" else result.limit - cost
        assert over <= result.violation_upper + 1e-9
    if solution.status == "feasible":
        assert all(c <= r.limit + 1e-9 for c, r in zip(costs, solution.constraints, strict=True) if r.sense == "<=")


@pytest.mark.parametrize("name", ["box 300", "media 1000", "riverswim 1000", "rover 1000"])
def test_three_seeds_are_good(name):
    floor, _ = FLOORS[name]
    assert sum(fine for _, fine in _runs(floor, range(3))) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOORS)
def test_twenty_seeds_are_good(name):
    floor, least = FLOORS[name]
    assert sum(fine for _, fine in _runs(floor, range(20))) >= least


@pytest.mark.slow
@pytest.mark.parametrize("floor", UNKNOWN, ids=lambda floor: floor.task)
def test_ten_seeds_without_declared_successors(floor):
    assert sum(fine for _, fine in _runs(floor, range(10), unknown=True)) >= 9


@pytest.mark.slow
@pytest.mark.parametrize(("task", "gap"), [("rover", 0.035), ("box", 0.015)])
def test_certified_gaps_after_ten_thousand_episodes(task, gap):
    floor = Floor(task, 10_000, 0.0, (1.0,))
    assert sum(solution.gap <= gap for solution, _ in _runs(floor, range(10))) >= 9


@pytest.mark.slow
def test_two_constraints_are_learned_at_once():
    floor = Floor("rover-two", 1000, 1.49, (1.05 * 0.3, 1.05 * 0.06))
    assert sum(fine for _, fine in _runs(floor, range(10))) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("floor", CONVEX, ids=lambda floor: floor.task)
def test_convex_objectives_are_learned(floor):
    assert all(fine for _, fine in _runs(floor, range(2)))
