"""Searches over plans of which only totals are computed, in double precision and from single precision on."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.dual import FullyCorrective, read_image
from bidual.models import known
from bidual.planners import BackwardInduction, can_carry, lay_out_totals
from bidual.solving import search, totals
from bidual.solving.search import bind
from tests.helpers import SHAPES, keep_few, occupancy_optimum, random_instance

KINDS = [{}, {"per_step": True}, {"masked": True}]


@pytest.fixture
def as_if_large(monkeypatch):
    """Let searches over small models go the way of large ones, from single precision on or not."""

    def arrange(single):
        monkeypatch.setattr(search, "known_for_next_solve", known)
        monkeypatch.setattr(totals, "is_nearly_smooth", lambda _: True)
        monkeypatch.setattr(totals, "is_large", lambda _: single)

    return arrange


def _problem(instance, limit, sign=1.0):
    x = instance.embedding()
    discount = 0.9 ** np.arange(instance.mdp.horizon)
    return bd.Problem(cp.Minimize(sign * cp.sum(x.s0) + 2.0), {"a": discount @ x.s1 <= limit})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("single", [False, True])
def test_totals_are_those_of_the_plan(kind, single):
    instance = random_instance(5, (4, 3, 3, 5), **kind)
    program, psi = bind(_problem(instance, 1.0), instance.mdp)
    model = known(instance.mdp)
    layout, planner = model.restrict(psi), BackwardInduction()
    laid_out = lay_out_totals(program, layout, model, single=single)
    # 15 sums of numbers of up to 1.5 in 5 steps: 1e-5 and 1e-14 are more than a dozen roundings of each.
    tolerance = 1e-5 if single else 1e-14
    for gamma, weight in ((0.0, 1.0), (0.7, 1.0), (5.0, 1.0), (1.0, 0.0)):
        plan = laid_out.plan(np.array([gamma]), weight)
        reference = planner(model, layout, program.theta(np.array([gamma]), weight))
        full = planner.with_embedding(model, layout, plan)
        assert abs(plan.value - reference.value) <= tolerance
        np.testing.assert_allclose(read_image(program, plan)[1], read_image(program, full)[1], atol=tolerance)
        assert abs(read_image(program, plan)[0] - read_image(program, full)[0]) <= tolerance


def test_only_objectives_with_at_most_one_limit_over_signals_are_carried():
    instance = random_instance(5, (4, 3, 3, 5))
    x = instance.embedding()
    one, two = {"a": cp.sum(x.s1) <= 1}, {"a": cp.sum(x.s1) <= 1, "b": cp.sum(x.s2) <= 1}
    found = []
    for limits in ({}, one, two, {"a": cp.sum(x.s1) == 1}):
        program, psi = bind(bd.Problem(cp.Minimize(cp.sum(x.s0)), limits), instance.mdp)
        model = known(instance.mdp)
        found.append(can_carry(program, model.restrict(psi), model))
    assert found == [True, True, False, False]
    visits = instance.mdp.embedding(visits=True)
    program, psi = bind(bd.Problem(cp.Minimize(cp.sum(visits.visits[-1, 0]))), instance.mdp)
    model = known(instance.mdp)
    assert not can_carry(program, model.restrict(psi), model)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("seed", keep_few(range(24), 6))
def test_the_answer_is_that_of_the_occupancy_program(as_if_large, seed, single):
    """Whatever the precision of the search: optima, bounds, clashes, and a resolve with another limit."""
    as_if_large(single)
    kind = KINDS[seed % 3]
    instance = random_instance(seed, SHAPES[1 + seed % 3], **kind)
    limit = cp.Parameter(name="limit")
    limit.value = np.random.default_rng(seed).uniform(-4.0, 2.0)
    problem = _problem(instance, limit, sign=-1.0 if seed % 2 else 1.0)
    solution = bd.solve(problem, instance.mdp, gap=1e-8)
    for value in (limit.value, limit.value + 0.3):
        limit.value = value
        status, optimum = occupancy_optimum(problem, instance.mdp)
        assert solution.status == status
        if status == "optimal":
            # HiGHS is right to 1e-7, as are its optima in all tests.
            assert solution.lower - 1e-7 <= optimum <= solution.upper + 1e-7
            assert solution.gap <= 1e-8
            assert solution.constraint("a").violation_upper <= solution.constraint("a").tolerance
        solution = solution.resolve(limit=value + 0.3)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_search_that_is_cut_short_has_a_sound_answer(as_if_large, most):
    as_if_large(True)
    task = bd.tasks.find("rover").build()
    solution = bd.solve(task.problem, task.mdp, max_plans=most)
    assert solution.plans == most == len(solution.history)
    assert solution.upper is None or solution.upper >= 1.536288 - 1e-6
    assert solution.lower is None or solution.lower <= 1.536288 + 1e-6


def test_over_a_large_model_it_takes_fewer_plans_to_the_same_optimum(monkeypatch):
    monkeypatch.setattr(search, "known_for_next_solve", known)
    rng = np.random.default_rng(0)
    S, A, K = 5000, 5, 5
    lists = rng.integers(0, S, (S, A, K)), rng.dirichlet(np.ones(K), (S, A))
    mdp = bd.TabularMDP(lists, np.full(S, 1 / S), 10)
    x = mdp.embedding(reward=rng.random((S, A)), cost=rng.random((S, A)))
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"budget": cp.sum(x.cost) <= 2.5})
    fast = bd.solve(problem, mdp, gap=1e-6)
    slow = bd.solve(problem, mdp, gap=1e-6, dual=FullyCorrective())
    assert fast.status == slow.status == "optimal"
    assert fast.lower <= slow.upper
    assert slow.lower <= fast.upper
    assert fast.plans < slow.plans
    fine = bd.solve(problem, mdp, gap=1e-10)  # below what single precision can tell
    assert fine.status == "optimal"
    assert slow.lower <= fine.upper <= slow.upper
