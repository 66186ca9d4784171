"""The certified set of a regression: by hand where it can be, against SciPy, and derived again by the checker."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import hyp1f1

import bidual as bd
from bidual.certificate._quadratic import bound_least_over_laws
from bidual.certificate._radius import _find_rho, derive_radius
from bidual.models import SetEvidence, build_linear_laws, compute_posterior, start_moments
from bidual.models.regression._confidence import SetScale, find_confidence, invert_kummer, scale_prior, solve_rho
from bidual.problem.features import quadratic

N, D, RIDGE, S, NOISE = 2, 3, 0.3, 0.5, 0.1
LIMITS = (np.array([-5.0]), np.array([5.0]))


def moments(count=60, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    W, phi = rng.normal(size=(N, D)), size * rng.normal(size=(count, D))
    W *= 0.4 / np.linalg.norm(W, 2)
    return start_moments(N, D).add(phi, phi @ W.T + NOISE * rng.normal(size=(count, N))), W


def posterior(*args, **given):
    return compute_posterior(moments(*args)[0], RIDGE, **({"noise": NOISE, "bound": S} | given))


def linear_laws(known, delta=0.1):
    cost = quadratic(np.diag([0.0, 0.0, 0.1, 1.0, 1.0]))
    return build_linear_laws(known, delta, np.array([1.0, 0.0]), LIMITS, (cost,))


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("level", [1e-3, 0.7, 4.0, 40.0, 300.0])
def test_the_root_is_that_of_scipy_from_above(n, level):
    """Both the model and the checker: by a hair's breadth above, which is what they take for rounding."""
    z, rho = invert_kummer(n, level), _find_rho(n, level)
    assert np.log(hyp1f1(0.5, n / 2, z)) == pytest.approx(level, rel=1e-8, abs=1e-9)
    assert rho**2 / 2 == pytest.approx(z, rel=1e-7, abs=1e-9)
    if n == 1:  # the exponential
        assert level <= z <= level * (1 + 1e-8) + 1e-9
        assert level <= rho**2 / 2 <= level * (1 + 1e-8) + 1e-9


def test_for_one_number_the_first_set_has_the_bound_of_abbasi_yadkori():
    """With the bias inside the root: lambda S^2 + s^2 (2 log(2 / delta) + logdet)."""
    rng, delta = np.random.default_rng(3), 0.05
    phi = rng.normal(size=(1, D))
    one = start_moments(1, D).add(phi, rng.normal(size=(1, 1)))
    found = find_confidence(one, SetScale(NOISE, S, NOISE**2 / S**2), delta)
    ridge = D * NOISE**2 / S**2
    precision = phi.T @ phi + ridge * np.eye(D)
    assert found.number == 0
    np.testing.assert_allclose(found.precision, precision, rtol=1e-14)
    logdet = np.linalg.slogdet(precision / ridge)[1]
    expected = np.sqrt(ridge * S**2 + NOISE**2 * (2 * np.log(2 / delta) + logdet))
    assert found.radius == pytest.approx(expected, rel=1e-9)
    assert found.radius >= expected * (1 - 1e-12)


def test_with_many_transitions_a_set_around_the_truth_is_chosen():
    seen, _ = moments(5000)
    declared, delta = SetScale(NOISE, S, NOISE**2 / S**2), 0.1
    found = find_confidence(seen, declared, delta)
    assert found.number is not None
    assert found.number > 0
    tau, kappa, V = declared.unit, scale_prior(declared, D, found.number), seen.gram
    X = np.linalg.solve(V + kappa * np.eye(D), V)
    np.testing.assert_allclose(found.precision, V @ X + tau * np.eye(D), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.centre, seen.cross @ X @ np.linalg.inv(V @ X + tau * np.eye(D)), rtol=1e-9)
    rho = solve_rho(seen, np.linalg.eigvalsh(V), declared, delta, found.number)
    level = np.log(26 / delta) + 0.5 * np.linalg.slogdet(np.eye(D) + V / kappa)[1]
    assert np.log(hyp1f1(0.5, N / 2, rho**2 / 2)) == pytest.approx(level, rel=1e-9)
    assert found.radius == pytest.approx(np.sqrt((NOISE * rho) ** 2 + tau * S**2), rel=1e-6)


def test_what_was_seen_is_displaced_less_than_by_the_net():
    """2.5 to 3 times less where features are few and the noise is small beside what moves."""
    for count in (20, 400, 4000):
        known = posterior(count)
        tight, net = known.confidence(0.05), known.confidence(0.05, form="net")
        assert net.radius == known.radius(0.05)
        assert net.number is None
        lengths = [one.radius**2 * np.trace(np.linalg.solve(one.precision, known.moments.gram)) for one in (tight, net)]
        assert lengths[0] < lengths[1] / 2**2


@pytest.mark.parametrize("count", [0, 1, 60, 20000])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_the_checker_derives_the_radius_again(count, size):
    laws = linear_laws(posterior(count, 1, size))
    assert laws.evidence is not None
    assert derive_radius(laws, laws.evidence) == pytest.approx(laws.radius, rel=1e-3)


def test_a_lying_model_cannot_make_a_false_set():
    """Whatever centre, precision and radius are stated, the derived radius holds every W that the true set holds."""
    known, (_, W) = posterior(60), moments(60)
    laws, rng = linear_laws(known), np.random.default_rng(5)
    for off in (1e-6, 0.1, 10.0):
        shift = rng.normal(size=(D, D))
        lied = replace(
            laws,
            W=laws.W + off * rng.normal(size=laws.W.shape),
            precision=laws.precision + off * (shift @ shift.T),
            radius=1e-9,
        )
        radius = derive_radius(lied, laws.evidence)
        # On the edge of the true set is C + u L^-1, with |u| the radius and L L' the precision.
        for _ in range(20):
            edge = rng.normal(size=laws.W.shape)
            edge *= laws.radius / np.linalg.norm(edge, 2)
            inside = laws.W + edge @ np.linalg.inv(np.linalg.cholesky(laws.precision))
            assert np.linalg.norm((inside - lied.W) @ np.linalg.cholesky(lied.precision), 2) <= radius
        theta = np.ones((4, 1))
        assert bound_least_over_laws(lied, theta, theta, 1).value <= bound_least_over_laws(laws, theta, theta, 1).value
    assert np.linalg.norm((W - laws.W) @ np.linalg.cholesky(laws.precision), 2) <= laws.radius


def test_evidence_that_is_none_is_refused():
    laws = linear_laws(posterior())
    assert laws.evidence is not None
    odd = (
        {"number": 14},
        {"number": -1},
        {"delta": 0.0},
        {"deviation": 0.0},
        {"bound": np.inf},
        {"moments": replace(laws.evidence.moments, gram=np.full((D, D), np.nan))},
        {"moments": replace(laws.evidence.moments, gram=-laws.evidence.moments.gram)},
    )
    for change in odd:
        with pytest.raises(bd.CertificateError, match="regression"):
            derive_radius(laws, SetEvidence(**(laws.evidence._asdict() | change)))
    broken = replace(laws.evidence.moments, gram=np.full((D, D), 1e9) - 0.9e9 * np.eye(D))
    assert derive_radius(laws, laws.evidence._replace(moments=broken)) == np.inf


def test_less_delta_is_a_larger_set():
    known = posterior()
    radii = [solve_rho(known.moments, np.ones(D), SetScale(NOISE, S, 0.04), delta, 0) for delta in (0.2, 0.1, 1e-6)]
    assert radii == sorted(radii)


def test_without_noise_or_with_a_bound_of_zero_the_set_is_that_of_the_net():
    for given in ({"noise": 0.0}, {"bound": 0.0}):
        known = posterior(**given)
        assert known.confidence(0.1).number is None
        assert known.confidence(0.1).radius == known.radius(0.1)
    with pytest.raises(bd.ModelError, match="'tight' or 'net'; got 'wide'"):
        posterior().confidence(0.1, form="wide")


def test_units_of_features_do_not_matter():
    """Features a thousand times as large, and a bound a thousand times as small."""
    (one, _), scale = moments(200), 1e3
    other = replace(one, gram=one.gram * scale**2, cross=one.cross * scale)
    small, large = (
        find_confidence(seen, SetScale(NOISE, bound, NOISE**2 / bound**2), 0.1)
        for seen, bound in ((one, S), (other, S / scale))
    )
    assert small.number == large.number
    assert large.radius == pytest.approx(small.radius, rel=1e-6)
    np.testing.assert_allclose(large.centre * scale, small.centre, rtol=1e-6)
