"""The checker must refuse whatever does not hold: each test breaks one thing."""

import dataclasses

import numpy as np
import pytest

import bidual as bd
from bidual.certificate import Record, certify
from bidual.planners import AbstractSoftPlanner, BackwardInduction, Plan
from tests.helpers import occupancy_optimum


@pytest.fixture(scope="module")
def solved():
    task = bd.tasks.find("rover-two").build()
    return task, bd.solve(task.problem, task.mdp)


def _with_table(evidence, change):
    table = evidence.policy.table.copy()
    change(table)
    return dataclasses.replace(evidence, policy=bd.policies.MarkovPolicy(table))


def test_the_real_one_passes(solved):
    _, solution = solved
    certificate = certify(solution.evidence)
    assert -certificate.lower == solution.upper
    assert -certificate.upper == solution.lower


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.__setitem__((3, 5, 1), -0.1), "negative"),
        (lambda t: t.__setitem__((3, 5, 1), np.nan), "non-finite"),
        (lambda t: t.__imul__(0.999), "do not sum to 1"),
    ],
)
def test_a_policy_that_is_none_is_refused(solved, change, message):
    _, solution = solved
    with pytest.raises(bd.CertificateError, match=message):
        certify(_with_table(solution.evidence, change))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Record(np.array([-0.1, 0.2]), 1.0), "row 0 is negative"),
        (Record(np.array([np.inf, 0.2]), 1.0), "finite multipliers"),
        (Record(np.array([0.1, 0.2]), 0.5), "weight 0 or 1"),
        (Record(np.array([0.0, 0.0]), 0.0), "a positive sum"),
    ],
)
def test_a_record_that_proves_nothing_is_refused(solved, record, message):
    _, solution = solved
    with pytest.raises(bd.CertificateError, match=message):
        certify(dataclasses.replace(solution.evidence, record=record))


def test_a_policy_for_a_forbidden_action_is_refused():
    task = bd.tasks.find("inventory").build()
    solution = bd.solve(task.problem, task.mdp)
    with pytest.raises(bd.CertificateError, match="does not allow"):
        certify(_with_table(solution.evidence, lambda t: t.__setitem__((0, 5), np.eye(6)[3])))


def test_a_policy_of_another_shape_is_refused(solved):
    _, solution = solved
    short = bd.policies.MarkovPolicy(solution.policy.table[1:])
    with pytest.raises(bd.CertificateError, match="shape"):
        certify(dataclasses.replace(solution.evidence, policy=short))


def test_an_infeasible_policy_is_not_called_feasible(solved):
    """The policy that is best without constraints, under this problem's certificate."""
    task, solution = solved
    free = bd.solve(bd.Problem(task.problem.objective), task.mdp)
    certificate = certify(dataclasses.replace(solution.evidence, policy=free.policy))
    assert not certificate.feasible(solution.evidence.program)
    assert certificate.violations.max() > 1


def test_a_wrong_model_in_the_evidence_moves_the_bounds(solved):
    """The bounds are computed from the model, not copied from the solver."""
    _, solution = solved
    other = bd.tasks.find("rover-two").build(slip=0.3).mdp
    certificate = certify(dataclasses.replace(solution.evidence, mdp=other))
    assert abs(-certificate.lower - solution.upper) > 0.01


@pytest.mark.parametrize("part", ["objective", "rows", "limits"])
def test_nan_in_the_problem_is_refused(solved, part):
    _, solution = solved
    broken = getattr(solution.evidence.program, part) * np.nan
    program = dataclasses.replace(solution.evidence.program, **{part: broken})
    with pytest.raises(bd.CertificateError, match="NaN or infinity"):
        certify(dataclasses.replace(solution.evidence, program=program))


class _Careless(AbstractSoftPlanner):
    """A planner that returns the plan for the negative of the cost: the worst policy."""

    def __call__(self, model, psi, theta):
        plan = BackwardInduction()(model, psi, -theta)
        return Plan(plan.actions, plan.embedding, -plan.value, -plan.value)

    def soft(self, model, psi, theta):
        return BackwardInduction().soft(model, psi, -theta)

    def occupancy(self, model, psi, plan):
        return BackwardInduction().occupancy(model, psi, plan)


def test_a_lying_planner_cannot_make_a_false_bound():
    """Its plans are bad, so the answer is; but what is printed of it is true."""
    task = bd.tasks.find("riverswim").build()
    solution = bd.solve(task.problem, task.mdp, planner=_Careless(), max_plans=30)
    _, optimum = occupancy_optimum(task.problem, task.mdp)
    assert solution.upper is None or solution.upper >= -optimum - 1e-6
    assert solution.lower is None or solution.lower <= -optimum + 1e-6
    assert solution.status != "optimal"


def test_slack_covers_the_rounding_of_exact_arithmetic():
    """Against rational arithmetic on a model with awkward numbers: the bounds enclose the true value."""
    from fractions import Fraction

    import cvxpy as cp

    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.ones(4), (4, 3)), rng.normal(size=(4, 3)) * 1e3
    mdp = bd.TabularMDP(P, 0, 40)
    x = mdp.embedding(reward=r)
    solution = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.reward))), mdp)
    lists = mdp.successors
    V = [Fraction(0)] * 4
    for _ in range(40):
        V = [
            min(
                Fraction(float(r[s, a]))
                + sum(
                    Fraction(float(p)) * V[t]
                    for t, p in zip(lists.states[0, s, a], lists.probabilities[0, s, a], strict=True)
                )
                for a in range(3)
            )
            for s in range(4)
        ]
    assert solution.lower <= V[0] <= solution.upper
    assert solution.gap <= 1e-6
