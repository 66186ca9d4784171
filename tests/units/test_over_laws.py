"""What an affine law pays under every law of a set: above all of them, near the worst, and its controls."""

from dataclasses import replace

import numpy as np
import pytest

import bidual as bd
from bidual.certificate import AffineControls, bound_cost, bound_touched
from bidual.certificate._pessimistic import _bound_moments, _bound_tail
from bidual.learning.outputs import bound_policy, find_cautious_policy
from bidual.planners.control import RiccatiOptimist
from bidual.problem.features import quadratic
from bidual.world.policies import Mixture
from tests.laws.test_linear_laws import _laws, _paid, _some_law
from tests.units.test_riccati_explorer import explored, prepared

THETA = np.tile([1.0, 0.5], (6, 1))


def set_of(seed, **settings):
    """Laws with costs that are quadratic without a slope and never negative, so that no end of a signal is met."""
    laws = _laws(seed, **settings)
    form = laws.signals[0].quadratic.form
    return replace(laws, signals=(quadratic(form, low=0.0), laws.signals[1]))


def best(laws, theta=THETA):
    law = RiccatiOptimist()(replace(laws, radius=0.0), None, theta).actions.controller
    return AffineControls(law.gains, law.controls)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("settings", [{}, {"constant": True}, {"n": 3, "m": 2}], ids=str)
def test_no_law_of_the_set_makes_a_policy_pay_more_or_less(seed, settings):
    laws, rng = set_of(seed, radius=0.1, **settings), np.random.default_rng(seed)
    law = best(laws)
    low, high = bound_cost(laws, law, THETA, THETA, 1)
    paid = [_paid(laws, _some_law(laws, rng), *law, THETA) for _ in range(40)]
    assert low <= min(paid)
    assert max(paid) <= high


def test_a_set_that_is_too_small_gives_bounds_that_a_law_exceeds():
    """Power: bounds for half the radius are exceeded by laws of the whole set, above and below."""
    beaten = np.zeros(2)
    for seed in range(8):
        laws, rng = set_of(seed, radius=0.4), np.random.default_rng(seed)
        law = best(laws)
        low, high = bound_cost(replace(laws, radius=0.2), law, THETA, THETA, 1)
        paid = [_paid(laws, _some_law(laws, rng), *law, THETA) for _ in range(300)]
        beaten += min(paid) < low, max(paid) > high
    assert np.all(beaten >= 2)


def test_with_a_vanishing_set_both_ends_are_what_is_paid():
    laws = set_of(3, radius=1e-7)
    law = best(laws)
    low, high = bound_cost(laws, law, THETA, THETA, 1)
    exact = _paid(laws, laws.W, *law, THETA)
    assert exact * (1 - 1e-4) <= low <= exact <= high <= exact * (1 + 1e-4)


def test_nothing_is_proved_where_a_signal_can_be_clipped():
    laws = set_of(1, radius=0.1)
    form = laws.signals[0].quadratic.form
    law = best(laws)
    above = bound_cost(replace(laws, signals=(quadratic(form, low=0.5), laws.signals[1])), law, THETA, THETA, 1)
    below = bound_cost(replace(laws, signals=(quadratic(form, high=9.0), laws.signals[1])), law, THETA, THETA, 1)
    assert above[1] == np.inf
    assert np.isfinite(above[0])
    assert below[0] == -np.inf
    assert np.isfinite(below[1])


def test_controls_beyond_their_limits_are_rarer_than_the_bound():
    """Simulated under the centre and at the edge of the set, with limits that are met now and then."""
    laws, rng, runs = set_of(2, radius=0.05), np.random.default_rng(0), 4000
    law = best(laws)
    limits = np.array([1.6])
    bound = bound_touched(replace(laws, limits=(-limits, limits)), law)
    assert 0 < bound < 0.9
    for W in (laws.W, _some_law(laws, rng), _some_law(laws, rng)):
        s, touched = np.tile(laws.first, (runs, 1)), np.zeros(runs, dtype=bool)
        for K, k in zip(*law, strict=True):
            u = s @ K.T + k
            touched |= np.any(np.abs(u) > limits, axis=1)
            s = s + np.hstack([s, u]) @ W.T + laws.deviation * rng.standard_normal(s.shape)
        assert touched.mean() - 5 * np.sqrt(0.25 / runs) <= bound
    assert bound_touched(replace(laws, limits=(-np.array([np.inf]), np.array([np.inf]))), law) == 0.0


def test_moments_hold_and_the_tail_is_the_worst_normal():
    laws, rng = set_of(4, radius=0.1), np.random.default_rng(1)
    law = best(laws)
    a, b, B = _bound_moments(laws, law, 3, 0, 0.2)
    for _ in range(20):
        W, mean, spread = _some_law(laws, rng), laws.first, np.zeros((2, 2))
        for K, k in zip(law.gains[:3], law.offsets[:3], strict=True):
            closed = np.eye(2) + W[:, :2] + W[:, 2:] @ K
            mean, spread = closed @ mean + W[:, 2:] @ k, closed @ spread @ closed.T + np.diag(laws.deviation**2)
        own = float(law.gains[3, 0] @ mean + law.offsets[3, 0] - 0.2)
        assert a <= own <= b
        assert own**2 + law.gains[3, 0] @ spread @ law.gains[3, 0] <= B
    for limit in (0.5, 1.5, 4.0):
        worst = _bound_tail((-0.3, 0.4, 1.0), limit)
        for m in np.linspace(-0.3, 0.4, 15):
            draws = m + np.sqrt(1 - m * m) * rng.standard_normal(20000)
            assert np.mean(np.abs(draws) > limit) - 0.02 <= worst
    assert _bound_tail((-2.0, 0.0, 9.0), 1.9) == 1.0
    assert _bound_tail((-np.inf, 0.0, 9.0), 100.0) == 1.0


def test_a_cautious_policy_keeps_its_limit():
    setup = prepared("lqr-effort", horizon=6)
    known = explored(setup, 25)[-1].state.knowledge
    cautious = find_cautious_policy(known, setup.program)
    bounds = bound_policy(cautious, known, setup.program, 1.0)
    assert bounds.keeps
    assert "every limit kept" in str(bounds)
    assert bounds.excess[0] >= -0.1  # of 3: the price is hardly dearer than it has to be
    still = replace(cautious, controller=replace(cautious.controller, gains=0 * cautious.controller.gains))
    both = Mixture(np.array([0.5, 0.5]), (cautious, still))
    mixed, idle = (bound_policy(policy, known, setup.program, 1.0) for policy in (both, still))
    assert mixed.upper == pytest.approx((bounds.upper + idle.upper) / 2)
    opposite = bound_policy(cautious, known, setup.program, -1.0)
    assert (opposite.lower, opposite.upper) == (-bounds.upper, -bounds.lower)


def test_what_has_no_bound_says_why():
    setup = prepared("lqr-effort")
    turn = explored(setup, 1)[0]
    with pytest.raises(bd.ProblemError, match="affine policies"):
        bound_policy(turn.choice.policy, turn.state.knowledge, setup.program, 1.0)
    undeclared = replace(turn.state.knowledge, declared=replace(turn.state.knowledge.declared, bound=None))
    with pytest.raises(bd.ProblemError, match="bound of the linear model not declared"):
        bound_policy(turn.choice.policy, undeclared, setup.program, 1.0)
    task = bd.tasks.find("riverswim").build()
    learned = bd.learn(task.problem, task.mdp, episodes=2, evaluation=0)
    with pytest.raises(bd.ProblemError, match="KNR"):
        learned.bound_policy()
    with pytest.raises(bd.ProblemError, match="KNR"):
        learned.cautious_policy()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_hundred_episodes_bound_the_optimal_law_from_both_sides(seed):
    task = bd.tasks.find("lqr").build()
    settings = {"episodes": 200, "evaluation": 0, "seed": seed, "explorer": task.explorer}
    learned = bd.learn(task.problem, task.env, task.model, **settings)
    found = learned.bound_policy()
    assert 4.75 <= learned.lower <= 5.570863 <= found.upper <= 6.9
    assert found.touched <= 0.01
