"""The bound over linear laws: below every law and policy of the set, near the best of them, and robust to rounding."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidual.certificate._quadratic import bound_least_over_laws
from bidual.models import LinearLaws
from bidual.planners.control import LinearQuadratic, RiccatiLaws, RiccatiOptimist, expected
from bidual.problem.features import quadratic, signal
from tests.helpers import scale_examples


def _laws(seed, n=2, m=1, radius=0.3, *, constant=False):
    """Random laws around a random estimate, with a convex cost of (s, u, s') and one of controls alone."""
    rng = np.random.default_rng(seed)
    d, x = n + m + constant, 2 * n + m
    root, data = rng.normal(size=(x, x)), rng.normal(size=(30, d))
    form = root @ root.T / x + 0.1 * np.eye(x)
    effort = np.diag(np.r_[np.zeros(n), np.ones(m), np.zeros(n)])
    return LinearLaws(
        W=0.3 * rng.normal(size=(n, d)),
        precision=data.T @ data + 0.1 * np.eye(d),
        radius=radius,
        deviation=np.full(n, 0.2),
        first=rng.normal(size=n),
        limits=(np.full(m, -5.0), np.full(m, 5.0)),
        signals=(quadratic(form, 0.1 * rng.normal(size=x), 0.3), quadratic(effort, low=0.0, high=25.0 * m)),
    )


def _paid(laws, W, gains, offsets, theta):
    """What an affine law pays under W, from its moments."""
    (n, m, constant), H = laws.sizes, len(theta)
    parts = np.eye(n) + W[:, :n], W[:, n : n + m], W[:, n + m] if constant else np.zeros(n)
    A, B, c = (np.repeat(part[None], H, axis=0) for part in parts)
    x = 2 * n + m
    noise = np.repeat(np.diag(laws.deviation**2)[None], H, axis=0)
    model = LinearQuadratic(A, B, np.zeros((H, x, x)), noise, c, np.zeros((H, x)), np.zeros(H))
    moments = model.moments(RiccatiLaws(gains, offsets, np.zeros((n, n)), np.zeros(n), 0.0), laws.first)
    forms = [np.stack([np.asarray(form[i]) for form in laws.forms]) for i in range(3)]
    return float(np.vdot(theta, expected(*moments, *forms)))


def _some_law(laws, rng):
    """On the edge of the set."""
    D = rng.normal(size=laws.W.shape)
    D *= laws.radius / np.linalg.norm(D, 2)
    return laws.W + D @ np.linalg.inv(np.linalg.cholesky(laws.precision))


@settings(max_examples=scale_examples(30), deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 3), m=st.integers(1, 2), constant=st.booleans())
def test_no_policy_under_any_law_of_the_set_pays_less(seed, n, m, constant):
    laws, rng = _laws(seed, n, m, constant=constant), np.random.default_rng(seed + 1)
    theta = rng.uniform(0.2, 1.0, size=(5, 2))
    bound = bound_least_over_laws(laws, theta, np.abs(theta), 1)
    assert bound.error >= 0
    plan = RiccatiOptimist()(laws, None, theta)
    law = plan.actions.controller
    for _ in range(30):
        W = _some_law(laws, rng)
        gains = law.gains + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=law.gains.shape)
        assert bound.value - bound.error <= _paid(laws, W, gains, law.controls, theta)


@pytest.mark.parametrize("seed", range(8))
def test_the_checker_finds_the_bound_of_the_planner(seed):
    """Its grid of prices ends at a ratio of 10^0.016, where a concave function is flat, and its margins are 1e-9."""
    laws = _laws(seed)
    theta = np.tile([1.0, 0.5], (6, 1))
    plan, bound = RiccatiOptimist()(laws, None, theta), bound_least_over_laws(laws, theta, np.abs(theta), 1)
    assert plan.lower - 1e-3 * abs(plan.lower) <= bound.value - bound.error <= plan.lower + 1e-6 * abs(plan.lower)


def test_with_a_vanishing_set_the_bound_is_the_optimum():
    laws = _laws(3, radius=1e-7)
    theta = np.tile([1.0, 0.5], (6, 1))
    bound, plan = (
        bound_least_over_laws(laws, theta, np.abs(theta), 1),
        RiccatiOptimist()(replace(laws, radius=0.0), None, theta),
    )
    law = plan.actions.controller
    assert plan.lower == pytest.approx(_paid(laws, laws.W, law.gains, law.controls, theta), rel=1e-9)
    assert plan.lower * (1 - 1e-4) <= bound.value <= plan.lower


def test_a_larger_set_has_a_lower_bound():
    theta = np.tile([1.0, 0.5], (6, 1))
    values = [bound_least_over_laws(_laws(4, radius=r), theta, np.abs(theta), 1).value for r in (0.01, 0.1, 0.5, 2.0)]
    assert all(later < earlier for earlier, later in pairwise(values))


def test_a_set_that_is_too_small_gives_a_bound_that_a_law_undercuts():
    """The test above has power: the bound for half the radius is beaten by some law of the whole set."""
    theta, beaten = np.tile([1.0, 0.5], (6, 1)), 0
    for seed in range(10):
        laws, rng = _laws(seed, radius=1.0), np.random.default_rng(seed)
        bound = bound_least_over_laws(replace(laws, radius=0.5), theta, theta, 1).value
        law = RiccatiOptimist()(laws, None, theta).actions.controller
        paid = [_paid(laws, _some_law(laws, rng), law.gains, law.controls, theta) for _ in range(200)]
        beaten += min(paid) < bound
    assert beaten >= 3


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e5])
def test_units_of_the_cost_do_not_matter(scale):
    laws, theta = _laws(5), np.tile([1.0, 0.5], (6, 1))
    one = bound_least_over_laws(laws, theta, theta, 1).value
    assert bound_least_over_laws(laws, scale * theta, scale * theta, 1).value == pytest.approx(scale * one, rel=1e-6)


def test_nothing_is_proved_of_what_is_not_quadratic():
    laws = _laws(6)
    theta = np.tile([1.0, 0.5], (4, 1))
    odd = signal(lambda x, u, y: abs(y[0]))
    for changed in (
        replace(laws, signals=(odd, laws.signals[1])),  # not declared so
        replace(laws, signals=(quadratic(laws.signals[0].quadratic.form, high=20.0), laws.signals[1])),  # held to 20
        replace(laws, limits=(np.array([-6.0]), np.array([5.0]))),  # whose square is above 25
        replace(laws, radius=np.inf),
    ):
        assert bound_least_over_laws(changed, theta, theta, 1).value == -np.inf
    assert bound_least_over_laws(laws, -theta, theta, 1).value == -np.inf  # not convex


def test_a_lower_end_only_makes_dearer_what_costs():
    laws, theta = _laws(7), np.tile([1.0, 0.5], (4, 1))
    form = laws.signals[0].quadratic
    held = replace(laws, signals=(quadratic(*form, low=1.0), laws.signals[1]))
    assert held.underestimates(theta)
    assert not held.underestimates(-theta)
