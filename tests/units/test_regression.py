"""Ridge regression of differences: against plain least squares, in pieces, drawn from, and its radius."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

import bidual as bd
from bidual.models import compute_posterior, start_moments

N, D, K, RIDGE = 2, 6, 40, 0.3
RNG = np.random.default_rng(1)
PHI, TRUE = RNG.normal(size=(K, D)), RNG.normal(size=(N, D))
DIFFERENCES = PHI @ TRUE.T + 0.1 * RNG.normal(size=(K, N))


def known(**declared):
    return compute_posterior(start_moments(N, D).add(PHI, DIFFERENCES), RIDGE, **declared)


def test_the_estimate_minimises_the_penalised_squares():
    """As least squares with sqrt(ridge) I below the features: another algorithm, by orthogonal factors."""
    rows, targets = np.vstack([PHI, np.sqrt(RIDGE) * np.eye(D)]), np.vstack([DIFFERENCES, np.zeros((D, N))])
    expected = np.linalg.lstsq(rows, targets, rcond=None)[0].T
    np.testing.assert_allclose(known().mean, expected, rtol=1e-10, atol=1e-12)


def test_episodes_add_up():
    moments = start_moments(N, D)
    for part in np.split(np.arange(K), [3, 4, 20]):
        moments = moments.add(PHI[part], DIFFERENCES[part])
    whole = known().moments
    assert moments.count == whole.count == K
    for name in ("gram", "cross", "squares"):
        np.testing.assert_allclose(getattr(moments, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


def test_norm_determinant_and_spectrum_are_those_of_lambda():
    precision = RIDGE * np.eye(D) + PHI.T @ PHI
    expected = np.sqrt(np.sum(PHI * np.linalg.solve(precision, PHI.T).T, axis=1))
    np.testing.assert_allclose(known().sigma(PHI), expected, rtol=1e-10)
    assert known().logdet == pytest.approx(np.linalg.slogdet(precision / RIDGE)[1], rel=1e-12)
    values, vectors = known().spectrum
    np.testing.assert_allclose(vectors * values @ vectors.T, precision, rtol=1e-10, atol=1e-10)


def test_draws_have_the_covariance_of_the_posterior():
    """Squared lengths in the norm of Lambda are chi-square; the sum of 400 is outside once in a million."""
    rng, scale = np.random.default_rng(2), np.array([0.5, 2.0])
    alike = PHI + 2 * PHI[:, :1]  # far from right angles: a factor and its transpose are not the same
    post = compute_posterior(start_moments(N, D).add(alike, DIFFERENCES), RIDGE)
    draws = np.array([post.sample(rng, scale) - post.mean for _ in range(400)])
    whitened = draws @ post.factor / scale[:, None]
    for squares, count in ((whitened**2, whitened.size), (whitened[:, 0] ** 2, whitened[:, 0].size)):
        assert chi2.ppf(5e-7, count) < squares.sum() < chi2.isf(5e-7, count)
    correlation = np.mean(whitened[:, :, :-1] * whitened[:, :, 1:])
    assert abs(correlation) < 5 / np.sqrt(whitened[:, :, 1:].size)
    np.testing.assert_array_equal(post.sample(np.random.default_rng(3), 0.0), post.mean)


def test_the_radius_is_the_formula_with_the_bias():
    post, delta = known(noise=0.1, bound=3.0), 0.05
    room = 8 * (N * np.log(5) + np.log(1 / delta) + 0.5 * post.logdet)
    expected = np.sqrt(RIDGE) * 3.0 + 0.1 * np.sqrt(room)
    assert expected < post.radius(delta) < expected * (1 + 1e-9)  # what rounding can do is added
    assert post.certifies
    assert post.radius(0.01) > post.radius(0.1)
    assert known(noise=np.array([0.05, 0.1]), bound=3.0).radius(delta) == post.radius(delta)  # the largest counts


@pytest.mark.parametrize("delta", [0.0, 1.0, np.nan])
def test_a_radius_is_for_a_probability(delta):
    with pytest.raises(bd.ModelError, match="between 0 and 1"):
        known(noise=0.1, bound=3.0).radius(delta)


def test_a_solver_that_is_off_cannot_make_a_false_radius():
    """The ellipsoid is around the estimate that was computed: what that one is off by is part of the radius."""
    post = known(noise=0.1, bound=float(np.linalg.norm(TRUE, 2)))
    honest, wrong = post.radius(0.1), post.mean + 10 * np.random.default_rng(4).normal(size=(N, D))
    assert np.linalg.norm((post.mean - TRUE) @ post.factor, 2) <= honest
    liar = replace(post)
    liar.__dict__["mean"] = wrong
    assert np.linalg.norm((wrong - TRUE) @ liar.factor, 2) > honest
    assert np.linalg.norm((wrong - TRUE) @ liar.factor, 2) <= liar.radius(0.1)


@pytest.mark.parametrize(
    ("declared", "missing"), [({}, "noise and bound"), ({"noise": 0.1}, "bound must"), ({"bound": 1.0}, "noise must")]
)
def test_without_declared_numbers_nothing_is_certified(declared, missing):
    assert not known(**declared).certifies
    with pytest.raises(bd.ModelError, match=missing):
        known(**declared).radius(0.1)


def test_noise_is_estimated_from_residuals():
    """Squares of n - tr free residuals: chi-square, outside of these quantiles once in a million."""
    rng, deviations = np.random.default_rng(5), np.array([0.01, 2.0])
    phi = rng.normal(size=(500, D))
    post = compute_posterior(start_moments(N, D).add(phi, phi @ TRUE.T + deviations * rng.normal(size=(500, N))), 1e-6)
    ratio = (post.deviation / deviations) ** 2
    assert np.all((chi2.ppf(2.5e-7, 500 - D) < ratio * (500 - D)) & (ratio * (500 - D) < chi2.isf(2.5e-7, 500 - D)))
    np.testing.assert_array_equal(known(noise=0.7).deviation, [0.7, 0.7])


def test_noise_is_estimated_without_bias_with_fewer_transitions_than_features():
    """With W from the prior that the ridge stands for, the mean of the estimated variances is that of the noise."""
    rng, ridge, runs, count = np.random.default_rng(6), 0.5, 2000, 4
    ratios = []
    for _ in range(runs):
        phi, W = rng.normal(size=(count, D)), rng.normal(size=(N, D)) / np.sqrt(ridge)
        post = compute_posterior(start_moments(N, D).add(phi, phi @ W.T + rng.normal(size=(count, N))), ridge)
        ratios.append(post.deviation**2)
    error = np.std(ratios, axis=0) / np.sqrt(runs)
    assert np.all(np.abs(np.mean(ratios, axis=0) - 1) < 5 * error)


def test_before_the_first_transition_nothing_moves():
    post = compute_posterior(start_moments(N, D), 0.25)
    np.testing.assert_array_equal(post.mean, 0)
    np.testing.assert_array_equal(post.deviation, 0)
    assert post.logdet == 0
    np.testing.assert_allclose(post.sigma(np.eye(D)), 2.0)


def test_numbers_that_are_not_finite_are_refused():
    broken = DIFFERENCES.copy()
    broken[7, 1] = np.nan
    with pytest.raises(bd.ModelError, match="transition 7"):
        start_moments(N, D).add(PHI, broken)


def test_features_that_drown_the_ridge_are_refused():
    phi = np.full((300, D), 1e8)
    with pytest.raises(bd.ModelError, match="too large for a ridge of 1e-06"):
        _ = compute_posterior(start_moments(N, D).add(phi, np.zeros((300, N))), 1e-6).mean


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"ridge": 0.0}, "positive number; got 0.0"),
        ({"ridge": np.nan}, "got nan"),
        ({"ridge": 1.0, "bound": -1.0}, "at least 0; got -1.0"),
        ({"ridge": 1.0, "noise": -0.1}, "deviation of at least 0"),
        ({"ridge": 1.0, "noise": np.array([0.1, np.inf])}, "one for each of 2"),
    ],
)
def test_numbers_that_cannot_be_are_refused(declared, words):
    with pytest.raises(bd.ModelError, match=words):
        compute_posterior(start_moments(N, D), **declared)
