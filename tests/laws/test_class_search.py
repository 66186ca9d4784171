"""Search over a class of laws: intervals hold the minimum, and what is called proven is it.

The reference tries every combination of candidates in turn, with dense laws and plain loops.
"""

import itertools

import numpy as np
import pytest

from bidual.certificate._class import bound_least_over_class
from bidual.planners import ClassSearch
from bidual.planners._class_steps import ClassSteps
from bidual.planners._frontier import Frontier
from tests.classes import random_case

KINDS = {
    "plain": {},
    "masked": {"masked": True},
    "paid on arrival": {"arrivals": 1, "horizon": 3},
    "start unknown": {"start": False},
    "one step": {"horizon": 1},
    "one action": {"size": (6, 1, 3)},
    "one candidate": {"counts": (1, 1)},
}


def dense_value(case, theta, combination):
    """The least cost when these candidates are true, by backward induction over dense laws."""
    pieces, allowed = case.pieces, case.model.counts.support.allowed
    V = np.zeros(len(allowed))
    for h in reversed(range(len(theta))):
        law = case.law(h, combination[h])
        ahead = np.broadcast_to(V, law.shape)
        for position, values in pieces.arrivals:
            ahead = ahead + theta[h, position] * values[0]
        Q = np.tensordot(theta[h], pieces.stage[0], axes=1) + np.sum(law * ahead, axis=-1)
        V = np.where(allowed, Q, np.inf).min(axis=1)
    return float(V.min()) if case.model.initial is None else float(case.model.initial @ V)


def dense_minimum(case, theta):
    last = len(theta) - 1
    numbers = [
        range(one.count) if h < last or case.pieces.arrivals else range(1) for h, one in enumerate(case.model.factors)
    ]
    return min(dense_value(case, theta, combination) for combination in itertools.product(*numbers))


def costs(case, seed):
    H, d = len(case.model.factors), case.pieces.psi.dimension
    return np.random.default_rng([1, seed]).normal(size=(H, d))


def plan_value(case, theta, plan):
    return float(np.vdot(theta, plan.embedding))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_every_way_of_searching_holds_the_minimum(kind, seed):
    """Values are sums of a dozen numbers of size 3: roundings are below 1e-12."""
    case = random_case(seed, **KINDS[kind])
    theta = costs(case, seed)
    exact = dense_minimum(case, theta)
    for search, proven in (
        (ClassSearch(), True),
        (ClassSearch(combinations=0, nodes=10**6), True),
        (ClassSearch(combinations=0, nodes=5), False),
        (ClassSearch(combinations=0), False),
    ):
        found = search.search(case.model, case.layout, theta)
        assert found.lower <= exact + 1e-12
        assert found.upper >= exact - 1e-12
        if proven:
            assert found.proven
            assert abs(found.upper - exact) <= 1e-12
        plan = search(case.model, case.layout, theta)
        assert plan.lower == found.lower
        assert abs(plan.value - found.upper) <= 1e-12
        assert abs(plan_value(case, theta, plan) - plan.value) <= 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_checker_finds_the_minimum_too(kind, seed):
    """From below, and to rounding where all combinations can be followed; it shares no code with the planner."""
    case = random_case(seed, **KINDS[kind])
    theta = costs(case, seed)
    least = bound_least_over_class(case.model, case.pieces, theta, np.abs(theta), 1)
    assert 0 < least.error <= 1e-11
    assert least.value - least.error <= dense_minimum(case, theta)
    assert abs(least.value - dense_minimum(case, theta)) <= 1e-12


@pytest.mark.parametrize("room", [1, 40, 10_000])
def test_the_checker_relaxes_where_there_are_too_many(room, monkeypatch):
    """Then it is at most the minimum, and not below the rectangular relaxation, which it is without any room."""
    monkeypatch.setattr("bidual.certificate._class._MOST", room)
    case = random_case(0, (8, 3, 3), (6, 6), horizon=5)
    theta = costs(case, 0)
    least = bound_least_over_class(case.model, case.pieces, theta, np.abs(theta), 1)
    rough = ClassSearch(combinations=0).search(case.model, case.layout, theta)
    exact = ClassSearch(combinations=0, nodes=10**6).search(case.model, case.layout, theta)
    assert exact.proven
    assert rough.lower - 1e-12 <= least.value <= exact.upper + 1e-12
    if room == 1:
        assert abs(least.value - rough.lower) <= 1e-12
    if room == 10_000:
        assert least.value >= (rough.lower + exact.upper) / 2


def test_values_that_others_dominate_change_no_minimum(monkeypatch):
    """Candidates that differ in rows that no one takes: few values are different, and the minimum stays exact."""
    case = random_case(3, (6, 3, 3), (4, 4), horizon=5, far=0.02)
    theta = costs(case, 3)
    exact = bound_least_over_class(case.model, case.pieces, theta, np.abs(theta), 1)
    monkeypatch.setattr("bidual.certificate._class._MOST", 1000)
    least = bound_least_over_class(case.model, case.pieces, theta, np.abs(theta), 1)
    assert least.value <= exact.value + 1e-12
    found = ClassSearch(combinations=0, nodes=10**6).search(case.model, case.layout, theta)
    assert found.proven
    assert least.value <= found.upper + 1e-12


def test_a_frontier_keeps_what_nothing_is_below():
    """Against the definition, on many small vectors that repeat and tie; in several batches, within a room."""
    rng = np.random.default_rng(0)
    for batches in (1, 3):
        values, frontier = rng.integers(0, 5, (60, 3)).astype(float), Frontier(3)
        parts = np.array_split(values, batches)
        kept = [part[frontier.add(part, 1e-9)] for part in parts]
        for one in values:
            assert any(np.all(other <= one + 1e-9) for part in kept for other in part)
        first = kept[0]
        for i, one in enumerate(first):
            assert not any(np.all(other <= one) for j, other in enumerate(first) if j != i)
    assert Frontier(2).add(np.zeros((0, 2)), 0.0).size == 0


def _oracles(seeds):
    """How often coordinate descent finds the minimum, and how optimistic the relaxation is against the exact search."""
    hits, relaxed_values, exact = 0, 0.0, 0.0
    for seed in seeds:
        case = random_case(seed, (8, 3, 3), (3, 3), horizon=5)
        theta, layout = costs(case, seed), case.layout
        best = ClassSearch().search(case.model, layout, theta)
        rough = ClassSearch(combinations=0).search(case.model, layout, theta)
        thorough = ClassSearch(combinations=0, nodes=10**6).search(case.model, layout, theta)
        assert rough.lower <= best.lower + 1e-12
        assert rough.upper >= best.upper - 1e-12
        assert abs(thorough.upper - best.upper) <= 1e-9
        assert thorough.proven
        true = dense_value(case, theta, case.truth)
        hits, relaxed_values, exact = (
            hits + (rough.upper - best.upper <= 1e-9),
            relaxed_values + true - rough.lower,
            exact + true - best.lower,
        )
    return hits, relaxed_values / exact


def test_oracles_on_twenty_instances():
    hits, ratio = _oracles(range(20))
    assert hits >= 18
    assert 1 <= ratio <= 2.5


@pytest.mark.slow
def test_oracles_on_two_hundred_instances():
    hits, ratio = _oracles(range(200))
    assert hits >= 180
    assert 1 <= ratio <= 2.5


@pytest.mark.parametrize("kind", KINDS)
def test_values_may_be_relaxed_a_few_at_a_time(kind, monkeypatch):
    case = random_case(0, **KINDS[kind])
    steps = ClassSteps(case.model, case.layout, costs(case, 0))
    V = np.random.default_rng(2).normal(size=(5, steps.S))
    at_once = steps.relaxed_values(steps.horizon, V)
    monkeypatch.setattr("bidual.planners._class_steps._BLOCK", 2 * steps.size * len(steps.members[0].numbers))
    np.testing.assert_allclose(steps.relaxed_values(steps.horizon, V), at_once, rtol=0, atol=1e-12)
