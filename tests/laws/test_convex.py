"""Every family of convex problems against CVXPY's own solution of the occupancy program."""

import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import bidual as bd
from tests.helpers import flow_constraints, random_instance

SHAPES = ((3, 2, 2, 2), (4, 3, 3, 5), (6, 2, 3, 4))
# Clarabel's own accuracy on the occupancy program, and what the issue asks for.
TOLERANCE = 1e-5
NO_SHRINKING = (Phase.explicit, Phase.generate)  # a case is small as it is, and every try takes a second


def _target(rng, n):
    return rng.dirichlet(np.ones(n))


def l1(x, rng):
    return cp.Minimize(cp.norm1(x.mean - _target(rng, x.S))), {}


def l2(x, rng):
    return cp.Minimize(cp.norm(x.mean - _target(rng, x.S))), {"a": cp.sum(x.a) <= x.middle[0]}


def linf(x, rng):
    return cp.Minimize(cp.norm_inf(x.mean - _target(rng, x.S))), {"a": cp.sum(x.a) >= x.middle[0]}


def squared(x, rng):
    return cp.Minimize(cp.sum_squares(x.mean - _target(rng, x.S))), {"a": cp.sum(x.a) == x.middle[0]}


def quadratic(x, rng):
    root = rng.normal(size=(x.S, x.S))
    return cp.Minimize(cp.quad_form(x.mean, root @ root.T) + cp.sum(x.b)), {"ball": cp.norm(x.a) <= x.norm_a}


def maximum(x, rng):
    return cp.Minimize(cp.max(cp.hstack([cp.sum(x.a), cp.sum(x.b), 0.3]))), {"c": x.c <= np.max(x.by_step_c)}


def largest(x, rng):
    return cp.Minimize(cp.sum_largest(x.mean, 2)), {}


def log_sum_exp(x, rng):
    return cp.Minimize(cp.log_sum_exp(cp.hstack([cp.sum(x.a), cp.sum(x.b)]))), {"c": cp.abs(cp.sum(x.c)) <= x.abs_c}


def huber(x, rng):
    return cp.Minimize(cp.sum(cp.huber(x.a - rng.normal(size=x.H), 0.5))), {"b": cp.sum(x.b) <= x.middle[1]}


def entropy(x, rng):
    return cp.Maximize(cp.sum(cp.entr(x.mean))), {"a": cp.sum(x.a) <= x.middle[0], "b": cp.norm(x.b) <= x.norm_b}


def divergence(x, rng):
    return cp.Minimize(cp.sum(cp.kl_div(x.mean, _target(rng, x.S) + 0.1))), {"a": cp.sum(x.a) == x.middle[0]}


def hinge(x, rng):
    return cp.Minimize(cp.sum(cp.pos(x.a - rng.normal(size=x.H)))), {"h": cp.pos(cp.sum(x.b) - 1) <= x.hinge_b}


def to_box(x, rng):
    v = cp.Variable(x.S)
    return cp.Minimize(cp.norm(x.mean - v)), {"low": v >= 0.1 / x.S, "high": v <= 1.1 / x.S}


def to_ball(x, rng):
    v = cp.Variable(x.S)
    return cp.Minimize(cp.norm1(x.mean - v)), {"ball": cp.norm(v - _target(rng, x.S)) <= 0.05}


def to_polyhedron(x, rng):
    v = cp.Variable(x.H)
    rows = rng.normal(size=(3, x.H))
    return cp.Minimize(cp.sum_squares(x.a - v)), {"faces": rows @ v <= rng.normal(size=3)}


def to_simplex(x, rng):
    v = cp.Variable(2, nonneg=True)
    corners = np.stack([_target(rng, x.S) for _ in range(2)], axis=1)
    return cp.Minimize(cp.norm(x.mean - corners @ v)), {"weights": cp.sum(v) == 1}


def power(x, rng):
    return cp.Minimize(cp.norm(x.mean, 3) + cp.sum(cp.power(x.mean, 1.7))), {"a": cp.sum(x.a) <= x.middle[0]}


def two_and_one(x, rng):
    limits = {
        "norm": cp.norm(x.a) <= x.norm_a,
        "spread": cp.sum_squares(x.b) <= x.norm_b**2,
        "exact": cp.sum(x.c) == x.middle[2],
    }
    return cp.Minimize(cp.sum(x.a) + cp.norm(x.mean - _target(rng, x.S))), limits


def occupied(x, rng):
    return cp.Minimize(cp.norm(cp.vec(x.pairs, order="F") - 0.1)), {"a": cp.sum(x.a) <= x.middle[0]}


FAMILIES = (
    l1, l2, linf, squared, quadratic, maximum, largest, log_sum_exp, huber, entropy, divergence, hinge,
    to_box, to_ball, to_polyhedron, to_simplex, power, two_and_one, occupied,
)  # fmt: skip


def _names(mdp, parts, uniform):
    """What the families see: the same names over the embedding and over occupancies."""
    a, b, c, visits, pairs = parts
    ua, ub, uc = uniform
    return SimpleNamespace(
        a=a, b=b, c=c, pairs=pairs, mean=cp.sum(visits, axis=0) / mdp.horizon, H=mdp.horizon, S=mdp.num_states,
        middle=(ua.sum(), ub.sum(), uc.sum()), norm_a=np.linalg.norm(ua) * 1.05 + 0.01,
        norm_b=np.linalg.norm(ub) * 1.05 + 0.01, by_step_c=uc, abs_c=abs(uc.sum()) * 1.05,
        hinge_b=max(ub.sum() - 1, 0) + 0.05,
    )  # fmt: skip


def build(family, seed, shape, total=False):
    """The problem over the embedding, and the same over occupancies."""
    instance = random_instance(seed, shape)
    mdp, signals = instance.mdp, instance.signals[:3]
    H, S, A = mdp.successors.shape
    x = mdp.embedding(visits=True, occupancy=True, a=signals[0], b=signals[1], c=signals[2])
    policy = np.full((H, S, A), 1 / A)
    psi = x.features.stage(mdp.successors)
    flow, start = flow_constraints(mdp)
    law, uniform = mdp.initial, []
    for h in range(H):
        occupancy = law[:, None] * policy[h]
        uniform.append(psi.expect(occupancy, h)[:3])
        law = -flow[(h + 1) * S : (h + 2) * S, h * S * A : (h + 1) * S * A] @ occupancy.ravel() if h < H - 1 else law
    uniform = np.array(uniform).T
    pairs = cp.sum(x.occupancy, axis=0) / H
    ours = bd.Problem(*family(_names(mdp, (x.a, x.b, x.c, x.visits, pairs), uniform), np.random.default_rng(seed)))

    mu = cp.Variable(H * S * A, nonneg=True)
    by_step = cp.reshape(mu, (H, S * A), order="C")
    visits = cp.vstack([cp.sum(cp.reshape(by_step[h], (S, A), order="C"), axis=1) for h in range(H)])
    paid = [by_step @ signal.ravel() for signal in signals]
    both = cp.reshape(cp.sum(by_step, axis=0), (S, A), order="C") / H
    objective, limits = family(_names(mdp, (*paid, visits, both), uniform), np.random.default_rng(seed))
    return ours, mdp, cp.Problem(objective, [*limits.values(), flow @ mu == start])


def judge(family, seed, shape):
    ours, mdp, theirs = build(family, seed, shape)
    solution = bd.solve(ours, mdp, gap=1e-6, max_plans=1500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CVXPY warns that it approximates powers; it does so exactly here
        theirs.solve(solver=cp.CLARABEL)
    if theirs.status == "infeasible":
        assert solution.status == "infeasible", solution
        return
    assert theirs.status in ("optimal", "optimal_inaccurate"), theirs.status
    assert solution.status == "optimal", solution
    assert solution.lower <= theirs.value + TOLERANCE
    assert solution.upper >= theirs.value - TOLERANCE
    assert abs(solution.value - theirs.value) <= TOLERANCE
    assert 0 <= solution.gap <= 1e-6


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@given(st.integers(0, 10_000), st.sampled_from(SHAPES))
@settings(max_examples=3, phases=NO_SHRINKING)
def test_the_optimum_is_the_occupancy_programs(family, seed, shape):
    judge(family, seed, shape)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@given(st.integers(0, 10_000), st.sampled_from(SHAPES))
@settings(max_examples=100, phases=NO_SHRINKING)
def test_the_optimum_is_the_occupancy_programs_at_length(family, seed, shape):
    judge(family, seed, shape)
