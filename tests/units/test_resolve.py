"""Solving again after a change of parameters: the same answer as from scratch, and nothing left changed."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate.constraints import Goal
from tests.helpers import random_instance


def _linear(seed):
    instance = random_instance(seed, (6, 2, 3, 4))
    x = instance.embedding()
    most, least = cp.Parameter(name="most", value=1.0), cp.Parameter(name="least", value=-1.0)
    limits = {"a": cp.sum(x.s1) <= most, "b": cp.sum(x.s2) >= least}
    return bd.Problem(cp.Maximize(cp.sum(x.s0)), limits), instance.mdp


def _convex(seed):
    instance = random_instance(seed, (4, 3, 3, 5))
    x = instance.embedding()
    most, least = cp.Parameter(name="most", value=4.0), cp.Parameter(name="least", value=-1.0)
    limits = {"a": cp.norm(x.s1) <= most, "b": cp.sum(x.s2) >= least}
    return bd.Problem(cp.Minimize(cp.norm(x.s0 - 0.5) + cp.sum(x.s3)), limits), instance.mdp


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("build", [_linear, _convex])
def test_a_resolve_is_a_solve(build, seed):
    problem, mdp = build(seed)
    solution = bd.solve(problem, mdp)
    for values in ({"most": 1.5}, {"least": -0.5}, {"most": 0.5, "least": -2.0}, {"most": -100.0}):
        solution = solution.resolve(**values)
        assert {name: p.value for name, p in problem.parameters.items()} == {
            "most": 1.0 if build is _linear else 4.0,
            "least": -1.0,
        }
        with problem.holding({name: value[()] for name, value in solution._session.values.items()}):
            cold = bd.solve(problem, mdp)
        assert solution.status == cold.status
        if cold.status == "optimal":
            # Both enclose the optimum.
            assert solution.lower <= cold.upper + 1e-12
            assert cold.lower <= solution.upper + 1e-12
            assert solution.gap <= solution.goal.gap
            assert [c.limit for c in solution.constraints] == [c.limit for c in cold.constraints]


def test_unnamed_parameters_keep_the_values_of_the_solution():
    problem, mdp = _linear(1)
    solution = bd.solve(problem, mdp).resolve(most=1.5)
    problem.parameters["most"].value = 0.0
    assert solution.resolve(least=-1.5).constraint("a").limit == 1.5
    assert problem.parameters["most"].value == 0.0


def test_a_small_change_takes_few_plans():
    task = bd.tasks.find("rover").build()
    solution = bd.solve(task.problem, task.mdp)
    near = solution.resolve(budget=0.305)
    assert near.status == "optimal"
    assert near.plans < solution.plans / 2
    same = solution.resolve(budget=0.3)
    assert same.plans == 0
    assert same.value == pytest.approx(solution.value, abs=1e-12)
    assert "0 plans" in str(same)
    assert bd.report.bounds_figure(same).axes


def test_a_resolved_solution_is_saved_and_checked_like_any_other(tmp_path):
    task = bd.tasks.find("media").build()
    solution = bd.solve(task.problem, task.mdp).resolve(budget=4)
    solution.save(tmp_path / "media.bidual")
    assert "optimal" in str(bd.check(tmp_path / "media.bidual"))
    assert "_session" not in solution.to_dict()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bugdet": 1.0}, "no parameter 'bugdet'; its cp.Parameters are: most, least"),
        ({"most": np.nan}, "'most' must be given finite numbers; got nan"),
        ({"most": "much"}, "'most' must be given numbers; got 'much'"),
        ({"most": [1.0, 2.0]}, "'most' cannot be"),
        ({}, "wants at least one parameter by name"),
    ],
)
def test_bad_values_are_refused_and_leave_no_trace(values, message):
    problem, mdp = _linear(1)
    solution = bd.solve(problem, mdp)
    with pytest.raises(bd.ProblemError, match=message):
        solution.resolve(**values)
    assert [p.value for p in problem.parameters.values()] == [1.0, -1.0]


def test_a_problem_without_parameters_says_how_to_have_one():
    instance = random_instance(1, (6, 2, 3, 4))
    x = instance.embedding()
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.s0)), [cp.sum(x.s1) <= 1]), instance.mdp)
    with pytest.raises(bd.ProblemError, match=r"has no cp\.Parameter, so 'budget' cannot be changed: write"):
        solution.resolve(budget=2.0)


def test_signs_declared_with_a_parameter_are_kept():
    instance = random_instance(1, (6, 2, 3, 4))
    x = instance.embedding()
    budget = cp.Parameter(name="budget", nonneg=True, value=1.0)
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.s0)), [cp.sum(x.s1) <= budget]), instance.mdp)
    with pytest.raises(bd.ProblemError, match="'budget' cannot be -1"):
        solution.resolve(budget=-1.0)


def test_nothing_known_is_no_gap_however_it_is_measured():
    """A relative gap between minus infinity and a number is not small."""
    assert not Goal(1e-3, True).is_met(-np.inf, 1.0)
