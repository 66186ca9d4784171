"""What every convex function must obey on its set: Fenchel and Young, scaling, biconjugation, subgradients."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bidual.problem.convex import AbstractFunction, Box, ConeFunction, Function, NegativeEntropy, Product, Simplex
from bidual.problem.convex._check import sample
from tests.functions import CASES, CLOSED, SEARCHED, as_cvxpy, functions, rules, sets, zoo

ROUNDING = 1e-12  # relative, for closed forms: some thousand roundings
CONE = 2e-7  # what a cone solver's eight digits leave, relative
SEARCH = 1e-9  # where the search for a maximiser stops, with room for its own rounding
FEW = settings(max_examples=4, phases=(Phase.explicit, Phase.generate))
MANY = settings(max_examples=60, phases=(Phase.explicit, Phase.generate))


@pytest.fixture(params=CASES, ids=lambda case: f"{case[1]} on {case[0]}")
def f(request):
    return zoo()[request.param]


@pytest.fixture(params=CLOSED, ids=lambda case: f"{case[1]} on {case[0]}")
def closed(request):
    return request.param[1], zoo()[request.param]


def _digits(f):
    return {ConeFunction: CONE, Function: SEARCH}.get(type(f), ROUNDING)


def _room(f, slope, scale):
    """What the function's digits are worth for numbers of this size."""
    return _digits(f) * (float(np.abs(slope) @ f.K.reach) + scale * (1.0 + f.largest))


def _slopes(f, rng):
    """Steep, flat, none, with ties, and the subgradients at points of K."""
    n = f.K.size
    yield rng.normal(size=n)
    yield 0.1 * rng.normal(size=n)
    if isinstance(f, Function):
        return  # a search takes its time
    yield 30.0 * rng.normal(size=n)
    yield np.zeros(n)
    yield np.round(rng.normal(size=n))
    yield f.gradient(sample(f.K, rng))


def _fenchel_young(f, slope, scale, rng, points=200):
    x, bound = f.conjugate_argmax(slope, scale), f.conjugate(slope, scale)
    room = _room(f, slope, scale)
    assert f.K.contains(x, 1e-9)
    reached = float(slope @ x) - scale * f.value(x)
    assert reached - room <= bound <= reached + room
    digits = _digits(f) * scale * (1.0 + f.largest)
    for _ in range(points):
        y = sample(f.K, rng)
        assert float(slope @ y) - scale * f.value(y) <= bound + digits


def test_every_implementation_is_here():
    assert {type(f) for f in zoo().values()} == set(AbstractFunction.__subclasses__())


def test_fenchel_young_with_equality_at_the_maximiser(f):
    rng = np.random.default_rng(1)
    fast = not isinstance(f, ConeFunction | Function)
    for i, slope in enumerate(_slopes(f, rng)):
        _fenchel_young(f, slope, 1.0, rng, 3 if i else 200 if fast else 20)
    for scale in (0.03, 1e-6, 20.0) if fast else (1e-3,):
        _fenchel_young(f, rng.normal(size=f.K.size), scale, rng, 3)


def test_scaling(f):
    """Conjugate(c a, c) = c conjugate(a, 1): the perspective without its division."""
    rng = np.random.default_rng(2)
    for scale, slope in zip((0.25, 3.0, 1e-5, 100.0), _slopes(f, rng), strict=False):
        scaled, one = f.conjugate(scale * slope, scale), f.conjugate(slope)
        assert abs(scaled - scale * one) <= 2 * scale * _room(f, slope, 1.0)


def test_biconjugation_on_k(f):
    """f(x) = max over slopes of slope.x - conjugate(slope), reached at the subgradient; no other slope exceeds it."""
    rng = np.random.default_rng(3)
    for x in (sample(f.K, rng), f.K.center):
        value, g = f.value(x), f.gradient(x)
        room = _room(f, g, 1.0)
        assert abs(float(g @ x) - f.conjugate(g) - value) <= room + 2 * _digits(f) * float(np.abs(g).max())
        for slope in (rng.normal(size=x.size), g + 0.1 * rng.normal(size=x.size)):
            assert float(slope @ x) - f.conjugate(slope) <= value + _room(f, slope, 1.0)


def test_subgradients_at_kinks_and_on_the_boundary(f):
    rng = np.random.default_rng(4)
    n = f.K.size
    kinks = [getattr(f, field) for field in ("target", "center", "lower") if hasattr(f, field)]
    inside = [f.K.project(np.maximum(kink, -9.0)) for kink in kinks]
    vertices = [f.K.maximiser(slope) for slope in (*np.eye(n), *-np.eye(n))]
    size = 1.0 + f.largest
    for x in [*inside, *vertices, f.K.center, f.conjugate_argmax(np.zeros(n))]:
        g, value = f.gradient(x), f.value(x)
        assert np.all(np.isfinite(g))
        for _ in range(3 if isinstance(f, ConeFunction) else 20):
            y = sample(f.K, rng)
            room = _digits(f) * (size + float(np.abs(g) @ np.abs(y - x)))
            assert f.value(y) >= value + float(g @ (y - x)) - room


def test_gradients_are_finite_differences_where_there_is_no_kink(f):
    """At a random point inside; forward and backward differences must agree for the point to count."""
    rng, n = np.random.default_rng(5), f.K.size
    step = 1e-4 if isinstance(f, ConeFunction) else 1e-6
    x = 0.7 * f.K.center + 0.3 * sample(f.K, rng)
    for direction in (rng.normal(size=n), *np.eye(n)[:2]):
        ahead, here, back = f.value(x + step * direction), f.value(x), f.value(x - step * direction)
        forward, backward = (ahead - here) / step, (here - back) / step
        slope = float(f.gradient(x) @ direction)
        # Between the two slopes by convexity, up to curvature and the digits of the values.
        room = 4e-16 * (1.0 + f.largest) / step + (1e-4 if isinstance(f, ConeFunction) else 1e-8)
        assert backward - room <= slope <= forward + room
        if forward - backward <= 1e-3:
            assert abs(slope - 0.5 * (ahead - back) / step) <= 1e-3


def test_constants_bound_values_and_slopes(f):
    rng, room = np.random.default_rng(6), _digits(f) * (1.0 + f.largest)
    for _ in range(10 if isinstance(f, ConeFunction) else 100):
        x, y = sample(f.K, rng), sample(f.K, rng)
        assert abs(f.value(x)) <= f.largest + room
        if not isinstance(f, NegativeEntropy):
            assert abs(f.value(x) - f.value(y)) <= f.lipschitz * float(np.linalg.norm(x - y)) + room


def test_the_apex(f):
    """Below 1e-9 every point is a maximiser: the tie is returned, or the center; the bound still holds."""
    tie = f.K.maximiser(np.ones(f.K.size))
    nothing, slope = np.zeros(f.K.size), np.linspace(-1.0, 1.0, f.K.size)
    for scale in (0.0, 5e-10):
        np.testing.assert_array_equal(f.conjugate_argmax(nothing, scale, tie=tie), tie)
        np.testing.assert_array_equal(f.conjugate_argmax(nothing, scale), f.K.center)
        x = f.K.maximiser(slope)
        assert f.conjugate(slope, scale) >= float(slope @ x) - scale * f.value(x)
    assert f.conjugate(nothing, 0.0) == 0.0


def test_closed_forms_against_a_cone_solver(closed):
    name, f = closed
    rng = np.random.default_rng(7)
    x = cp.Variable(f.K.size)
    slope, scale = cp.Parameter(f.K.size), cp.Parameter(nonneg=True)
    problem = cp.Problem(cp.Maximize(slope @ x - scale * as_cvxpy(name, f, x)), rules(f.K, x))
    for value in (rng.normal(size=f.K.size), np.zeros(f.K.size), 5.0 * rng.normal(size=f.K.size)):
        slope.value, scale.value = value, 0.8
        problem.solve(cp.CLARABEL, ignore_dpp=True)
        # 1e-8 is Clarabel's own accuracy, relative; a hundred times that is asked for.
        assert abs(f.conjugate(value, 0.8) - problem.value) <= 1e-6 * (1.0 + abs(problem.value))


def _check_random_instance(seed, n, kind, round_digits, exponent):
    """Sizes, degenerate numbers and scales of every order: closed forms keep their digits."""
    rng = np.random.default_rng(seed)
    box = Box(np.round(-rng.random(n), round_digits), np.round(rng.random(n), round_digits))
    simplex = Simplex(n, 0.3 + round(float(rng.random()), round_digits))
    K = {"box": box, "simplex": simplex, "product": Product((simplex, box, Simplex(1, 0.5)))}[kind]
    for name, f in functions(K, seed).items():
        if name.startswith(SEARCHED):
            continue
        scale = 10.0**exponent
        for slope in (np.round(rng.normal(size=K.size), round_digits), f.gradient(sample(K, rng))):
            _fenchel_young(f, slope, scale, rng, 3)


INSTANCES = (
    st.integers(0, 100_000),
    st.integers(1, 7),
    st.sampled_from(["box", "simplex", "product"]),
    st.sampled_from([0, 1, 15]),
    st.floats(-9.0, 3.0),
)


@given(*INSTANCES)
@FEW
def test_random_instances(seed, n, kind, round_digits, exponent):
    _check_random_instance(seed, n, kind, round_digits, max(exponent, -8.99))


@pytest.mark.slow
@given(*INSTANCES)
@MANY
def test_more_random_instances(seed, n, kind, round_digits, exponent):
    _check_random_instance(seed, n, kind, round_digits, max(exponent, -8.99))


@given(st.integers(0, 100_000), st.sampled_from(sorted(sets())), st.floats(-3.0, 4.0))
@settings(max_examples=40)
def test_projections_obey_the_optimality_conditions(seed, kind, exponent):
    """p is the projection of x iff no point of K is on the far side: (x - p).(y - p) <= 0 for every y in K."""
    K, rng = sets()[kind], np.random.default_rng(seed)
    x = 10.0**exponent * rng.normal(size=K.size)
    p = K.project(x)
    assert K.contains(p, 1e-12)
    size = float(np.abs(x) @ K.reach) + float(K.reach @ K.reach)
    assert K.support(x - p) - float((x - p) @ p) <= 1e-12 * size
    np.testing.assert_allclose(K.project(p), p, atol=1e-15 * (1.0 + float(K.reach.max())))


@pytest.mark.parametrize("kind", sets())
def test_projections_against_a_quadratic_program(kind):
    K, rng = sets()[kind], np.random.default_rng(8)
    y = cp.Variable(K.size)
    for _ in range(3):
        x = 2.0 * rng.normal(size=K.size)
        problem = cp.Problem(cp.Minimize(cp.sum_squares(y - x)), rules(K, y))
        problem.solve(cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
        # The distance is exact to the gap; a gap of 1e-12 leaves 1e-6 in the point itself.
        assert abs(float(np.sum((K.project(x) - x) ** 2)) - problem.value) <= 1e-9
