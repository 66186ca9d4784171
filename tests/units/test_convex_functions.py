"""Sets and convex functions one by one: numbers worked out by hand, and every kind of bad input."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import bidual as bd
from bidual.problem.convex import (
    Affine,
    Box,
    ConeFunction,
    Cones,
    ConicForm,
    Distance,
    DistanceToBall,
    DistanceToBox,
    Function,
    MaxAffine,
    NegativeEntropy,
    Product,
    Simplex,
    SquaredDistance,
    check_convex,
)
from bidual.problem.convex._check import sample
from tests.functions import sets, zoo

SQUARE = Box(np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
TRIANGLE = Simplex(3, 1.0)
TWO, THREE = np.zeros(2), np.zeros(3)


# --- sets ------------------------------------------------------------------------------------------------------------


def test_diameters_and_centers():
    assert SQUARE.diameter == pytest.approx(math.sqrt(8.0))
    assert Simplex(4, 2.0).diameter == pytest.approx(2.0 * math.sqrt(2.0))
    assert Simplex(1, 2.0).diameter == 0.0
    assert Product((SQUARE, Simplex(2, 1.0))).diameter == pytest.approx(math.sqrt(10.0))
    np.testing.assert_array_equal(Product((SQUARE, Simplex(2, 1.0))).center, [0.0, 0.0, 0.5, 0.5])


@pytest.mark.parametrize("kind", sets())
def test_no_two_points_are_farther_apart_than_the_diameter(kind):
    K, rng = sets()[kind], np.random.default_rng(0)
    points = [K.maximiser(rng.normal(size=K.size)) for _ in range(60)]
    distances = [float(np.linalg.norm(x - y)) for x in points for y in points]
    assert max(distances) == pytest.approx(K.diameter)
    t = rng.normal(size=K.size)
    assert max(float(np.linalg.norm(x - t)) for x in points) == pytest.approx(K.farthest(t))


@pytest.mark.parametrize("kind", sets())
def test_points_of_a_set_are_contained_and_others_not(kind):
    K, rng = sets()[kind], np.random.default_rng(1)
    assert K.contains(K.center)
    assert all(K.contains(sample(K, rng), 1e-12) for _ in range(20))
    assert not K.contains(K.center + 3.0)
    assert not K.contains(np.full(K.size, np.nan))
    assert K.contains(K.center + 1e-4, 1e-3)


def test_projections_by_hand():
    np.testing.assert_allclose(TRIANGLE.project(np.array([1.0, 1.0, 0.0])), [0.5, 0.5, 0.0])
    np.testing.assert_allclose(TRIANGLE.project(np.array([5.0, 0.0, 0.0])), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(SQUARE.project(np.array([0.3, -7.0])), [0.3, -1.0])


def test_a_small_step_keeps_its_digits():
    """1e-30 beyond a point of size 1: the difference of two numbers would be 0."""
    move, target = np.array([2e-30, 0.0, 1e-30]), np.array([0.25, 0.25, 0.5])
    _, excess = TRIANGLE.nearest(move, target, target)
    np.testing.assert_allclose(excess, [1e-30, -1e-30, 0.0], atol=1e-45)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Box(np.zeros(4), np.array([1.0, 1.0, 1.0, np.inf])),
            "compact: its bound on entry 3 is inf; give finite",
        ),
        (lambda: Box(np.array([0.0, np.nan]), np.ones(2)), "compact: its bound on entry 1 is nan"),
        (lambda: Box(np.array([0.0, 2.0]), np.ones(2)), r"K is empty: its bounds on entry 1 are 2.0 <= x <= 1.0"),
        (lambda: Box(np.zeros(0), np.zeros(0)), "no entries"),
        (lambda: Simplex(3, 0.0), "mass of a simplex must be positive and finite; got 0.0"),
        (lambda: Simplex(3, np.inf), "mass of a simplex must be positive and finite; got inf"),
        (lambda: Simplex(0, 1.0), "at least one entry; got size 0"),
        (lambda: Product(()), "product of no sets"),
        (lambda: SQUARE.project(THREE), r"x must be a vector of 2 numbers; got an array of shape \(3,\)"),
        (lambda: SQUARE.project(np.array([0.0, np.nan])), "x must be finite; entry 1 is nan"),
        (lambda: SQUARE.maximiser(THREE), "the slope must be a vector of 2 numbers"),
        (lambda: TRIANGLE.maximiser(np.array([np.inf, 0.0, 0.0])), "the slope must be finite; entry 0 is inf"),
        (lambda: Affine(THREE, 0.0, SQUARE), "the weights must be a vector of 2 numbers"),
        (lambda: Affine(TWO, np.nan, SQUARE), "the constant must be finite"),
        (lambda: MaxAffine(np.zeros((2, 3)), TWO, SQUARE), r"\(2, 2\), and at least one row; got shape \(2, 3\)"),
        (lambda: MaxAffine(np.full((2, 2), np.nan), TWO, SQUARE), r"W must be finite; entry \(0, 0\) is nan"),
        (lambda: Distance(THREE, SQUARE), "the target must be a vector of 2 numbers"),
        (lambda: Distance(np.array([np.nan, 0.0]), SQUARE), "the target must be finite; entry 0 is nan"),
        (lambda: SquaredDistance(TWO, SQUARE, 0.0), "the weight must be a finite positive number; got 0.0"),
        (lambda: DistanceToBox(np.ones(2), TWO, SQUARE), "the box is empty: its bounds on entry 0 are 1.0 and 0.0"),
        (lambda: DistanceToBall(TWO, -1.0, SQUARE), "the radius must be a finite non-negative number; got -1.0"),
        (lambda: NegativeEntropy(SQUARE), "needs a simplex, or a product of simplices; got a Box"),
        (lambda: Distance(TWO, SQUARE).value(THREE), "x must be a vector of 2 numbers"),
        (lambda: Distance(TWO, SQUARE).gradient(np.array([np.nan, 0.0])), "x must be finite"),
        (lambda: Distance(TWO, SQUARE).conjugate(THREE), "the slope must be a vector of 2 numbers"),
        (lambda: Distance(TWO, SQUARE).conjugate(TWO, -1.0), "the scale of a conjugate must be a finite non-negative"),
        (lambda: Distance(TWO, SQUARE).conjugate_argmax(TWO, 0.0, tie=np.full(2, np.nan)), "tie must be finite"),
        (lambda: Function(jnp.sum, SQUARE, lipschitz=-1.0), "the Lipschitz constant must be a finite non-negative"),
        (lambda: Function(lambda x: 2.0 * x, SQUARE), r"must be one number; got an array of shape \(2,\)"),
        (lambda: Function(jnp.sum, SQUARE).lipschitz, "without a Lipschitz constant.*lipschitz=..."),
    ],
)
def test_bad_input_is_refused_with_its_place(make, message):
    with pytest.raises(bd.ProblemError, match=message):
        make()


def test_integers_are_refused_with_a_remedy():
    """Without the type checker of the tests they would reach NumPy as they are."""
    from bidual.problem.convex._vectors import check_vector

    with pytest.raises(bd.ProblemError, match=r"must hold floats; got int64; convert it with .astype\(float\)"):
        check_vector(np.array([1, 2]), 2, "x")


# --- functions -------------------------------------------------------------------------------------------------------


def test_conjugates_by_hand():
    """On [-1, 1]^2: |x|* is 0 inside the unit ball; x^2 * at 1 is 1/4; the entropy's is log-sum-exp."""
    assert Distance(TWO, SQUARE).conjugate(np.array([0.6, 0.6])) == pytest.approx(0.0, abs=1e-14)
    assert Distance(TWO, SQUARE).conjugate(np.array([2.0, 0.0])) == pytest.approx(1.0)
    assert SquaredDistance(TWO, SQUARE).conjugate(np.array([1.0, 0.0])) == pytest.approx(0.25)
    assert DistanceToBall(TWO, 0.5, SQUARE).conjugate(np.array([0.5, 0.0])) == pytest.approx(0.25)
    assert DistanceToBox(-np.ones(2) / 4, np.ones(2) / 4, SQUARE).conjugate(np.array([0.5, 0.0])) == pytest.approx(
        0.125
    )
    slope = np.array([0.1, -0.4, 2.0])
    expected = math.log(float(np.exp(slope).sum()))
    assert NegativeEntropy(TRIANGLE, 1.0).conjugate(slope) == pytest.approx(expected, abs=1e-13)


def test_a_maximiser_at_the_farthest_corner_is_found():
    """There the root is at the end of its interval, and rounding once put it beyond."""
    f = DistanceToBox(
        np.array([0.12996164, 0.06497045]),
        np.array([0.27996164, 0.21497045]),
        Box(np.array([-0.41332016, -0.9767921]), np.array([0.50565383, 0.65429726])),
    )
    for scale in np.logspace(-8.0, -1.0, 50):
        x = f.conjugate_argmax(np.array([-0.76808593, -2.09872712]), float(scale))
        np.testing.assert_array_equal(x, f.K.lower)


def test_the_entropy_has_finite_slopes_at_zero_and_no_lipschitz_constant():
    f = NegativeEntropy(TRIANGLE, 2.0)
    assert np.all(np.isfinite(f.gradient(np.array([1.0, 0.0, 0.0]))))
    assert f.value(np.array([1.0, 0.0, 0.0])) == 0.0
    assert f.lipschitz == math.inf
    assert "follow the leader" in " ".join((NegativeEntropy.__doc__ or "").lower().split())


def _form(h):
    """|y - 1| as a cone form: min u with u >= y - 1 and u >= 1 - y; `h` are the constants of the rows."""
    G_y, G_u = np.array([[1.0], [-1.0]]), np.array([[-1.0], [-1.0]])
    from scipy.sparse import csc_array, csr_array

    cones = Cones(0, 2, (), 0, ())
    return ConicForm(
        np.zeros(1), np.ones(1), 0.0, csr_array(G_y), csc_array(G_u), h, cones, np.full(2, -1), np.zeros(2)
    )


def test_a_cone_form_by_hand():
    f = ConeFunction(_form(np.array([1.0, -1.0])), Box(np.array([-3.0]), np.array([2.0])))
    assert f.value(np.array([-1.0])) == pytest.approx(2.0, abs=1e-8)
    assert f.gradient(np.array([-1.0])) == pytest.approx(np.array([-1.0]), abs=1e-8)
    assert f.lipschitz == pytest.approx(1.0, abs=1e-5)
    assert f.conjugate(np.array([0.5])) == pytest.approx(0.5, abs=1e-7)
    with pytest.raises(bd.ProblemError, match="the cone form has 1 images, and K has 2 entries"):
        ConeFunction(_form(np.zeros(2)), SQUARE)


def test_a_square_in_cone_form_is_no_steeper_than_its_values_around_allow(monkeypatch):
    """The steepest place of K is declared there; where there are too many corners it must be."""
    f = zoo()[("box", "cone square")]
    assert f.lipschitz == f.declared
    assert f.declared <= ConeFunction(f.form, f.K).lipschitz <= 6 * f.declared
    monkeypatch.setattr("bidual.problem.convex._cone_function._MOST_CORNERS", 0)
    with pytest.raises(bd.ProblemError, match=r"grows without bound in direction 0.*declared=..."):
        _ = ConeFunction(f.form, f.K).lipschitz


def test_a_given_gradient_is_used_where_jax_has_none():
    def norm(x):
        return jnp.sqrt(jnp.sum(x**2))

    with pytest.raises(bd.ProblemError, match=r"gradient is not finite at x = \[0. 0.\]; give a subgradient"):
        Function(norm, SQUARE, lipschitz=1.0).gradient(TWO)
    helped = Function(norm, SQUARE, 1.0, lambda x: x / jnp.maximum(jnp.sqrt(jnp.sum(x**2)), 1e-30))
    np.testing.assert_array_equal(helped.gradient(TWO), TWO)
    check_convex(helped)


def test_a_search_that_stops_early_still_proves_its_bound(monkeypatch):
    """One step and no cutting planes: looser than the truth, never below it."""
    f = Function(lambda x: jnp.sum(x**4) + jnp.sum(jnp.abs(x)), SQUARE, lipschitz=12.0)
    slope = np.array([1.5, -2.5])
    exact = f.conjugate(slope)
    monkeypatch.setattr("bidual.problem.convex._search._STEPS", 1)
    monkeypatch.setattr("bidual.problem.convex._search._ROUNDS", 0)
    assert f.conjugate(slope) >= exact - 1e-9


# --- check_convex ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in zoo() if case[0] in ("simplices", "box")], ids=str)
def test_the_check_accepts_what_is_right(case):
    check_convex(zoo()[case], samples=10)


@pytest.mark.parametrize(
    ("value", "lipschitz", "message"),
    [
        (lambda x: -jnp.sum(x**2), 4.0, r"not convex: between x = \[.*with f\(x\) = .*above their mean"),
        (lambda x: jnp.sum(x**2), 0.5, r"Lipschitz constant 0.5 is too small: f = .*which is a slope of"),
        (lambda x: jnp.sum(jnp.log(x)), 1.0, r"the function is (nan|-inf) at x = \[.*finite on all of K"),
        (lambda x: jnp.sum(jnp.sin(3.0 * x)), 9.0, "not convex"),
    ],
)
def test_the_check_prints_a_counterexample(value, lipschitz, message):
    with pytest.raises(bd.ProblemError, match=message):
        bd.check_convex(Function(value, SQUARE, lipschitz=lipschitz))


def test_the_check_finds_a_wrong_gradient():
    wrong = Function(lambda x: jnp.sum(x**2), SQUARE, 4.0, lambda x: -2.0 * x)
    with pytest.raises(bd.ProblemError, match="its gradient is wrong: the tangent at x"):
        check_convex(wrong)


def test_the_check_needs_samples():
    with pytest.raises(bd.ProblemError, match="at least one sample; got samples=0"):
        check_convex(Distance(TWO, SQUARE), samples=0)
