"""Outer ellipsoids: never inside the one they are around, whatever was seen; and no other choice of ends is better."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidual._base.types import float64
from bidual.models import compute_posterior, find_outer_ellipsoid, start_moments

D = 12


def seen(seed, count, decay, ridge):
    """What is known after `count` features, some directions of which are hardly ever seen."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(D, D)))
    phi = rng.normal(size=(count, D)) * np.exp(-decay * np.arange(D)) @ basis.T
    known = compute_posterior(start_moments(2, D).add(phi, rng.normal(size=(count, 2))), ridge)
    tried = np.vstack([np.resize(phi, (20, D)) if count else np.eye(20, D), rng.normal(size=(20, D)), np.zeros((1, D))])
    return known, tried


@jax.jit
def _sigmas(ellipsoid, phi):
    return jax.vmap(ellipsoid.sigma)(phi)


@jax.jit
def _slopes(ellipsoid, phi):
    return jax.vmap(jax.grad(ellipsoid.sigma))(phi)


@float64
def sigmas(ellipsoid, phi):
    return np.asarray(_sigmas(ellipsoid, phi))


situations = st.builds(
    seen,
    seed=st.integers(0, 10**6),
    count=st.sampled_from([0, 5, 20, 200]),
    decay=st.sampled_from([0.0, 0.3, 2.0]),
    ridge=st.sampled_from([1e-3, 1.0]),
)


@given(situations, st.sampled_from([1, 2, 7, D - 1, D, D + 3]))
def test_the_outer_ellipsoid_is_outside(situation, rank):
    """Up to the rounding of a difference: of numbers as large as |phi|^2 / ridge, in double precision."""
    known, phi = situation
    outer, exact = sigmas(find_outer_ellipsoid(known, rank), phi) ** 2, known.sigma(phi) ** 2
    rounding = 1e-13 * np.sum(phi**2, axis=1) / known.ridge
    assert np.all(outer >= exact * (1 - 1e-10) - rounding)
    if rank >= D:
        np.testing.assert_allclose(outer, np.maximum(exact, 1e-12), rtol=1e-8, atol=rounding.max())


@given(situations, st.integers(1, D - 1))
def test_the_ends_that_are_kept_are_the_best(situation, rank):
    """All splits of the rank, by their definition: excess over what was seen, and what the ridge stands for."""
    known, _ = situation
    values, vectors = known.spectrum
    weights = known.moments.gram + known.ridge * np.eye(D)

    def excess(first):
        between = slice(first, D - rank + first)
        most = 1 / values[between].min()
        apart = vectors[:, between] * np.sqrt(np.maximum(most - 1 / values[between], 0.0))
        return np.trace(apart.T @ weights @ apart)

    ellipsoid = find_outer_ellipsoid(known, rank)
    v, factors = ellipsoid.directions, ellipsoid.inverse - ellipsoid.rest
    matrix = ellipsoid.rest * np.eye(D) + v.T @ (factors[:, None] * v)
    found = np.sum((matrix - np.linalg.inv(weights)) * weights)
    best, size = min(excess(first) for first in range(rank + 1)), np.trace(weights) / known.ridge
    assert found == pytest.approx(best, rel=1e-6, abs=1e-10 * size)


@given(situations, st.sampled_from([None, 4]))
def test_sigma_has_derivatives_everywhere(situation, rank):
    known, phi = situation
    slopes = _slopes(find_outer_ellipsoid(known, rank), phi.astype(np.float32))
    assert np.isfinite(np.asarray(slopes)).all()


def test_in_single_precision_the_outer_ellipsoid_is_still_outside():
    """A real map after 30 episodes: what cancels is a hundred thousand times larger than what is left, not more."""
    rng = np.random.default_rng(0)
    frequencies, phases = rng.normal(size=(200, 5)) / 2, rng.uniform(0, 2 * np.pi, 200)
    phi = np.cos(rng.normal(size=(900, 5)) @ frequencies.T + phases) / np.sqrt(200)
    known = compute_posterior(start_moments(1, 200).add(phi, np.zeros((900, 1))), 0.01)
    single = np.asarray(jax.vmap(find_outer_ellipsoid(known, 64).sigma)(jnp.asarray(phi, dtype=jnp.float32)))
    double = sigmas(find_outer_ellipsoid(known, 64), phi)
    np.testing.assert_allclose(single, double, rtol=1e-3)
    assert np.all(single >= known.sigma(phi) * (1 - 1e-3))
