"""What must hold on every problem: the occupancy program is the judge."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bidual as bd
from tests.helpers import NUM_SIGNALS, SHAPES, occupancy_optimum, random_instance, scale_examples

# HiGHS promises its own feasibility and optimality to 1e-7 per row.
LP_TOLERANCE = 2e-6


LIMITS = st.tuples(
    st.sampled_from(["<=", ">=", "==", "step", "both"]), st.integers(0, NUM_SIGNALS - 1), st.integers(-8, 8)
)
# Seed of the model, its shape, one law per step, action mask, total embedding, maximise, constraints.
CASES = st.tuples(
    st.integers(0, 10_000),
    st.sampled_from(SHAPES),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(LIMITS, max_size=4),
)


def build(case):
    """A random model and a random linear problem over it."""
    seed, shape, per_step, masked, total, maximise, limits = case
    instance = random_instance(seed, shape, per_step=per_step, masked=masked)
    x = instance.embedding(total=total)
    totals = [cp.sum(getattr(x, f"s{i}")) for i in range(NUM_SIGNALS)]
    constraints = {}
    for i, (kind, signal, quarters) in enumerate(limits):
        limit = quarters / 4 * shape[3] / 3
        if kind == "step" and not total:
            constraints[f"c{i}"] = x.s3 <= abs(limit) / shape[3]
        elif kind == "both":
            constraints[f"c{i}"] = totals[signal] <= totals[0] + limit
        elif kind == ">=":
            constraints[f"c{i}"] = totals[signal] >= limit
        elif kind == "==":
            constraints[f"c{i}"] = totals[signal] == limit
        else:
            constraints[f"c{i}"] = totals[signal] <= limit
    sense = cp.Maximize if maximise else cp.Minimize
    return bd.Problem(sense(totals[0] + 2 * totals[1] - 1), constraints), instance.mdp


@given(CASES)
@settings(max_examples=scale_examples(150))
def test_bounds_enclose_the_optimum_and_statuses_are_right(case):
    _judge(*build(case))


@pytest.mark.slow
@given(CASES)
@settings(max_examples=3000)
def test_bounds_enclose_the_optimum_at_length(case):
    _judge(*build(case))


def _judge(problem, mdp):
    solution = bd.solve(problem, mdp, gap=1e-6, max_plans=2000)
    expected, optimum = occupancy_optimum(problem, mdp)
    if expected == "infeasible":
        # HiGHS calls a problem infeasible when it is so by more than its own tolerance.
        assert solution.status == "infeasible", solution
        assert solution.lower is None
        assert solution.conflict is not None
        assert min(solution.conflict.least.values()) > 0
        return
    assert solution.status == "optimal", solution
    optimum = -optimum if solution.sense == "maximize" else optimum
    assert solution.lower <= optimum + LP_TOLERANCE
    assert solution.upper >= optimum - LP_TOLERANCE
    assert 0 <= solution.gap <= 1e-6
    assert all(c.price >= 0 for c in solution.constraints if c.sense != "==")


@given(st.integers(0, 10_000), st.sampled_from(SHAPES), st.floats(0, 2), st.floats(0, 2))
@settings(max_examples=scale_examples(60))
def test_any_multipliers_give_a_lower_bound(seed, shape, gamma_0, gamma_1):
    """Weak duality as the checker implements it, at multipliers no solver chose."""
    from bidual.certificate import Evidence, Record, certify
    from bidual.solving.search import bind
    from bidual.world.policies import MarkovPolicy

    instance = random_instance(seed, shape)
    x = instance.embedding()
    problem = bd.Problem(cp.Minimize(cp.sum(x.s0)), [cp.sum(x.s1) <= 0.5, cp.sum(x.s2) <= 0.25])
    status, optimum = occupancy_optimum(problem, instance.mdp)
    program, psi = bind(problem, instance.mdp)
    H, S, A = instance.mdp.successors.shape
    uniform = MarkovPolicy(np.full((H, S, A), 1 / A))
    certificate = certify(Evidence(program, psi, instance.mdp, uniform, Record(np.array([gamma_0, gamma_1]), 1.0)))
    if status == "optimal":
        assert certificate.lower <= optimum + LP_TOLERANCE


@given(st.integers(0, 10_000), st.sampled_from(SHAPES), st.booleans())
@settings(max_examples=scale_examples(60))
def test_the_collapsed_policy_has_the_mixtures_embedding(seed, shape, per_step):
    instance = random_instance(seed, shape, per_step=per_step)
    rng = np.random.default_rng(seed)
    S, A, _, H = shape
    members = tuple(bd.policies.DeterministicPolicy(rng.integers(0, A, (H, S)), A) for _ in range(3))
    mixture = bd.policies.Mixture(rng.dirichlet(np.ones(3)), members)
    collapsed = bd.policies.collapse(mixture, instance.mdp)
    psi = instance.embedding().features.stage(instance.mdp.successors).signals[0]
    expected = sum(w * _embedding(instance.mdp, m.table, psi) for w, m in zip(mixture.weights, members, strict=True))
    np.testing.assert_allclose(_embedding(instance.mdp, collapsed.table, psi), expected, atol=1e-10, rtol=0)


def _embedding(mdp, table, psi):
    """Expected features of a table, by brute force over a dense model."""
    H, S, A = table.shape
    rows = []
    mu = mdp.initial
    for h in range(H):
        occupancy = mu[:, None] * table[h]
        rows.append(np.einsum("dsa,sa->d", psi, occupancy))
        following = np.zeros(S)
        for s in range(S):
            for a in range(A):
                lists = mdp.successors
                step = h if lists.states.shape[0] > 1 else 0
                for t, p in zip(lists.states[step, s, a], lists.probabilities[step, s, a], strict=True):
                    following[t] += occupancy[s, a] * p
        mu = following
    return np.array(rows)


@pytest.mark.parametrize("seed", [3, 7, 11])
def test_prices_are_derivatives(seed):
    """Price = gain of the optimum per unit of relaxation, by finite differences of the occupancy program."""
    instance = random_instance(seed, (6, 2, 3, 4))
    x = instance.embedding()
    psi = x.features.stage(instance.mdp.successors).signals[0]
    uniform = _embedding(instance.mdp, np.full((4, 6, 2), 0.5), psi).sum(axis=0)

    def build(shift):
        limits = {
            "upper": cp.sum(x.s1) <= uniform[1] + 0.1 + shift[0],
            "lower": cp.sum(x.s2) >= uniform[2] - 0.1 - shift[1],
            "equal": cp.sum(x.s3) == uniform[3] + 0.05 + shift[2],
            "swapped": uniform[0] - uniform[3] + 0.05 + shift[3] == cp.sum(x.s0 - x.s3),
        }
        return bd.Problem(cp.Maximize(cp.sum(x.s0 + x.s1)), limits)

    solution = bd.solve(build(np.zeros(4)), instance.mdp, gap=1e-9)
    assert solution.status == "optimal"
    _, base = occupancy_optimum(build(np.zeros(4)), instance.mdp)
    assert any(abs(c.price) > 1e-3 for c in solution.constraints if c.sense == "==")
    for i, constraint in enumerate(solution.constraints):
        shifts = np.eye(4)[i] * 1e-4
        gains = [base - occupancy_optimum(build(sign * shifts), instance.mdp)[1] for sign in (1, -1)]
        slopes = sorted((gains[0] / 1e-4, -gains[1] / 1e-4))
        # At a kink the price is any number between the one-sided derivatives.
        assert slopes[0] - 1e-3 <= constraint.price <= slopes[1] + 1e-3, constraint.name
