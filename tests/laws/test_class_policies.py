"""What a policy pays under every law of a class: the bounds hold for each of them, and no farther than they must.

The reference tries every combination of candidates in turn and evaluates the policy forward with dense laws.
"""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate import EstimateRows, Estimates, PlanTables, bound_mixture, evaluate_at
from bidual.certificate._class import bound_least_over_class
from bidual.certificate._within import bound_extreme_values
from bidual.certificate._within_mixtures import bound_mixture_minimum
from bidual.storage import collect_linear_rows
from tests.classes import random_case
from tests.laws.test_class_search import KINDS

KNOWN_START = [kind for kind in KINDS if kind != "start unknown"]


def random_policy(case, seed):
    rng, allowed = np.random.default_rng([2, seed]), case.model.counts.support.allowed
    table = rng.dirichlet(np.ones(allowed.shape[1]), (len(case.model.factors), len(allowed))) * allowed
    return table / table.sum(axis=-1, keepdims=True)


def embedding(case, table, combination, initial):
    """Psi of a policy when these candidates are true."""
    mu, psi = initial, np.zeros((len(table), case.pieces.psi.dimension))
    for h, actions in enumerate(table):
        occupancy, law = mu[:, None] * actions, case.law(h, combination[h])
        psi[h] = np.tensordot(case.pieces.stage[0], occupancy, axes=2)
        for position, values in case.pieces.arrivals:
            psi[h, position] += np.sum(occupancy[..., None] * law * values[0])
        mu = np.tensordot(occupancy, law, axes=2)
    return psi


def embeddings(case, table):
    numbers = [range(one.count) for one in case.model.factors]
    return np.array([embedding(case, table, one, case.model.initial) for one in itertools.product(*numbers)])


@pytest.mark.parametrize("kind", KNOWN_START)
@pytest.mark.parametrize("seed", range(2))
def test_a_linear_cost_of_a_policy_has_its_exact_least_value(kind, seed):
    """All combinations are followed here. Values are sums of a dozen numbers of size 3: roundings are below 1e-12."""
    case = random_case(seed, **{"horizon": 3, **KINDS[kind]})
    table, psi = random_policy(case, seed), embeddings(case, random_policy(case, seed))
    theta = np.random.default_rng([3, seed]).normal(size=psi.shape[1:])
    least = bound_least_over_class(case.model, case.pieces, theta, np.abs(theta), 1, table)
    exact = np.tensordot(psi, theta, axes=2).min()
    assert 0 < least.error < 1e-10
    assert abs(least.value - exact) <= 1e-12


def test_where_combinations_are_too_many_the_bound_is_below_all_of_them():
    case = random_case(4, counts=(4, 4), horizon=5)
    table, rng = random_policy(case, 0), np.random.default_rng(0)
    theta = rng.normal(size=(5, 2))
    least = bound_least_over_class(case.model, case.pieces, theta, np.abs(theta), 1, table)
    some = rng.integers(0, 16, (300, 5))
    values = [np.vdot(theta, embedding(case, table, one, case.model.initial)) for one in some]
    assert least.value <= min(values)
    assert least.value >= min(values) - np.ptp(values)  # and not by much more than they differ


def convex_program(case, curve):
    """A curved objective and a linear limit over signals of the same shape."""
    _, d, S, A = case.pieces.stage.shape
    x = bd.features.signals(**{f"c{i}": np.zeros((S, A)) for i in range(d)}).embedding(len(case.model.factors))
    return bd.Problem(cp.Minimize(curve(x)), {"limit": cp.sum(x.c0) <= 1.0}).program()


CURVES = {
    "distance": lambda x: cp.norm(cp.hstack([cp.sum(x.c0) - 1, cp.sum(x.c1) + 2])),
    "of every step": lambda x: cp.sum_squares(x.c1 - 0.5),
}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("few", [True, False])
def test_curved_functions_are_bounded_over_all_combinations(monkeypatch, curve, few):
    """Where laws are few f is evaluated under each: then both ends are exact. Otherwise at corners, from above."""
    case = random_case(7, horizon=3)
    program, table = convex_program(case, CURVES[curve]), random_policy(case, 1)
    monkeypatch.setattr("bidual.certificate._within._MOST", 100 if few else 10)
    nothing = EstimateRows(np.zeros(0, dtype=np.int64), np.zeros((0, 3, 2)), np.zeros(0), np.zeros((0, 3, 2)), 0)
    lower, upper = bound_extreme_values(program, nothing, table, case.model, case.pieces)
    values = np.array([evaluate_at(program, psi) for psi in embeddings(case, table)])
    assert np.all(upper >= values.max(axis=0))
    assert np.all(lower <= values.min(axis=0))
    if few:
        np.testing.assert_allclose([lower, upper], [values.min(axis=0), values.max(axis=0)], rtol=0, atol=1e-11)
    else:
        assert np.all(lower == -np.inf)
        assert upper[0] <= values[:, 0].max() + 1.0  # of numbers that differ by 0.3 between the laws


def random_plans(case, count, seed=5):
    """Deterministic plans over allowed actions with weights."""
    rng, allowed = np.random.default_rng([seed, count]), case.model.counts.support.allowed
    H, S, A = len(case.model.factors), *allowed.shape
    actions = np.where(allowed, rng.random((count, H, S, A)), -1.0).argmax(axis=-1)
    return PlanTables(actions, rng.dirichlet(np.ones(count)))


def mixed_embeddings(case, plans):
    tables = np.eye(case.pieces.stage.shape[-1])[plans.actions]
    return np.tensordot(plans.weights, [embeddings(case, table) for table in tables], axes=1)


@pytest.mark.parametrize("kind", KNOWN_START)
@pytest.mark.parametrize("large", [None, 200])
def test_one_law_serves_all_plans_of_a_mixture(kind, large, monkeypatch):
    """Then the least over the combinations is exact; plans taken a few at a time may have laws of their own."""
    if large is not None:
        monkeypatch.setattr("bidual.certificate._within_mixtures._LARGE", large)
    case = random_case(1, **{"horizon": 3, **KINDS[kind]})
    plans, theta = random_plans(case, 7), np.random.default_rng(4).normal(size=(len(case.model.factors), 2))
    theta = np.hstack([theta, theta[:, :1]])[:, : case.pieces.psi.dimension]
    exact = np.tensordot(mixed_embeddings(case, plans), theta, axes=2).min()
    least = bound_mixture_minimum(case.model, case.pieces, theta, np.abs(theta), 1, plans)
    assert 0 < least.error < 1e-10
    assert least.value <= exact + 1e-12
    if large is None:
        assert abs(least.value - exact) <= 1e-12


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("few", [True, False])
def test_curved_functions_of_a_mixture_are_bounded_over_all_combinations(monkeypatch, curve, few):
    """Law by law both ends are exact; at corners f is bounded from above alone."""
    case = random_case(7, horizon=3)
    program, plans = convex_program(case, CURVES[curve]), random_plans(case, 5)
    monkeypatch.setattr("bidual.certificate._within_mixtures._MOST", 100 if few else 10)
    lower, upper = bound_mixture(program, collect_linear_rows(program), plans, case.model, case.pieces)
    values = np.array([evaluate_at(program, psi) for psi in mixed_embeddings(case, plans)])
    assert np.all(upper >= values.max(axis=0))
    assert np.all(lower <= values.min(axis=0))
    if few:
        np.testing.assert_allclose([lower, upper], [values.min(axis=0), values.max(axis=0)], rtol=0, atol=1e-11)
    else:
        assert lower[0] == -np.inf
        assert upper[0] <= values[:, 0].max() + 1.0


def test_bounds_that_exclude_each_other_end_in_words():
    seen = Estimates(np.array([0.5]), np.array([0.4]), np.array([0.6]), 100)
    narrow = seen.narrow(np.array([0.5]), np.array([0.55]), np.array([0.7]))
    assert (narrow.mean[0], narrow.lower[0], narrow.upper[0]) == (0.55, 0.55, 0.6)
    with pytest.raises(bd.EnvError, match=r"misspecified: fresh .* objective .* between 0.4 and 0.6.* 0.7 to 0.8"):
        seen.narrow(np.array([0.5]), np.array([0.7]), np.array([0.8]))
