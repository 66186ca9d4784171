"""Enclosures of atoms: they hold the values within a box, in more digits than the functions are computed with."""

import cvxpy as cp
import numpy as np
import pytest

from bidual.problem.modelling._enclosures import NoEnclosureError, enclose
from bidual.problem.modelling._functions import Functions
from bidual.problem.modelling._hulls import Hull

X = cp.Variable(4)
M = np.array([[1.0, -2.0, 0.5, 0.1], [0.3, 0.7, -0.1, 2.0]])
ANYWHERE = {
    "affine": 3 * cp.hstack([X[1:], -X[0]]) / 7 - 0.1 + M.T @ (M @ X),
    "sums": cp.sum(cp.reshape(X, (2, 2), order="C"), axis=0) + cp.cumsum(X)[2:] + cp.trace(cp.diag(X)),
    "abs": cp.abs(X),
    "norm": cp.norm(X),
    "norms": cp.norm(cp.reshape(X, (2, 2), order="C"), 2, axis=1),
    "norm1": cp.norm1(X),
    "norm_inf": cp.norm_inf(X),
    "3-norm": cp.pnorm(X, 3),
    "max": cp.max(X) + cp.sum_largest(X, 2.5) - cp.min(X) + cp.maximum(X, 0.1),
    "square": cp.square(X),
    "fourth": cp.power(X, 4),
    "over": cp.quad_over_lin(X, 2.0),
    "huber": cp.huber(X, 0.4),
    "exp": cp.exp(X),
    "logistic": cp.logistic(X),
    "log_sum_exp": cp.log_sum_exp(X),
}
POSITIVE = {
    "entr": cp.entr(X),
    "log": cp.log(X) + cp.log1p(X),
    "root": cp.sqrt(X),
    "1.7": cp.power(X, 1.7),
    "inverse": cp.inv_pos(X),
    "kl_div": cp.kl_div(X[:2], X[2:]),
    "rel_entr": cp.rel_entr(X[:2], X[2:]),
    "geo_mean": cp.geo_mean(X),
    "harmonic_mean": cp.harmonic_mean(X),
    "over itself": cp.quad_over_lin(X[:3], X[3]),
}


def _holds(expression, centre, radius, rng):
    low, high = centre - radius, centre + radius
    found = enclose(expression, {X.id: Hull(low, high)})
    widths = []
    for t in (np.zeros(4), np.ones(4), *rng.random((30, 4))):
        X.value = low + t * (high - low)
        value = np.asarray(expression.value)
        assert np.all(found.low <= value)
        assert np.all(value <= found.high)
        widths.append(value)
    return found.high - found.low, np.ptp(widths, axis=0)


@pytest.mark.parametrize("name", [*ANYWHERE, *POSITIVE])
def test_values_within_the_box_are_enclosed(name):
    rng = np.random.default_rng(7)
    expression = (ANYWHERE | POSITIVE)[name]
    for radius in (0.3, 1e-3, 1e-8, 0.0):
        for _ in range(5):
            centre = rng.random(4) + 0.4 if name in POSITIVE else rng.normal(size=4)
            width, _ = _holds(expression, centre, radius, rng)
            # To first order no wider than derivative times box: here derivatives are below 60.
            assert np.all(width <= 500 * radius + 1e-12)


@pytest.mark.parametrize("name", ["abs", "norm", "square", "fourth", "huber", "over", "norm1", "norm_inf", "3-norm"])
def test_at_a_kink_the_box_counts(name):
    found = enclose(ANYWHERE[name], {X.id: Hull(np.full(4, -1e-8), np.full(4, 1e-8))})
    X.value = np.full(4, 1e-8)
    assert np.all(found.high >= ANYWHERE[name].value)
    assert np.all(found.low <= 0)
    assert np.all(found.high > 0)


@pytest.mark.parametrize("name", ["entr", "log", "root", "kl_div", "rel_entr", "inverse", "over itself"])
def test_beyond_the_domain_nothing_is_bounded(name):
    found = enclose(POSITIVE[name], {X.id: Hull(np.full(4, -1e-3), np.full(4, 1.0))})
    unbounded = found.low if POSITIVE[name].is_concave() else found.high
    assert np.all(np.isinf(unbounded))


NEVER_NEGATIVE = {
    **{name: ANYWHERE[name] for name in ("abs", "norm", "norms", "norm1", "norm_inf", "3-norm", "square", "fourth")},
    **{name: ANYWHERE[name] for name in ("over", "huber", "exp", "logistic")},
    "kl_div": POSITIVE["kl_div"],
    "positive part": cp.pos(X),
    "sums": 0.1 * cp.sum(cp.abs(X)) + cp.sum(cp.huber(X, 1e-3)) / 3 + 2 * cp.square(cp.norm(X)),
    "products": np.array([[0.1, 0.3, 0.0, 7.0]]) @ cp.abs(X) + cp.cumsum(cp.square(X))[3],
    "negative twice": -(-0.1 * cp.abs(X)),
    "the largest": cp.sum_largest(cp.abs(X), 2.5) + cp.trace(cp.diag(cp.abs(X))),
}


@pytest.mark.parametrize("name", NEVER_NEGATIVE)
@pytest.mark.parametrize("size", [1e-9, 0.7, 1e12, np.inf])
def test_what_is_never_negative_has_no_negative_end(name, size):
    """Not even by a rounding, whatever the box is."""
    found = enclose(NEVER_NEGATIVE[name], {X.id: Hull(np.full(4, -size), np.full(4, size))})
    assert np.all(found.low >= 0)
    assert np.all(found.low == 0) or name in ("exp", "logistic")
    assert np.all(found.high > 0)


def test_what_is_never_positive_has_no_positive_end():
    box = {X.id: Hull(np.full(4, -0.3), np.full(4, 0.7))}
    for expression in (-0.1 * cp.abs(X), cp.abs(X) / -3.0, np.full((1, 4), -0.1) @ cp.abs(X), -cp.sum(cp.abs(X))):
        found = enclose(expression, box)
        assert np.all(found.high == 0)
        assert np.all(found.low < 0)


def test_an_atom_without_a_rule_is_enclosed_by_convexity():
    functions = Functions(cp.sum(cp.xexp(X)), (), (), (X,), ())
    with pytest.raises(NoEnclosureError):
        enclose(functions.objective, {X.id: Hull(np.ones(4), np.ones(4))})
    rng, centre, error = np.random.default_rng(3), np.array([0.5, 1.0, 2.0, 0.1]), np.array([1e-3, 0.0, 1e-8, 1e-2])
    low, high = functions.enclosures(centre, np.zeros(0), error)
    for _ in range(50):
        value, _ = functions.values(centre + error * rng.uniform(-1, 1, 4), np.zeros(0))
        assert low[0] <= value <= high[0]
