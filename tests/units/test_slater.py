"""Slater points: room that is really there, Gamma that is large enough, and clear words where there is none."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from tests.helpers import random_instance


def _problem(seed=0, limit=0.5, equal=None):
    instance = random_instance(seed, (6, 2, 3, 4))
    x = instance.embedding(total=True)
    limits = {"a": x.s1 <= limit, "b": cp.norm(x - 0.1) <= 4.0}
    if equal is not None:
        limits["c"] = x.s3 == equal
    return bd.Problem(cp.Minimize(x.s0), limits), instance.mdp, x


@pytest.mark.parametrize("seed", range(4))
def test_the_room_is_there_and_gamma_is_above_twice_the_multipliers(seed):
    problem, mdp, x = _problem(seed)
    point = bd.slater(problem, mdp)
    solution = bd.solve(problem, mdp)
    assert point.status == "optimal"
    x.value = bd.solve(bd.Problem(cp.Minimize(x.s0)), mdp).embedding  # of the right shape
    totals = _totals(point.policy, problem, mdp)
    assert totals[1] <= 0.5 - point.room + 1e-9
    assert np.linalg.norm(totals - 0.1) <= 4.0 - point.room + 1e-9
    assert point.value == pytest.approx(totals[0], abs=1e-9)
    assert point.Gamma >= 2 * max(c.price for c in solution.constraints) - 1e-6
    assert point.bound <= solution.value + 1e-9


def _totals(policy, problem, mdp):
    """The embedding of a policy, by rolling it out."""
    psi, law = problem.embedding.features.stage(mdp.successors), mdp.initial
    total = np.zeros(psi.dimension)
    lists = mdp.successors
    for h in range(mdp.horizon):
        occupancy = law[:, None] * policy.table[h]
        total = total + psi.expect(occupancy, h)
        flow = occupancy[:, :, None] * lists.probabilities[0]
        law = np.bincount(lists.states[0].ravel(), flow.ravel(), minlength=mdp.num_states)
    return total


def test_gamma_only_shrinks_as_bounds_improve():
    problem, mdp, _ = _problem()
    point = bd.slater(problem, mdp)
    optimum = bd.solve(problem, mdp).value
    closer = point.closer(optimum)
    assert closer.Gamma <= point.Gamma
    assert closer.Gamma == pytest.approx(max(1e-3, 2 * (point.value - optimum) / point.room))
    assert point.closer(optimum - 100).Gamma == point.Gamma


def test_equalities_are_kept():
    problem, mdp, _ = _problem(equal=0.25)
    point = bd.slater(problem, mdp)
    assert _totals(point.policy, problem, mdp)[3] == pytest.approx(0.25, abs=1e-8)


def test_where_there_is_none():
    problem, mdp, _ = _problem(limit=-1000.0)
    point = bd.slater(problem, mdp)
    assert point.status == "infeasible"
    assert point.room is None
    assert "no policy with room" in str(point)


def test_without_inequalities_any_room_will_do():
    instance = random_instance(0, (6, 2, 3, 4))
    x = instance.embedding(total=True)
    point = bd.slater(bd.Problem(cp.Minimize(x.s0)), instance.mdp)
    assert point.room == np.inf
    assert "any room" in str(point)


def test_constraints_on_auxiliary_variables_stay_and_these_are_the_best_ones_in_the_value():
    """z = min(0, 1 - x.s1): the constraint on it holds for some z in any case."""
    problem, mdp, x = _problem()
    z = cp.Variable(name="z")
    both = bd.Problem(cp.Minimize(x.s0 + cp.square(z)), {**problem.constraints, "z": x.s1 + z <= 1 / 4})
    point = bd.slater(both, mdp)
    totals = _totals(point.policy, problem, mdp)
    assert totals[1] <= 0.5 - point.room + 1e-9
    assert point.value == pytest.approx(totals[0] + min(0.0, 1 / 4 - totals[1]) ** 2, abs=1e-7)
    assert point.Gamma >= 2 * (point.value - bd.solve(both, mdp).value) / point.room


@pytest.mark.parametrize("make", [bd.dual.GradientAscent, bd.dual.FollowTheLeader])
@pytest.mark.parametrize("Gamma", [0.0, -1.0, np.inf, np.nan])
def test_a_gamma_that_bounds_nothing_is_refused(make, Gamma):
    with pytest.raises(bd.ProblemError, match="Gamma, the bound on the multipliers, must be a positive number"):
        make(Gamma=Gamma)


@pytest.mark.parametrize("make", [bd.dual.GradientAscent, bd.dual.FollowTheLeader])
def test_the_paper_players_end_certified(make):
    problem, mdp, _ = _problem(2)
    truth = bd.solve(problem, mdp).value
    solution = bd.solve(problem, mdp, dual=make(), max_plans=500)
    assert solution.status in ("feasible", "optimal")
    assert solution.lower - 1e-9 <= truth <= solution.upper + 1e-9
    assert solution.gap <= 0.2


@pytest.mark.parametrize("make", [bd.dual.GradientAscent, bd.dual.FollowTheLeader])
def test_the_paper_players_show_a_clash(make):
    problem, mdp, _ = _problem(limit=-1000.0)
    assert bd.solve(problem, mdp, dual=make(), max_plans=50).status == "infeasible"


def test_an_entropy_is_not_for_gradient_ascent():
    task = bd.tasks.find("rover-entropy").build()
    with pytest.raises(bd.ProblemError, match=r"the objective has no Lipschitz constant .* use FollowTheLeader"):
        bd.solve(task.problem, task.mdp, dual=bd.dual.GradientAscent(), max_plans=5)


@pytest.mark.parametrize("make", [bd.dual.GradientAscent, bd.dual.FollowTheLeader])
def test_auxiliary_variables_in_the_objective_need_a_value_for_every_policy(make):
    """z >= x.s1 and z <= 1 leave none where x.s1 is above 1: the price of that is no slope of the objective."""
    instance = random_instance(0, (6, 2, 3, 4))
    x, z = instance.embedding(total=True), cp.Variable(name="z")
    problem = bd.Problem(cp.Minimize(x.s0 + cp.square(z)), [x.s1 <= z, z <= 1])
    with pytest.raises(bd.ProblemError, match="no values of 'z' keep the constraints on them"):
        bd.solve(problem, instance.mdp, dual=make(), max_plans=5)


@pytest.mark.parametrize("make", [bd.dual.GradientAscent, bd.dual.FollowTheLeader])
@pytest.mark.parametrize("kind", ["none", "constant objective", "constant limit", "tight", "domain", "exponential"])
def test_odd_problems_are_solved_all_the_same(make, kind):
    """Nothing here has both a linear objective and one limit with room."""
    instance = random_instance(2, (6, 2, 3, 4))
    x = instance.embedding(total=True)
    least = bd.solve(bd.Problem(cp.Minimize(x.s1)), instance.mdp).value
    objective, limits = {
        "none": (cp.Minimize(x.s0), []),
        "constant objective": (cp.Minimize(cp.Constant(0.0)), [x.s1 <= least + 0.5]),
        "constant limit": (cp.Minimize(x.s0), [cp.Constant(1.0) <= 2.0, x.s1 <= least + 0.5]),
        "tight": (cp.Minimize(x.s0), [x.s1 <= least]),
        "domain": (cp.Maximize(cp.log(x.s1 - least - 0.1)), [x.s1 >= least + 0.2]),
        "exponential": (cp.Minimize(x.s0), [cp.exp(x.s1) <= np.exp(least) + 1.0]),
    }[kind]
    problem = bd.Problem(objective, limits)
    truth = bd.solve(problem, instance.mdp)
    if kind == "domain" and make is bd.dual.GradientAscent:
        with pytest.raises(bd.ProblemError, match="use FollowTheLeader"):
            bd.solve(problem, instance.mdp, dual=make(), max_plans=30)
        return
    solution = bd.solve(problem, instance.mdp, dual=make(), max_plans=30)
    assert solution.status in ("optimal", "feasible", "undecided")
    if solution.lower is not None:
        assert solution.lower <= truth.upper + 1e-6
    if solution.upper is not None:
        assert solution.upper >= truth.lower - 1e-6


def test_a_clash_of_equalities_is_shown():
    instance = random_instance(0, (6, 2, 3, 4))
    x = instance.embedding(total=True)
    problem = bd.Problem(cp.Minimize(x.s0), [x.s1 == 1000.0])
    assert bd.slater(problem, instance.mdp).status == "infeasible"
    assert bd.solve(problem, instance.mdp, dual=bd.dual.GradientAscent(), max_plans=20).status == "infeasible"


def test_resolve_goes_on_with_the_same_player():
    task = bd.tasks.find("rover").build()
    solution = bd.solve(task.problem, task.mdp, dual=bd.dual.GradientAscent(Gamma=2.0), max_plans=200)
    again = solution.resolve(budget=0.2)
    assert again.constraint("pits").limit == 0.2
    assert again.lower <= 1.517 <= again.upper


def test_no_time_is_no_error():
    problem, mdp, _ = _problem(2)
    solution = bd.solve(problem, mdp, dual=bd.dual.GradientAscent(), time_limit=1e-6)
    assert solution.status in ("undecided", "feasible", "optimal")
