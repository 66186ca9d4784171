"""Curves against the occupancy program at every limit: optimum, price as slope, range, and what cannot be kept."""

import json

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.solving.pricing import _search
from bidual.solving.pricing._curve import Enclosure
from bidual.solving.pricing._sweep import order_by_halving
from tests.helpers import keep_few, occupancy_optimum, occupancy_program, random_instance

# HiGHS keeps a limit to 1e-7, which a price turns into so much of the objective.
LP_TOLERANCE = 2e-6


def _linear(seed, relation="<=", sense=cp.Maximize, other=True, limit=0.3):
    """A random problem over (6, 2, 3, 4) whose constraint 'a' is to be varied."""
    instance = random_instance(seed, (6, 2, 3, 4))
    x = instance.embedding()
    side = cp.sum(x.s1) + 0.5  # a constant on the left goes to the right inside
    limits = {"before": cp.sum(x.s3) <= 50} if other else {}
    limits |= {"a": {"<=": side <= limit, ">=": side >= limit, "==": side == limit}[relation]}
    limits |= {"after": x.s2 <= 20} if other else {}
    return bd.Problem(sense(cp.sum(x.s0)), limits), instance.mdp


@pytest.mark.parametrize("relation", ["<=", ">=", "=="])
@pytest.mark.parametrize("sense", [cp.Maximize, cp.Minimize])
@pytest.mark.parametrize("seed", range(3))
def test_every_point_is_the_occupancy_programs(seed, sense, relation):
    problem, mdp = _linear(seed, relation, sense)
    curve = bd.price(problem, mdp, "a", points=9)
    sign = -1 if sense is cp.Maximize else 1
    for i, limit in enumerate(curve.limits):
        status, optimum = occupancy_optimum(_linear(seed, relation, sense, limit=float(limit))[0], mdp)
        if status == "infeasible":  # an end, by HiGHS's tolerance or by ours
            assert i in (0, len(curve.limits) - 1)
            continue
        room = LP_TOLERANCE + 1e-7 * abs(curve.prices[i])
        assert curve.statuses[i] == "optimal"
        assert curve.lower[i] - room <= sign * optimum <= curve.upper[i] + room
        assert curve.upper[i] - curve.lower[i] <= 1e-6 * max(1.0, abs(curve.upper[i]))


# (number of rows, 'a' among them, whether there is an equality)
ROWS = {"one": (), "an equality": ("c",), "two": ("b",), "three": ("b", "c")}


def _rows(instance, others, limit):
    x = instance.embedding()
    limits = {"a": cp.sum(x.s1) <= limit}
    limits |= {"b": cp.sum(x.s2) >= 0.0} if "b" in others else {}
    limits |= {"c": cp.sum(x.s3) == 0.25} if "c" in others else {}
    return bd.Problem(cp.Maximize(cp.sum(x.s0)), limits)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", [{}, {"per_step": True}, {"masked": True}])
@pytest.mark.parametrize("seed", keep_few(range(4), 1))
def test_limits_kept_and_not_kept_are_the_occupancy_programs(seed, kind, rows):
    """The same limits for every problem, from one that no policy keeps to one that every policy keeps."""
    instance = random_instance(seed, (12, 3, 4, 6), **kind)
    limits = np.linspace(-14.0, 14.0, 15)
    curve = bd.price(_rows(instance, ROWS[rows], 0.0), instance.mdp, "a", limits=limits)
    for i, limit in enumerate(limits):
        status, optimum = occupancy_optimum(_rows(instance, ROWS[rows], float(limit)), instance.mdp)
        assert curve.statuses[i] == status
        if status == "infeasible":
            assert np.isnan([curve.lower[i], curve.upper[i], curve.prices[i]]).all()
            continue
        assert curve.lower[i] - LP_TOLERANCE <= -optimum <= curve.upper[i] + LP_TOLERANCE
        assert curve.upper[i] - curve.lower[i] <= 1e-6 * max(1.0, abs(curve.upper[i]))
    assert {"optimal", "infeasible"} == set(curve.statuses)


def test_a_curve_takes_fewer_plans_than_its_limits_would_alone():
    """One pool for all limits: about five plans each, not the ten of a cold start."""
    instance = random_instance(0, (60, 4, 4, 10))
    x = instance.embedding()
    curve = bd.price(bd.Problem(cp.Maximize(cp.sum(x.s0)), {"a": cp.sum(x.s1) <= 0.0}), instance.mdp, points=12)
    assert set(curve.statuses) == {"optimal"}
    cold = [bd.Problem(cp.Maximize(cp.sum(x.s0)), [cp.sum(x.s1) <= float(limit)]) for limit in curve.limits]
    assert 3 * curve.total_plans <= 2 * sum(bd.solve(problem, instance.mdp).plans for problem in cold)


@pytest.mark.parametrize("seed", [2, 3])
def test_the_price_at_the_tightest_limit_is_the_gain_of_a_little_more(seed):
    """Any larger multiplier would prove the optimum there as well."""
    problem, mdp = _linear(seed, other=False)
    curve = bd.price(problem, mdp, points=10)
    near = float(curve.limits[0]) + 1e-4 * np.array([0.0, 1.0])
    near = bd.price(problem, mdp, limits=near, gap=1e-9)
    assert curve.prices[0] == pytest.approx(np.diff(near.values)[0] / 1e-4, rel=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 20, 33])
def test_halving_takes_every_limit_once_and_between_two_done(n):
    order = order_by_halving(n)
    assert sorted(order) == list(range(n))
    for place, i in enumerate(order[2:], start=2):
        assert min(order[:place]) < i < max(order[:place])


@pytest.mark.parametrize("relation", ["<=", ">="])
@pytest.mark.parametrize("sense", [cp.Maximize, cp.Minimize])
def test_prices_are_slopes_and_monotone(sense, relation):
    problem, mdp = _linear(1, relation, sense)
    curve = bd.price(problem, mdp, "a", points=15)
    gain = 1 if sense is cp.Maximize else -1
    chords = gain * np.diff(curve.values) / np.diff(curve.limits) * (-1 if relation == ">=" else 1)
    tighter, looser = (
        (curve.prices[:-1], curve.prices[1:]) if relation == "<=" else (curve.prices[1:], curve.prices[:-1])
    )
    slack = 4e-6 / np.diff(curve.limits).min()
    assert np.all(tighter >= chords - slack)
    assert np.all(looser <= chords + slack)
    assert np.all(curve.prices >= 0)
    assert curve.prices.max() > 0.05


@pytest.mark.parametrize("seed", range(4))
def test_the_range_is_that_of_the_occupancy_program(seed):
    problem, mdp = _linear(seed)
    curve = bd.price(problem, mdp, "a", points=3)
    instance = random_instance(seed, (6, 2, 3, 4))
    _, flow, (_, side, _, other) = occupancy_program(mdp, instance.signals)
    for end, direction in ((curve.least, cp.Minimize), (curve.most, cp.Maximize)):
        truth = cp.Problem(direction(side + 0.5), [*flow, other <= 50]).solve(solver=cp.HIGHS)
        assert end.lower - 1e-7 <= truth <= end.upper + 1e-7
        assert 0 <= end.upper - end.lower <= 1e-6


@pytest.mark.parametrize("relation", ["<=", ">="])
def test_beyond_the_free_value_the_limit_costs_nothing(relation):
    problem, mdp = _linear(2, relation)
    curve = bd.price(problem, mdp, "a", points=20)
    beyond = curve.limits > curve.free if relation == "<=" else curve.limits < curve.free
    assert beyond.any()
    assert not beyond.all()
    np.testing.assert_allclose(curve.prices[beyond], 0, atol=1e-9)
    np.testing.assert_allclose(curve.values[beyond], curve.free_optimum.lower, atol=2e-6)
    assert np.all(curve.values[~beyond] <= curve.free_optimum.upper + 1e-6)


def test_ties_without_the_limit_go_to_the_tighter_value():
    """Fast service beyond some number of uses changes nothing, so the limit stops mattering earlier."""
    task = bd.tasks.find("media").build()
    curve = bd.price(task.problem, task.mdp, points=5)
    assert curve.most.lower == pytest.approx(10)
    assert curve.free < 8.6
    assert curve.least.upper == pytest.approx(0, abs=1e-9)
    assert curve.limits[0] == 0


def test_a_parameter_and_a_number_give_the_same_curve_and_nothing_is_changed():
    task = bd.tasks.find("rover").build(budget=0.7)
    curve = bd.price(task.problem, task.mdp, limits=[0.1, 0.3])
    assert task.problem.parameters["budget"].value == 0.7
    assert abs(curve.values[1] - bd.tasks.find("rover").optimum) <= 2e-6
    assert abs(curve.prices[1] - 0.19298) <= 2e-3


def test_limits_that_no_policy_keeps_are_infeasible_not_errors():
    task = bd.tasks.find("rover").build()
    curve = bd.price(task.problem, task.mdp, limits=[-1.0, 0.0, 0.1])
    assert curve.statuses == ("infeasible", "infeasible", "optimal")
    assert np.isnan(curve.lower[:2]).all()
    assert np.isnan(curve.prices[:2]).all()
    assert "infeasible" in str(curve)
    points = json.loads(json.dumps(curve.to_dict(), allow_nan=False))["points"]
    assert points[0] == {"limit": -1.0, "lower": None, "upper": None, "price": None, "status": "infeasible", "plans": 1}


def test_other_constraints_that_clash_leave_nothing_achievable():
    task = bd.tasks.find("rover-two").build(quadrant=-1.0)
    curve = bd.price(task.problem, task.mdp, "pits")
    assert curve.statuses == ("infeasible",)
    assert curve.limits.tolist() == [0.3]
    assert (curve.least, curve.most, curve.free) == (None, None, None)
    assert "not known" in str(curve)
    assert curve.figure().axes


def _convex(seed, limit=2.0):
    instance = random_instance(seed, (4, 3, 3, 5))
    x = instance.embedding()
    return bd.Problem(cp.Maximize(cp.sum(x.s0)), {"norm": cp.norm(x.s1) <= limit}), instance


@pytest.mark.parametrize("seed", [0, 2])
def test_a_convex_constraint_has_a_curve(seed):
    problem, instance = _convex(seed)
    curve = bd.price(problem, instance.mdp, points=6)
    assert curve.most is None
    assert f"not below {round(curve.least.upper, 10) + 0.0:.6g}" in str(curve)
    mu, flow, _ = occupancy_program(instance.mdp, instance.signals)
    by_step = cp.reshape(mu, (5, 12), order="C")
    norm, total = cp.norm(by_step @ instance.signals[1].ravel()), cp.sum(by_step @ instance.signals[0].ravel())
    least = cp.Problem(cp.Minimize(norm), flow).solve(solver=cp.CLARABEL)
    assert curve.least.lower - 1e-5 <= least <= curve.least.upper + 1e-5
    for i, limit in enumerate(curve.limits):
        truth = cp.Problem(cp.Maximize(total), [*flow, norm <= limit]).solve(solver=cp.CLARABEL)
        assert curve.statuses[i] == "optimal"
        assert abs(curve.values[i] - truth) <= 1e-5 * max(1, curve.prices[i])
    assert np.all(np.diff(curve.prices) <= 1e-3)
    assert curve.prices[-1] <= 1e-6 <= curve.prices[0]
    assert curve.figure().axes


def test_a_convex_objective_with_a_linear_constraint():
    instance = random_instance(1, (4, 3, 3, 5))
    x = instance.embedding()
    problem = bd.Problem(cp.Minimize(cp.norm(x.s0 - 1)), {"b": cp.sum(x.s1) >= 0.0})
    curve = bd.price(problem, instance.mdp, points=5)
    for end, objective in ((curve.least, cp.Minimize(cp.sum(x.s1))), (curve.most, cp.Maximize(cp.sum(x.s1)))):
        _, truth = occupancy_optimum(bd.Problem(objective), instance.mdp)
        truth = truth if isinstance(objective, cp.Minimize) else -truth
        assert end.lower - 1e-6 <= truth <= end.upper + 1e-6
        assert end.upper - end.lower <= 1e-5
    assert all(status == "optimal" for status in curve.statuses)
    cold = bd.solve(bd.Problem(problem.objective, [cp.sum(x.s1) >= float(curve.limits[2])]), instance.mdp)
    assert abs(cold.value - curve.values[2]) <= 2e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"constraint": "nothing"}, "no constraint 'nothing'. Possible: before, a, after"),
        ({}, "several constraints: name one of before, a, after"),
        ({"constraint": "after"}, "'after' has 4 entries, so its limit is not one number"),
        ({"constraint": "a", "points": 0}, "number of points must be a whole number"),
        ({"constraint": "a", "limits": [2.0, 1.0]}, "finite numbers in increasing order"),
        ({"constraint": "a", "limits": []}, "at least one"),
        ({"constraint": "a", "gap": 0.0}, "gap must be a positive number"),
    ],
)
def test_bad_requests_are_refused(arguments, message):
    problem, mdp = _linear(0)
    with pytest.raises(bd.ProblemError, match=message):
        bd.price(problem, mdp, **arguments)


def test_a_problem_without_constraints_has_no_price():
    x = random_instance(0, (6, 2, 3, 4)).embedding()
    with pytest.raises(bd.ProblemError, match="there is no limit to vary"):
        bd.price(bd.Problem(cp.Minimize(cp.sum(x.s0))), random_instance(0, (6, 2, 3, 4)).mdp)


def test_progress_counts_the_limits():
    problem, mdp = _linear(0)
    seen = []
    bd.price(problem, mdp, "a", points=4, progress=lambda done, state: seen.append((done, state.plans)))
    assert {done for done, _ in seen} == {0, 1, 2, 3}


def test_one_point_and_a_constraint_that_is_constant():
    problem, mdp = _linear(0)
    assert bd.price(problem, mdp, "a", points=1).limits.shape == (1,)
    x = mdp.embedding(reward=np.arange(6.0), same=np.ones(6))
    curve = bd.price(bd.Problem(cp.Maximize(cp.sum(x.reward)), {"same": cp.sum(x.same) <= 9}), mdp)
    assert curve.limits.tolist() == [4.0]
    assert curve.least == pytest.approx(Enclosure(4, 4))


# The certificate of mixtures


def _tampered(monkeypatch, **changes):
    original = getattr(_search, "certify_mixtures")  # noqa: B009 - it is patched there

    def tamper(evidence):
        from dataclasses import replace

        return original(
            replace(evidence, **{name: change(getattr(evidence, name)) for name, change in changes.items()})
        )

    monkeypatch.setattr(_search, "certify_mixtures", tamper)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embeddings": lambda e: e + 1e-3}, "two evaluations of plan"),
        ({"gamma": lambda g: g - 1.0}, "multiplier of an inequality is negative"),
        ({"weights": lambda w: 0.9 * w}, "not a distribution"),
        ({"limits": lambda b: b * np.nan}, "NaN or infinity"),
        ({"actions": lambda a: a + 9}, "the plans have shape"),
    ],
)
def test_mixtures_that_do_not_fit_together_raise(monkeypatch, changes, message):
    _tampered(monkeypatch, **changes)
    problem, mdp = _linear(0, other=False)
    with pytest.raises(bd.CertificateError, match=message):
        bd.price(problem, mdp)


def test_a_forbidden_action_is_noticed(monkeypatch):
    task = bd.tasks.find("inventory").build()
    _tampered(monkeypatch, actions=lambda a: np.full_like(a, 5))
    with pytest.raises(bd.CertificateError, match="does not allow"):
        bd.price(task.problem, task.mdp)


def test_mixtures_agree_with_the_certificate_of_one_policy():
    task = bd.tasks.find("inventory").build()
    curve = bd.price(task.problem, task.mdp, limits=[2.0, 2.5, 3.5])
    for limit, lower, upper in zip(curve.limits, curve.lower, curve.upper, strict=True):
        cold = bd.tasks.find("inventory").build(budget=float(limit))
        solution = bd.solve(cold.problem, cold.mdp)
        assert lower <= solution.upper + 1e-12
        assert solution.lower <= upper + 1e-12
