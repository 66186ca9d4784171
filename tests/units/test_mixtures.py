"""Mixtures of observations: as many latents as are clearly apart, no more, and the observations in the right ones."""

import numpy as np
import pytest

from bidual.models.latent import _mixtures
from bidual.models.latent._mixtures import Categorical, Gaussian, find_strangers, fit_mixture

D = 32
MEANS = np.eye(3, D) * 14.0 / np.sqrt(2)  # fourteen standard deviations apart, as in the lock


def _vectors(rng, counts, means=MEANS, noise=1.0):
    places = np.repeat(np.arange(len(counts)), counts)
    return means[places] + noise * rng.standard_normal((places.size, means.shape[1])), places


def _agree(emission, observations, places):
    """Whether latents are places under other names."""
    pairs = set(zip(places.tolist(), emission.decode(observations).tolist(), strict=True))
    return len(pairs) == len(set(places.tolist())) == emission.size


@pytest.mark.parametrize("counts", [(4, 0, 0), (40, 0, 0), (600, 0, 0)])
def test_noise_is_one_latent(counts):
    """50 draws each: the criterion has five standard deviations of room."""
    for seed in range(50):
        observations, _ = _vectors(np.random.default_rng(seed), counts)
        assert fit_mixture(Gaussian(), observations, 5, None).size == 1


def test_without_its_criterion_noise_would_be_many(monkeypatch):
    monkeypatch.setattr(_mixtures, "CLEAR", 0.0)
    monkeypatch.setattr(_mixtures, "Z", -5.0)
    observations, _ = _vectors(np.random.default_rng(0), (40, 0, 0))
    assert fit_mixture(Gaussian(), observations, 5, None).size > 1


@pytest.mark.parametrize("counts", [(1, 20, 0), (1, 300, 0), (8, 8, 0), (8, 8, 8), (1, 30, 500), (300, 300, 300)])
def test_latents_are_found_however_rare(counts):
    for seed in range(10):
        observations, places = _vectors(np.random.default_rng(seed), counts)
        assert _agree(fit_mixture(Gaussian(), observations, 5, None), observations, places)


def test_noise_in_a_part_of_the_space_is_still_noise():
    """Noise of full size in 8 of 16 dimensions, as a Hadamard matrix of a padded vector makes it."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    for _ in range(20):
        observations = rng.standard_normal((500, 8)) @ turn[:8]
        assert fit_mixture(Gaussian(), observations, 5, None).size == 1


def test_there_are_never_more_than_allowed():
    observations, _ = _vectors(np.random.default_rng(0), (50, 50, 50))
    assert fit_mixture(Gaussian(), observations, 2, None).size == 2


def test_the_noise_is_estimated_without_bias():
    """Sum of squares over (n - k) D: its deviation is sqrt(2 / ((n - k) D)) = 1 percent of it, and five are allowed."""
    observations, _ = _vectors(np.random.default_rng(3), (200, 200, 225), MEANS * 2, 2.0)
    emission = fit_mixture(Gaussian(), observations, 3, None)
    assert abs(emission.variance / 4.0 - 1) <= 5 * np.sqrt(2 / (622 * D))
    np.testing.assert_allclose(np.sort(emission.weights), [0.32, 0.32, 0.36])


def test_a_warm_start_keeps_its_latents_and_finds_new_ones():
    rng = np.random.default_rng(1)
    observations, places = _vectors(rng, (40, 40, 0))
    warm = fit_mixture(Gaussian(), observations, 3, None)
    more, where = _vectors(rng, (0, 0, 1))
    observations, places = np.concatenate([observations, more]), np.concatenate([places, where])
    again = fit_mixture(Gaussian(), observations, 3, warm)
    assert _agree(again, observations, places)
    np.testing.assert_array_equal(again.decode(observations[:80]), warm.decode(observations[:80]))


def test_a_warm_start_that_was_wrong_is_given_up():
    observations, _ = _vectors(np.random.default_rng(2), (60, 0, 0))
    halves = np.repeat(np.eye(2), 30, axis=0)
    assert fit_mixture(Gaussian(), observations, 3, Gaussian().fit(observations, halves)).size == 1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_same_observation_many_times(n):
    emission = fit_mixture(Gaussian(), np.ones((n, 4)), 3, None)
    assert emission.size == 1
    assert np.isfinite(emission.scores(np.ones((1, 4)))).all()


def test_strangers_are_those_far_from_everything():
    rng = np.random.default_rng(4)
    observations, _ = _vectors(rng, (50, 50, 0))
    emission = fit_mixture(Gaussian(), observations, 3, None)
    sizes = emission.weights * 100
    for counts, odd in (((1000, 1000, 0), False), ((0, 0, 1000), True)):
        fresh, _ = _vectors(rng, counts)
        found = find_strangers(fresh, emission.centres, sizes, emission.noise, emission.freedom, emission.steadiness)
        assert (found.mean() == 1.0) if odd else (found.mean() == 0.0)


def test_decoding_is_the_largest_score():
    rng = np.random.default_rng(5)
    observations = 3 * rng.standard_normal((200, D)) + 100.0
    emission = fit_mixture(Gaussian(), _vectors(rng, (20, 20, 20))[0] + 100.0, 3, None)
    np.testing.assert_array_equal(emission.decode(observations), emission.scores(observations).argmax(axis=1))


def _symbols(rng, counts, sure=0.95, entries=12):
    """Three latents, each with a word of its own over four symbols, every letter wrong now and then."""
    words = np.random.default_rng(9).integers(0, 4, (3, entries))
    places = np.repeat(np.arange(3), counts)
    right = rng.random((places.size, entries)) < sure
    return np.where(right, words[places], rng.integers(0, 4, right.shape)).astype(np.float64), places


@pytest.mark.parametrize("counts", [(10, 10, 10), (1, 30, 0), (100, 200, 300)])
def test_symbols_are_told_apart(counts):
    for seed in range(5):
        observations, places = _symbols(np.random.default_rng(seed), counts)
        assert _agree(fit_mixture(Categorical(4), observations, 5, None), observations, places)


def test_one_word_is_one_latent():
    for seed in range(20):
        observations, _ = _symbols(np.random.default_rng(seed), (100, 0, 0))
        assert fit_mixture(Categorical(4), observations, 5, None).size == 1


def test_laws_of_symbols_are_laws():
    observations, _ = _symbols(np.random.default_rng(0), (20, 20, 20))
    emission = fit_mixture(Categorical(4), observations, 3, None)
    np.testing.assert_allclose(emission.laws.sum(axis=-1), 1, atol=1e-12)
    assert (emission.laws > 0).all()  # a symbol that was never seen is not impossible
