"""Models whose rows have very different numbers of successors: lists are cut, and nothing else changes."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.models import known, known_for_next_solve
from bidual.planners import BackwardInduction, SparseInduction, lay_out_totals
from bidual.solving.search import bind
from tests.helpers import occupancy_optimum

S, A, K, H = 40, 3, 25, 4


def _ragged(seed, masked=False):
    """Rows of one to three successors, somewhere in lists of 25, and two that are full."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, (S, A))
    counts[3, 1] = counts[17, 0] = K
    chances = rng.random((S, A, K)) * (np.argsort(rng.random((S, A, K)), axis=-1) < counts[..., None])
    lists = rng.integers(0, S, chances.shape), chances / chances.sum(axis=-1, keepdims=True)
    allowed = rng.random((S, A)) < 0.7 if masked else None
    if allowed is not None:
        allowed[:, 0] = True
    return bd.TabularMDP(lists, rng.dirichlet(np.ones(S)), H, allowed=allowed), rng.normal(size=(2, S, A))


@pytest.mark.parametrize("masked", [False, True])
def test_plans_of_cut_lists_are_the_cheapest_by_dense_arithmetic(masked):
    mdp, (reward, cost) = _ragged(0, masked)
    x = mdp.embedding(reward=reward, cost=cost)
    program, psi = bind(bd.Problem(cp.Minimize(cp.sum(x.reward)), {"a": cp.sum(x.cost) <= 1.0}), mdp)
    P = np.zeros((S, A, S))
    lists = mdp.successors
    np.add.at(P, (*np.indices((S, A, K))[:2], lists.states[0]), lists.probabilities[0])
    V, soft = np.zeros(S), np.zeros(S)
    for _ in range(H):
        Q = np.where(mdp.actions, reward + 0.3 * cost + P @ V, np.inf)
        V = Q.min(axis=1)
        Q = np.where(mdp.actions, reward + 0.3 * cost + P @ soft, np.inf)
        soft = -np.log(np.exp(-Q).sum(axis=1) / mdp.actions.sum(axis=1))
    theta = np.tile([1.0, 0.3], (H, 1))
    for model, planner in ((known(mdp), BackwardInduction()), (known_for_next_solve(mdp), SparseInduction())):
        assert model.states.shape[1] <= 3
        assert model.tail is not None
        layout = model.restrict(psi)
        plan, soft_plan = planner(model, layout, theta), planner.soft(model, layout, theta)
        # Sums of some forty products of numbers of size 4.
        assert abs(plan.value - mdp.initial @ V) <= 1e-13
        assert abs(soft_plan.value - mdp.initial @ soft) <= 1e-13
        for one in (plan, soft_plan):
            table = model.spread(planner.occupancy(model, layout, one))
            np.testing.assert_allclose(table.sum(axis=(1, 2)), 1.0, atol=1e-14)
            np.testing.assert_allclose([psi.expect(row, h) for h, row in enumerate(table)], one.embedding, atol=1e-13)
    model = known(mdp)
    carried = lay_out_totals(program, model.restrict(psi), model, single=False).plan(np.array([0.3]), 1.0)
    assert abs(carried.value - mdp.initial @ V) <= 1e-13


def test_lists_of_one_length_and_laws_of_every_step_are_not_cut():
    mdp, _ = _ragged(1)
    lists = mdp.successors
    even = bd.TabularMDP((lists.states[0, ..., :2], np.full((S, A, 2), 0.5)), 0, H)
    by_step = bd.TabularMDP((lists.states.repeat(H, 0), lists.probabilities.repeat(H, 0)), mdp.initial, H)
    assert known(even).states.shape[1] == 2
    assert known(by_step).states.shape[1] == K
    assert known(even).tail is known(by_step).tail is None


@pytest.mark.parametrize("seed", range(2))
def test_optima_of_ragged_models_are_those_of_the_occupancy_program(seed):
    mdp, (reward, cost) = _ragged(seed, masked=True)
    x = mdp.embedding(reward=reward, cost=cost)
    problem = bd.Problem(cp.Minimize(cp.sum(x.reward)), {"a": cp.sum(x.cost) <= -1.0})
    status, optimum = occupancy_optimum(problem, mdp)
    for _ in range(2):  # the second solve is compiled
        solution = bd.solve(problem, mdp, gap=1e-8)
        assert solution.status == status == "optimal"
        assert solution.lower - 1e-7 <= optimum <= solution.upper + 1e-7  # HiGHS is right to 1e-7
