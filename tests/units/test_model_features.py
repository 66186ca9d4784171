"""Features of the model: a fast cosine, declarations, and the maps they become."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import bidual as bd
from bidual._base.types import float64
from bidual.problem.features import AbstractModelFeatures, compute_features, fourier, linear, mapped, read_features
from bidual.problem.features._phi import COSINE_ERROR, compute_cosine

N, M = 3, 2
RNG = np.random.default_rng(0)


def squares(s, u):
    return jnp.concatenate([s * s, u[:1]])


DECLARED = {
    "fourier": fourier(40, bandwidth=1.5, seed=3, scales=[1.0, 2.0, 8.0, 1.0, 0.5]),
    "fourier, no scales": fourier(),
    "linear": linear(),
    "linear, constant": linear(constant=True),
    "mapped": mapped(squares, 4),
}


@pytest.fixture(params=DECLARED)
def declared(request):
    return DECLARED[request.param]


def test_every_implementation_is_here():
    assert {type(one) for one in DECLARED.values()} == set(AbstractModelFeatures.__subclasses__())


def test_the_fast_cosine_is_one():
    """All floats would take too long; a million of them over 300 periods, and the neighbours of every extremum."""
    extrema = np.arange(-700, 701) * (np.pi / 2)
    x = np.concatenate([np.linspace(-1e3, 1e3, 1_000_001), *(extrema + off for off in (-1e-4, 0.0, 1e-4))])
    single = x.astype(np.float32)
    error = np.abs(np.asarray(jax.jit(compute_cosine)(single), dtype=np.float64) - np.cos(single.astype(np.float64)))
    assert error.max() <= COSINE_ERROR <= 1e-5
    with jax.enable_x64(True):
        assert (
            np.abs(np.asarray(jax.jit(compute_cosine)(x)) - np.cos(x)).max() <= 1.6e-6
        )  # that of the polynomial alone


def test_one_part_for_the_period_would_not_do():
    """What range reduction in two parts is for: subtracting 2 pi k at once loses 1e-5."""
    x = np.linspace(-1e3, 1e3, 100_001).astype(np.float32)
    k = np.round(x / np.float32(2 * np.pi)).astype(np.float32)
    naive = np.cos((x - k * np.float32(2 * np.pi)).astype(np.float64))
    assert np.abs(naive - np.cos(x.astype(np.float64))).max() > 1e-5


@given(arrays(np.float32, 20, elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_the_fast_cosine_never_leaves_its_range(x):
    assert np.all(np.abs(np.asarray(compute_cosine(jnp.asarray(x)))) <= 1)


def test_the_fast_cosine_has_the_slope_of_a_cosine():
    """Markov: the slope of an error of degree 10 on [-pi, pi] is at most 100 / pi times as large."""
    x = jnp.linspace(-20.0, 20.0, 5001)
    slope = jax.vmap(jax.grad(compute_cosine))(x)
    assert np.abs(np.asarray(slope) + np.sin(np.asarray(x, dtype=np.float64))).max() <= 100 / np.pi * COSINE_ERROR
    assert np.isnan(compute_cosine(jnp.array([jnp.nan, jnp.inf]))).all()


def test_maps_are_as_long_as_they_say_and_go_through_compiled_code(declared):
    phi = declared.build_map(N, M)
    n, m, d = phi.sizes
    assert (n, m) == (N, M)
    s, u = (jnp.asarray(RNG.normal(size=size), dtype=jnp.float32) for size in (n, m))
    plain, inside = phi(s, u), jax.jit(lambda phi, s, u: phi(s, u))(phi, s, u)
    assert plain.shape == (d,)
    assert plain.dtype == inside.dtype == jnp.float32
    np.testing.assert_allclose(np.asarray(inside), np.asarray(plain), rtol=0, atol=1e-5)


def test_many_features_are_those_of_each(declared):
    phi = declared.build_map(N, M)
    s, u = RNG.normal(size=(7, N)), RNG.normal(size=(7, M))
    rows = compute_features(phi, s, u)
    assert rows.dtype == np.float64
    each = float64(lambda: np.array([phi(jnp.asarray(a), jnp.asarray(b)) for a, b in zip(s, u, strict=True)]))()
    np.testing.assert_allclose(rows, each, rtol=1e-13, atol=1e-13)
    assert compute_features(phi, s[:0], u[:0]).shape == (0, phi.sizes[2])


def test_bounded_features_are_never_longer_than_1(declared):
    s, u = RNG.normal(size=(500, N)) * np.geomspace(1e-3, 1e6, 500)[:, None], RNG.normal(size=(500, M))
    norms = np.linalg.norm(compute_features(declared.build_map(N, M), s, u), axis=1)
    assert (norms.max() <= 1 + 1e-12) == declared.bounded


def test_a_batch_is_one_product_of_matrices():
    """Single products for every sample would be many times slower."""
    phi, s, u = fourier(16).build_map(N, M), jnp.zeros((64, N)), jnp.zeros((64, M))
    lines = jax.jit(jax.vmap(phi)).lower(s, u).as_text().splitlines()
    (product,) = [line for line in lines if "dot_general" in line]
    assert "batching_dims" not in product
    assert "64x5" in product
    assert "64x16" in product or "16x64" in product


def test_fourier_features_are_what_they_are_called():
    one = fourier(2000, bandwidth=1.7, seed=1, scales=[1.0, 2.0, 3.0]).build_map(2, 1)
    np.testing.assert_allclose(
        compute_features(one, np.array([[0.3, -1.0]]), np.array([[2.0]]))[0],
        np.cos(one.frequencies @ np.array([0.3, -1.0, 2.0]) + one.phases) / np.sqrt(2000),
        atol=1.6e-6 / np.sqrt(2000),
    )
    # 2 phi(z) . phi(z') is an average of 2000 numbers in [-2, 2] with variance at most 3/2 around the Gaussian kernel:
    # 5 deviations of it, which fails once in a million draws.
    z = RNG.normal(size=(20, 3)) * [1.0, 2.0, 3.0]
    kernel = 2 * np.prod([compute_features(one, part[:, :2], part[:, 2:]) for part in (z[:10], z[10:])], axis=0).sum(
        axis=1
    )
    distance = np.linalg.norm((z[:10] - z[10:]) / [1.0, 2.0, 3.0], axis=1)
    np.testing.assert_allclose(kernel, np.exp(-((distance / 1.7) ** 2) / 2), atol=5 * np.sqrt(1.5 / 2000))


def test_linear_features_are_exact():
    s, u = RNG.normal(size=(5, N)), RNG.normal(size=(5, M))
    np.testing.assert_array_equal(compute_features(linear().build_map(N, M), s, u), np.hstack([s, u]))
    with_one = np.hstack([s, u, np.ones((5, 1))])
    np.testing.assert_array_equal(compute_features(linear(constant=True).build_map(N, M), s, u), with_one)


def test_declarations_are_compared_and_stored_by_name(declared):
    words = json.loads(json.dumps(declared.header))
    assert read_features(words, declared) == declared
    assert hash(read_features(words, declared)) == hash(declared)
    assert sum(declared == other for other in DECLARED.values()) == 1


def test_the_same_declaration_is_the_same_map():
    first, again = (fourier(8, seed=5).build_map(N, M) for _ in range(2))
    np.testing.assert_array_equal(first.frequencies, again.frequencies)
    np.testing.assert_array_equal(first.phases, again.phases)
    assert not np.array_equal(first.frequencies, fourier(8, seed=6).build_map(N, M).frequencies)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: fourier(0), bd.ModelError, "at least 1; got 0"),
        (lambda: fourier(bandwidth=-1.0), bd.ModelError, "positive number; got -1.0"),
        (lambda: fourier(scales=[1.0, 0.0]), bd.ModelError, "positive numbers"),
        (lambda: fourier(seed=-1), bd.ProblemError, "whole number"),
        (lambda: fourier(scales=[1.0, 2.0]).build_map(N, M), bd.ModelError, "5 in all"),
        (lambda: mapped(squares, True), bd.ModelError, "got True"),
        (lambda: mapped(squares, 5).build_map(N, M), bd.ModelError, r"it gives \(4,\)"),
        (lambda: read_features({"name": "mapped", "d": 4}), bd.ArchiveError, "give the same"),
        (lambda: read_features({"name": "mapped", "d": 3}, mapped(squares, 4)), bd.ArchiveError, "give the same"),
        (lambda: read_features({"name": "wavelets"}), bd.ArchiveError, "'wavelets'"),
    ],
)
def test_what_cannot_be_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
