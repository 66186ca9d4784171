"""How good learned policies are, by exact evaluation in the true model, which the learner never sees.

Seeds are fixed, so nothing here is random from run to run on one machine; the counts were measured, and floors are
those of the benchmark (benchmarks/learn.py), whose code runs here. Value and costs must keep their floors in the same
run to count.
"""

import pytest
from benchmarks.learn import CERTIFIED, CONVEX, QUALITY, UNKNOWN, lake, runs

import bidual as bd

LEAST = {
    ("box", 300): 17,
    ("box", 1000): 19,
    ("rover", 1000): 18,
    ("rover", 3000): 17,
    ("media", 1000): 19,
    ("riverswim", 1000): 19,
    ("rover-two", 1000): 19,
}
SHORT = [floor for floor in QUALITY if floor.episodes <= 1000 and floor.task in ("media", "rover")]


def _found(floor, seeds, unknown=False):
    """What the benchmark finds, with every bound of every run checked."""
    found = runs(floor, seeds, unknown=unknown)
    task = bd.tasks.find(floor.task)
    for row in found["rows"]:
        _check_bounds(task.build().problem.maximises, task.optimum, row)
    return found


def _check_bounds(maximises, optimum, row):
    """Every printed bound is true in these runs; optima are known to six digits."""
    beaten, reached = (row["upper"], row["lower"]) if maximises else (row["lower"], row["upper"])
    sign = -1 if maximises else 1
    assert beaten is None or sign * beaten <= sign * optimum + 1e-6
    assert reached is None or sign * reached >= sign * row["value"]
    assert row["status"] not in ("feasible", "optimal") or row["truly_feasible"]


@pytest.mark.parametrize("floor", SHORT, ids=lambda floor: f"{floor.task} {floor.episodes}")
def test_three_seeds_are_good(floor):
    assert _found(floor, 3)["good"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize("floor", QUALITY, ids=lambda floor: f"{floor.task} {floor.episodes}")
def test_twenty_seeds_are_good(floor):
    assert _found(floor, 20)["good"] >= LEAST[floor.task, floor.episodes]


@pytest.mark.slow
@pytest.mark.parametrize("floor", UNKNOWN, ids=lambda floor: floor.task)
def test_ten_seeds_without_declared_successors(floor):
    assert _found(floor, 10, unknown=True)["good"] >= 9


@pytest.mark.slow
@pytest.mark.parametrize(("floor", "gap"), list(zip(CERTIFIED, (0.035, 0.015), strict=True)), ids=("rover", "box"))
def test_certified_gaps_after_ten_thousand_episodes(floor, gap):
    assert sum(found <= gap for found in _found(floor, 10)["gaps"]) >= 9


def _lake(*settings):
    found = lake(*settings)
    for row in found["rows"]:
        assert row["lower"] <= row["goal"] <= found["best"] + 0.02  # a little more where holes are a little above 0.1
        assert found["best"] <= row["upper"] + 1e-6
        assert row["upper"] < 1
        assert row["status"] == "undecided" or row["hole"] <= 0.1
    return found


def _near_the_best(found, share):
    """Every seed: holes within 2 % of their limit, and that share of the best probability of the goal."""
    return all(row["hole"] <= 0.102 and row["goal"] >= share * found["best"] for row in found["rows"])


def test_the_small_lake_is_learned_through_gymnasium_alone():
    """The goal is 4.6 times as likely as a hole in the best policies, so caution costs: the limit is tightened."""
    assert _near_the_best(_lake("4x4", 50, 1000, 1), 0.75)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "horizon", "share"), [("4x4", 50, 0.84), ("8x8", 100, 0.98)])
def test_lakes_are_learned_through_gymnasium_alone(size, horizon, share):
    assert _near_the_best(_lake(size, horizon, 3000, 3), share)


@pytest.mark.slow
@pytest.mark.parametrize("floor", CONVEX, ids=lambda floor: floor.task)
def test_convex_objectives_are_learned(floor):
    assert _found(floor, 2)["good"] == 2
