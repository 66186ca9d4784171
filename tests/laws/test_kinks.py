"""Optima at kinks over images of 48 numbers and more, where gradients prove nothing, and searches that must end."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate.verify import verify
from bidual.certificate.verify_convex import read_convex
from bidual.problem.modelling._lower import smooth

S, A, H = 8, 2, 6
RNG = np.random.default_rng(0)
LAW = RNG.dirichlet(np.ones(S), size=(S, A))
MDP = bd.TabularMDP(LAW, 0, H)


def visits_of(policy):
    """The visits of a policy, written out."""
    visits = np.zeros((H, S))
    visits[0, 0] = 1
    for h in range(H - 1):
        visits[h + 1] = np.einsum("s,sa,sat->t", visits[h], policy[h], LAW)
    return visits


UNIFORM = visits_of(np.full((H, S, A), 1 / A))
MIXED = visits_of(RNG.dirichlet(np.ones(A), size=(H, S)))
PAY = RNG.integers(-3, 4, (S, A)) / 2


def far(x, target):
    return cp.norm(x.visits - target, "fro")


KINKS = {
    "a target that can be reached": lambda x: (cp.Minimize(far(x, UNIFORM)), {}),
    "a sum of norms": lambda x: (cp.Minimize(far(x, UNIFORM) + 0.3 * far(x, MIXED)), {}),
    "a norm for every step": lambda x: (cp.Minimize(cp.sum(cp.norm(x.visits - MIXED, 2, axis=1))), {}),
    "a norm within a limit": lambda x: (cp.Minimize(far(x, UNIFORM)), {"near": far(x, MIXED) <= 0.5}),
    "a norm of next to nothing": lambda x: (cp.Minimize(cp.sum(x.pay)), {"exact": far(x, MIXED) <= 1e-8}),
    "a norm of nothing": lambda x: (cp.Minimize(cp.sum(x.pay)), {"exact": far(x, UNIFORM) <= 0}),
}


@pytest.mark.parametrize("kink", KINKS)
def test_an_optimum_at_a_kink_is_certified(kink):
    x = MDP.embedding(visits=True, pay=PAY)
    solution = bd.solve(bd.Problem(*KINKS[kink](x)), MDP, max_plans=500)
    assert solution.status == "optimal", solution
    assert kink.endswith("nothing") or solution.lower >= 0.0


@pytest.mark.parametrize("kink", ["a target that can be reached", "a norm of nothing"])
def test_a_proximal_search_that_stalls_is_handed_over(kink):
    """Norms of very many numbers count as smooth; here all do."""
    x = MDP.embedding(visits=True, pay=PAY)
    problem = bd.Problem(*KINKS[kink](x))
    program = problem.program()
    problem._fixed = replace(program, smooth=smooth(program.functions, norms=True))
    solution = bd.solve(problem, MDP, dual=bd.dual.Proximal(), max_plans=500)
    assert solution.status == "optimal", solution


def test_a_norm_is_never_below_zero():
    """The floor is there whatever the search has found: here next to nothing."""
    x = MDP.embedding(visits=True)
    solution = bd.solve(bd.Problem(cp.Minimize(far(x, UNIFORM))), MDP, max_plans=2)
    assert solution.status == "feasible"
    assert solution.lower >= 0.0


NEVER_NEGATIVE = {
    "norm1": lambda x: cp.sum(cp.abs(x.visits - UNIFORM)),
    "norm_inf": lambda x: cp.max(cp.abs(x.visits - UNIFORM)),
    "3-norm": lambda x: cp.norm(cp.vec(x.visits - UNIFORM, order="F"), 3),
    "squares": lambda x: 0.3 * cp.sum_squares(x.visits - UNIFORM),
    "powers": lambda x: cp.sum(cp.power(x.visits - UNIFORM, 4)) + cp.power(cp.sum(x.visits - UNIFORM), 8),
    "positive parts": lambda x: cp.sum(cp.pos(x.visits - UNIFORM)) / 7,
    "huber": lambda x: cp.sum(cp.huber(x.visits - UNIFORM, 1e-3)),
    "a squared norm": lambda x: cp.square(far(x, UNIFORM)),
    "over": lambda x: cp.quad_over_lin(x.visits - UNIFORM, 1.0 + cp.sum(x.visits[0])),
    "with a free variable": lambda x: cp.norm1(x.visits - cp.multiply(cp.Variable((1, S)), UNIFORM)),
    "visits": lambda x: cp.sum(cp.max(x.visits[1:], axis=1) @ np.full(H - 1, 0.1)) - 0.1 * (H - 1) * cp.min(x.visits),
}
UNKNOWN_TO_THE_VERIFIER = ("3-norm", "powers")


@pytest.mark.parametrize("name", NEVER_NEGATIVE)
def test_what_is_never_negative_prints_no_negative_bound(name, tmp_path):
    """Nor does a search that ends early; and what the floor proves the exact verifier proves as well."""
    x = MDP.embedding(visits=True)
    problem = bd.Problem(cp.Minimize(NEVER_NEGATIVE[name](x)))
    for plans in (2, 300):
        solution = bd.solve(problem, MDP, max_plans=plans)
        assert solution.lower is not None
        assert solution.lower >= 0.0
        solution.save(tmp_path / "x.bidual")
        bd.check(tmp_path / "x.bidual")
        found = {outcome for outcome, *_ in verify(str(tmp_path / "x.bidual"), convex=read_convex)}
        assert found == ({"not decided"} if name in UNKNOWN_TO_THE_VERIFIER else {"proved"})
    assert solution.status == "optimal", solution


def test_a_sorted_product_has_a_bound(tmp_path):
    x = MDP.embedding(visits=True)
    weights = np.array([2.0, 1.0, 0.5, 0.2, 0.1, 0.0, 0.0, -0.3])
    times = cp.sum(x.visits, axis=0)
    solution = bd.solve(bd.Problem(cp.Minimize(cp.dotsort(times, weights))), MDP, max_plans=300)
    assert solution.status == "optimal", solution
    seen = np.sort(solution.visits.sum(axis=0))[::-1]
    assert abs(solution.value - seen @ weights) <= 1e-9
    solution.save(tmp_path / "x.bidual")
    # Its functions share all images, so that slopes of each are not found: that is no reason to call its bounds false.
    assert "refuted" not in {outcome for outcome, *_ in verify(str(tmp_path / "x.bidual"), convex=read_convex)}


@pytest.mark.parametrize("dual", [bd.dual.GradientAscent(), bd.dual.FollowTheLeader()])
def test_a_search_that_leads_nowhere_ends_by_itself(dual):
    """Averages would need billions of plans for a gap of 1e-12; no budget is given."""
    mdp = bd.TabularMDP(np.ones((1, 2, 1)), 0, 2)
    x = mdp.embedding(total=True, a=[[1.0, 0.0]])
    problem = bd.Problem(cp.Minimize(cp.square(x.a - np.sqrt(2))), {"most": x.a <= 1.0})
    solution = bd.solve(problem, mdp, gap=1e-12, dual=dual)
    assert solution.status in ("feasible", "optimal", "undecided")
    assert solution.plans <= 2**14


def test_a_limit_of_zero_is_a_kink_and_a_positive_one_is_none():
    x = MDP.embedding(visits=True, pay=PAY)
    most = cp.Parameter(name="most", value=0.5)
    problem = bd.Problem(cp.Minimize(cp.sum(x.pay)), {"near": far(x, UNIFORM) <= most})
    assert problem.program().smooth is not None
    with problem.holding({"most": 0.0}):
        assert problem.program().smooth is None
    assert bd.Problem(cp.Minimize(far(x, UNIFORM))).program().smooth is None
    assert bd.Problem(cp.Minimize(cp.sum_squares(x.visits - UNIFORM))).program().smooth is not None
