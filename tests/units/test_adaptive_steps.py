"""Primal-dual steps where controls are planned: Gamma by a search along prices, and steps that ask for no ranges."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import bidual as bd
from bidual.loop.explorers._steps import search_Gamma
from bidual.planners import Plan, control
from bidual.problem.convex import Affine, Box, Image, Term, VariationalProgram


def test_steps_that_adapt_need_no_bounds_where_functions_are_linear():
    """`lqr` has costs without an upper bound: known slopes and steps by gradients ask for none."""
    task = bd.tasks.find("lqr-effort").build(horizon=5)
    sampled = replace(task.explorer.otherwise, sampler=control.icem(8, 1), rollouts=2)
    adaptive = replace(sampled, dual=bd.dual.GradientAscent(steps="adaptive", floor=3e-3))
    solution = bd.learn(task.problem, task.env, task.model, episodes=3, evaluation=0, explorer=adaptive)
    assert len(solution.executed) == 3
    with pytest.raises(bd.ProblemError, match="declare them"):
        bd.learn(
            *(task.problem, task.env, task.model),
            episodes=1,
            explorer=replace(sampled, dual=bd.dual.GradientAscent()),
        )


def test_gamma_is_searched_along_prices():
    """max y_1 with y_2 <= 2, where a plan for a price p has y = (1, 4) / (1 + p): by hand."""
    image = Image(sp.csr_array(np.eye(2)), np.zeros(2), 1, total=True)
    box = Box(np.zeros(2), np.full(2, 8.0))
    functions = Affine(np.array([-1.0, 0.0]), 0.0, box), Affine(np.array([0.0, 1.0]), -2.0, box)
    terms = [Term(function, np.arange(2), np.zeros(2)) for function in functions]
    program = VariationalProgram(image, terms[0], (terms[1],), np.array([False]), np.ones(1))

    def plan(theta):
        price = theta.ravel()[1] / -theta.ravel()[0] if theta.ravel()[0] else np.inf
        y = np.array([1.0, 4.0]) / (1 + price)
        return Plan(None, y[None], 0.0, -np.inf)

    Gamma, plans = search_Gamma(program, plan, plan(np.array([[-1.0, 0.0]])))
    # There is room at the prices 4 and 16 and without the objective: 6/5, 30/17, 2. f is -1/5, -1/17, 0, at least -1.
    assert plans == 5
    assert Gamma == pytest.approx(min(2 * 0.8 / 1.2, 2 * (16 / 17) / (30 / 17), 2 * 1 / 2))


@pytest.mark.parametrize(
    ("settings", "words"), [({"steps": "fast"}, "'ranges' or 'adaptive'"), ({"floor": 1.0}, "share")]
)
def test_settings_of_steps_are_checked(settings, words):
    with pytest.raises(bd.ProblemError, match=words):
        bd.dual.GradientAscent(**settings)
    assert "floor" not in repr(bd.dual.GradientAscent())
    assert "steps='adaptive'" in repr(bd.dual.GradientAscent(steps="adaptive"))
