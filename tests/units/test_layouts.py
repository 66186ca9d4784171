"""Layouts of a known model for planners: which solve compiles, and what is kept with the model."""

import pickle

import cvxpy as cp
import numpy as np

import bidual as bd
from bidual.models import _known, known_for_next_solve
from bidual.planners import BackwardInduction, SparseInduction, choose_exact_planner
from tests.helpers import random_instance


def test_the_second_solve_of_a_model_compiles_and_the_first_does_not():
    instance = random_instance(0, (6, 2, 3, 4))
    layouts = [known_for_next_solve(instance.mdp) for _ in range(3)]
    assert [type(choose_exact_planner(one)) for one in layouts] == [SparseInduction] + 2 * [BackwardInduction]
    assert layouts[1] is layouts[2]
    assert known_for_next_solve(instance.mdp.with_names(states=list("abcdef"))) is layouts[1]
    restored = pickle.loads(pickle.dumps(instance.mdp))
    assert known_for_next_solve(restored).in_main_memory


def test_a_large_model_is_compiled_at_once(monkeypatch):
    monkeypatch.setattr(_known, "_WORTH_COMPILING", 6 * 2 * 3 - 1)
    assert not known_for_next_solve(random_instance(0, (6, 2, 3, 4)).mdp).in_main_memory


def test_both_planners_lead_to_the_same_certified_optimum():
    instance = random_instance(1, (6, 2, 3, 4), masked=True)
    x = instance.embedding()
    problem = bd.Problem(cp.Minimize(cp.sum(x.s0)), {"budget": cp.sum(x.s1) <= 0.0})
    first, second = (bd.solve(problem, instance.mdp, gap=1e-9) for _ in range(2))
    assert (first.status, second.status) == ("optimal", "optimal")
    assert max(first.lower, second.lower) <= min(first.upper, second.upper) <= max(first.lower, second.lower) + 1e-9


def test_costs_that_change_with_time_are_planned_step_by_step():
    """A cost that is the same at neighbouring steps is computed once: the steps where it changes must be noticed."""
    instance = random_instance(2, (6, 2, 3, 4), masked=True)
    model = known_for_next_solve(instance.mdp)
    layout = model.restrict(instance.embedding().features.stage(instance.mdp.successors))
    theta = np.repeat(np.random.default_rng(0).normal(size=(2, 4)), 2, axis=0)
    plan, compiled = (planner(model, layout, theta) for planner in (SparseInduction(), BackwardInduction()))
    np.testing.assert_array_equal(np.asarray(plan.actions), np.asarray(compiled.actions))
    np.testing.assert_allclose(plan.embedding, compiled.embedding, atol=1e-14)
