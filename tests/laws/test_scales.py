"""Signals in other units are the same problem: the same verdicts, limits and gaps to the same number of digits."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate.verify import verify
from bidual.certificate.verify_convex import read_convex
from tests.helpers import random_instance

SHAPE = (6, 2, 3, 4)
SCALES = (1e-12, 1e-8, 1e-4, 1.0, 1e8)


def _paid(scale, seed=1):
    instance = random_instance(seed, SHAPE)
    reward, cost = instance.signals[0] * scale, np.abs(instance.signals[1]) * scale
    return instance.mdp, instance.mdp.embedding(r=reward, c=cost)


@pytest.mark.parametrize("scale", SCALES)
def test_verdicts_on_limits_do_not_depend_on_units(scale):
    mdp, x = _paid(scale)
    least = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.c))), mdp).value
    within = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.r)), {"c": cp.sum(x.c) <= 1.3 * least}), mdp)
    assert within.status == "optimal"
    assert within.value == pytest.approx(4.007526997050187 * scale, rel=1e-6)
    assert within.gap <= 1e-6 * abs(within.value)
    beyond = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.r)), {"c": cp.sum(x.c) <= 0.9 * least}), mdp)
    assert beyond.status == "infeasible"


@pytest.mark.parametrize("scale", SCALES)
def test_a_small_limit_is_a_limit(scale):
    """The cheapest policy pays 0.1; a limit of a fifth of that is none that it keeps."""
    mdp = bd.TabularMDP(np.ones((1, 2, 1)), 0, 1)
    x = mdp.embedding(k=np.array([[0.2, 0.1]]) * scale)
    solution = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.k)), {"k": cp.sum(x.k) <= 0.02 * scale}), mdp)
    assert solution.status == "infeasible"
    norm = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.k)), {"k": cp.norm(x.k) <= 0.02 * scale}), mdp)
    assert norm.status == "infeasible"


@pytest.mark.parametrize("scale", SCALES)
def test_a_default_gap_is_relative(scale):
    mdp, x = _paid(scale, seed=2)
    linear = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.r) - cp.sum(x.c))), mdp)
    convex = bd.solve(bd.Problem(cp.Minimize(cp.norm(x.r - 3 * scale))), mdp)
    for solution in (linear, convex):
        assert solution.status == "optimal"
        assert solution.gap <= solution.goal.gap <= 1.1e-6 * max(abs(solution.lower), abs(solution.upper))


def test_an_explicit_gap_is_absolute():
    mdp, x = _paid(1e-8)
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.r))), mdp, gap=1e-6)
    assert solution.goal.gap == 1e-6
    assert not solution.goal.relative


def test_what_is_undecided_says_why():
    """The limit is missed by more than counts as none, and by less than is proved."""
    mdp, x = _paid(1.0)
    free = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.c))), mdp)
    limits = {"c": cp.sum(x.c) <= 1.05 * free.value, "r": cp.norm(x.r) <= 1.0}
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.r)), limits), mdp, max_plans=1)
    assert solution.status == "undecided"
    assert "lies between 0 and" in str(solution)


def test_infeasibility_in_other_units_is_still_checked(tmp_path):
    """Files hold rays in the units of their time; a positive multiple proves as much."""
    from bidual._base import archive

    mdp, x = _paid(1.0)
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.r)), {"c": cp.sum(x.c) <= 0.1}), mdp)
    assert solution.status == "infeasible"
    solution.save(tmp_path / "s.bidual")
    manifest, arrays = archive.read(tmp_path / "s.bidual", "solution")
    arrays["gamma"] = 7.0 * arrays["gamma"]
    kept = {key: value for key, value in manifest.items() if key not in ("format", "kind")}
    archive.write(tmp_path / "s.bidual", "solution", kept, arrays)
    bd.check(tmp_path / "s.bidual")


@pytest.mark.parametrize("steep", [lambda r: cp.exp(20 * r), lambda r: cp.maximum(cp.exp(20 * r), cp.exp(-5 * r))])
def test_an_optimum_far_below_the_first_value_is_known_to_a_millionth(steep):
    """The box of all images reaches e^75 here: what counts as closed beside that is anything."""
    rng = np.random.default_rng(1)
    mdp = bd.TabularMDP(rng.dirichlet(np.full(6, 0.5), size=(6, 3)), initial=0, horizon=5)
    total = cp.sum(mdp.embedding(r=rng.random((6, 3))).r)
    solution = bd.solve(bd.Problem(cp.Minimize(steep(total))), mdp)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-6 * solution.upper * (1 + 1e-9)
    assert solution.goal.gap <= 1e-6 * solution.upper * (1 + 1e-9)


FACTORS = {
    "norm": lambda far, r: cp.norm(far, "fro"),
    "absolute": lambda far, r: cp.sum(cp.abs(far)),
    "largest": lambda far, r: cp.max(cp.abs(far)),
    "3-norm": lambda far, r: cp.norm(cp.vec(far, order="F"), 3),
    "Huber": lambda far, r: cp.sum(cp.huber(far, 1e-3)),
    "kink above 0": lambda far, r: cp.norm(far, "fro") + 0.3 * cp.norm(far - 0.1, "fro"),
    "exponential": lambda far, r: cp.exp(-2 * r),
    "inverse": lambda far, r: cp.inv_pos(0.1 + r),
}


@pytest.mark.parametrize("name", FACTORS)
def test_an_objective_times_a_factor_is_the_same_problem(name):
    """The same verdict and the same relative gap whether costs are 1e-12 or 1e12."""
    rng = np.random.default_rng(4)
    mdp = bd.TabularMDP(rng.dirichlet(np.ones(5), size=(5, 2)), 0, 4)
    x = mdp.embedding(visits=True, r=rng.random((5, 2)))
    middle = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.r))), mdp).visits
    found = {}
    for factor in (1.0, 1e-12, 1e12):
        objective = cp.Minimize(factor * FACTORS[name](x.visits - middle, cp.sum(x.r)))
        found[factor] = bd.solve(bd.Problem(objective), mdp)
        assert found[factor].status == "optimal", found[factor]
        assert found[factor].lower >= 0.0
        assert found[factor].gap <= found[factor].goal.gap
        assert found[factor].goal.gap <= 1e-5 * factor
    for factor, solution in found.items():
        assert abs(solution.value / factor - found[1.0].value) <= 2 * found[1.0].goal.gap


def test_a_steep_exponential_is_not_optimal_beside_the_box_of_all_images():
    """Its box reaches e^120, and a gap of 3e19 was "optimal" beside a millionth of a millionth of that."""
    rng = np.random.default_rng(0)
    mdp = bd.TabularMDP(rng.dirichlet(np.ones(8), size=(8, 2)), 0, 6)
    total = cp.sum(mdp.embedding(r=rng.random((8, 2))).r)
    for steep in (cp.exp(20 * total), cp.maximum(cp.exp(-20 * total), cp.exp(-5 * total))):
        solution = bd.solve(bd.Problem(cp.Minimize(steep)), mdp)
        assert solution.status == "feasible" or solution.gap <= 2e-6 * solution.upper
        assert solution.goal.relative or solution.goal.gap <= 0.01 * solution.upper


def test_a_divergence_from_what_the_first_policy_does_ends(tmp_path):
    """States that no policy reaches have visits and a target of 0, where the slope of the divergence is infinite."""
    rng = np.random.default_rng(4)
    mdp = bd.TabularMDP(rng.dirichlet(np.ones(8), size=(8, 2)), 0, 6)
    law = mdp.successors.probabilities[0].mean(axis=1)
    uniform = [np.eye(8)[0]]
    for _ in range(5):
        uniform.append(uniform[-1] @ law)
    x = mdp.embedding(visits=True)
    solution = bd.solve(bd.Problem(cp.Minimize(cp.sum(cp.kl_div(x.visits, np.array(uniform))))), mdp, max_plans=300)
    assert solution.status == "optimal", solution
    assert 0.0 <= solution.lower <= solution.upper <= solution.goal.gap <= 1e-9
    solution.save(tmp_path / "x.bidual")
    found = verify(str(tmp_path / "x.bidual"), convex=read_convex)
    assert {outcome for outcome, *_ in found} == {"proved"}, found
