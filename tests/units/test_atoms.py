"""Trees in JAX against CVXPY itself: every atom of the table, affine atoms around them, kinks and edges of domains."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import cvxpy as cp
import jax
import numpy as np
import pytest

import bidual as bd
from bidual.problem.modelling._atoms import ATOMS
from bidual.problem.modelling._edges import EDGE
from bidual.problem.modelling._functions import Functions
from bidual.problem.modelling._lower import lower_to_jax, smooth
from tests.helpers import random_instance

ZERO = cp.Constant(0)

RNG = np.random.default_rng(7)
SQUARE = RNG.normal(size=(4, 4))
WIDE = RNG.normal(size=(2, 4))
SPARSE = cp.Constant(np.eye(4)[:2])
AGREEMENT = 1e-9  # values and gradients here are of order 1 to 100, and made of a dozen operations


class Case(NamedTuple):
    """An expression of x, with entries between low and high."""

    name: str
    build: Callable[[cp.Variable], cp.Expression]
    shape: tuple[int, ...] = (4,)
    low: float = -2.0
    high: float = 2.0
    smooth: bool = False
    twin: Callable[[cp.Variable], cp.Expression] | None = None  # the same, of atoms whose derivatives CVXPY has


ATOM_CASES = (
    Case("sum", lambda x: cp.sum(cp.exp(x)), smooth=True),
    Case("sum, axis", lambda x: cp.sum(cp.exp(x), axis=0), (2, 3), smooth=True),
    Case("sum, kept axis", lambda x: cp.sum(cp.exp(x), axis=1, keepdims=True), (2, 3), smooth=True),
    Case("add", lambda x: cp.exp(x) + cp.square(x) + 1.0, smooth=True),
    Case("negate", lambda x: -cp.exp(x), smooth=True),
    Case("multiply", lambda x: cp.multiply([1.0, 2.0, 0.0, 3.0], cp.exp(x)), smooth=True),
    Case("divide", lambda x: cp.exp(x) / 3.0, smooth=True),
    Case("promote", lambda x: cp.sum_squares(x) + np.arange(3.0), smooth=True),
    Case("entr", cp.entr, low=0.1, smooth=True),
    Case("kl_div", lambda x: cp.kl_div(x, [0.2, 0.5, 1.0, 2.0]), low=0.1, smooth=True),
    Case("kl_div, number", lambda x: cp.kl_div(x, 0.5), low=0.1, smooth=True),
    Case("kl_div, both", lambda x: cp.kl_div(x[:2], x[2:]), low=0.1, smooth=True),
    Case("rel_entr", lambda x: cp.rel_entr(x[:2], x[2:]), low=0.1, smooth=True),
    Case("exp", cp.exp, smooth=True),
    Case("logistic", cp.logistic, smooth=True),
    Case("huber", cp.huber, smooth=True),
    Case("huber, M", lambda x: cp.huber(x, 0.5), smooth=True),
    Case("log_sum_exp", cp.log_sum_exp, smooth=True),
    Case("log_sum_exp, axis", lambda x: cp.log_sum_exp(x, axis=1), (2, 3), smooth=True),
    Case("square", cp.square, smooth=True),
    Case("power 1", lambda x: cp.Power(x, 1), smooth=True, twin=lambda x: 1 * x),
    Case("power 4", lambda x: cp.power(x, 4), smooth=True),
    Case("power 3", lambda x: cp.power(x, 3), low=0.1, smooth=True),
    Case("power 1.5", lambda x: cp.power(x, 1.5), low=0.1, smooth=True),
    Case("power 0.25", lambda x: cp.power(x, 0.25), low=0.1),
    Case("power -2", lambda x: cp.power(x, -2), low=0.3),
    Case("sqrt", cp.sqrt, low=0.1),
    Case("inv_pos", cp.inv_pos, low=0.3),
    Case("norm", cp.norm),
    Case("norm, axis", lambda x: cp.norm(x, axis=1), (2, 3)),
    Case("3-norm", lambda x: cp.norm(x, 3)),
    Case("1.5-norm", lambda x: cp.pnorm(x, 1.5)),
    Case("0.5-norm", lambda x: cp.pnorm(x, 0.5), low=0.1),
    Case("-2-norm", lambda x: cp.pnorm(x, -2), low=0.1),
    Case("quad_over_lin", lambda x: cp.quad_over_lin(x, 3.0), smooth=True),
    Case("quad_over_lin, variable", lambda x: cp.quad_over_lin(x[1:], x[0]), low=0.3),
    Case(
        "quad_over_lin, axis",
        lambda x: cp.quad_over_lin(x, 2.0, axis=0),
        (2, 3),
        twin=lambda x: cp.hstack([cp.sum_squares(x[:, i]) / 2.0 for i in range(3)]),
    ),
    Case("quad_form", lambda x: cp.quad_form(x, SQUARE.T @ SQUARE), smooth=True),
    Case("abs", cp.abs),
    Case("norm1", cp.norm1),
    Case("norm1, axis", lambda x: cp.norm1(x, axis=0), (2, 3)),
    Case("norm_inf", cp.norm_inf, twin=lambda x: cp.max(cp.abs(x))),
    Case("norm_inf, axis", lambda x: cp.norm_inf(x, axis=1), (2, 3), twin=lambda x: cp.max(cp.abs(x), axis=1)),
    Case("max", cp.max),
    Case("max, axis", lambda x: cp.max(x, axis=0, keepdims=True), (2, 3)),
    Case("max, all axes", lambda x: cp.max(x, axis=(0, 1)), (2, 3)),
    Case("min", cp.min),
    Case("min, axis", lambda x: cp.min(x, axis=1), (2, 3)),
    Case("maximum", lambda x: cp.maximum(x, -x / 2, 0.3)),
    Case("pos", cp.pos),
    Case("minimum", lambda x: cp.minimum(x, 0.5, x / 3)),
    Case("sum_largest", lambda x: cp.sum_largest(x, 2)),
    Case("sum_largest, in part", lambda x: cp.sum_largest(x, 2.4)),
    Case("sum_largest, all", lambda x: cp.sum_largest(x, 9)),
    Case("sum_largest, axis", lambda x: cp.sum_largest(x, 2, axis=1), (2, 3)),
    Case("dotsort", lambda x: cp.dotsort(x, [0.1, 3.0, 1.0])),
    Case("cummax", cp.cummax, twin=lambda x: cp.hstack([cp.max(x[: i + 1]) for i in range(4)])),
    Case("log", cp.log, low=0.1),
    Case("log1p", cp.log1p, low=-0.9),
    Case("geo_mean", cp.geo_mean, low=0.1),
    Case("geo_mean, weights", lambda x: cp.geo_mean(x, [1, 0, 2, 1]), low=0.1),
    Case("geo_mean, one weight", lambda x: cp.geo_mean(x, [0, 0, 2, 0]), low=0.1, smooth=True),
    Case("geo_mean, matrix", lambda x: cp.geo_mean(x, [1, 2, 3, 4, 5, 6]), (2, 3), low=0.1),
    Case("xexp", lambda x: cp.xexp(cp.pos(x)), low=0.1),
)

COMPOSITIONS = (
    Case("index", lambda x: cp.exp(x)[1:3]),
    Case("index by list", lambda x: cp.abs(x)[[3, 0]]),
    Case("reshape", lambda x: cp.norm1(cp.reshape(cp.abs(x), (2, 2), order="C"), axis=0)),
    Case("transpose", lambda x: cp.max(cp.abs(x).T, axis=0), (2, 3)),
    Case("product from the left", lambda x: np.abs(WIDE) @ cp.abs(x)),
    Case("product from the right", lambda x: cp.exp(x) @ np.abs(SQUARE)),
    Case("product of matrices", lambda x: np.abs(WIDE[:, :2]) @ cp.square(x), (2, 3)),
    Case("product with a sparse matrix", lambda x: SPARSE @ cp.abs(x)),
    Case("stacks", lambda x: cp.max(cp.hstack([cp.abs(x), cp.norm(x), cp.vec(cp.vstack([x, x]), order="F")]))),
    Case("concatenate", lambda x: cp.concatenate([cp.exp(x), cp.abs(x)], axis=0)),
    Case("cumsum", lambda x: cp.cumsum(cp.abs(x))),
    Case("cumsum of x", lambda x: cp.square(cp.cumsum(x) - cp.sum(x)), smooth=True),
    Case("trace", lambda x: cp.trace(cp.square(x)), (3, 3)),
    Case("diag", lambda x: cp.diag(cp.abs(x)), (3, 3)),
    Case("diag of a vector", lambda x: cp.diag(cp.abs(x))),
    Case("upper_tri", lambda x: cp.upper_tri(cp.square(x)), (3, 3)),
    Case("broadcast", lambda x: cp.abs(x) + cp.reshape(cp.exp(x[:3]), (3, 1), order="F")),
    Case("three dimensions", lambda x: cp.max(cp.sum(cp.abs(x), axis=2), axis=0), (2, 2, 3)),
    Case("kron", lambda x: cp.kron(np.ones((2, 1)), cp.square(x)), (1, 2)),
    Case("mean of rows", lambda x: cp.norm(cp.mean(x, axis=0) - 0.3), (2, 3)),
    Case("log_sum_exp of squares", lambda x: cp.log_sum_exp(cp.square(x)), smooth=True),
    Case("max of norms", lambda x: cp.maximum(cp.norm(x[:2]), cp.norm1(x[2:]), cp.norm_inf(x)),
         twin=lambda x: cp.maximum(cp.norm(x[:2]), cp.norm1(x[2:]), cp.max(cp.abs(x)))),
    Case("huber of affine", lambda x: cp.sum(cp.huber(SQUARE @ x - 0.5)), smooth=True),
    Case("hinge", lambda x: cp.sum(cp.pos(1 - SQUARE @ x))),
    Case("squared distance to a ball", lambda x: cp.square(cp.pos(cp.norm(x - 3) - 1))),
    Case("distance in blocks", lambda x: cp.mixed_norm(x - 1, 2, 1), (2, 3)),
    Case("spread", lambda x: cp.std(x) + cp.ptp(x) + cp.var(x)),
    Case("tail", lambda x: cp.cvar(x, 0.6)),
    Case("variation", lambda x: cp.tv(x)),
    Case("harmonic mean", lambda x: cp.harmonic_mean(x), low=0.1),
    Case("inverse product", lambda x: cp.inv_prod(x), low=0.5),
    Case("smallest", lambda x: cp.sum_smallest(x, 2) - cp.norm(x)),
    Case("log of geo_mean", lambda x: cp.log(cp.geo_mean(x) + cp.min(x)), low=0.1),
    Case("two slopes", lambda x: cp.sum(cp.scalene(x, 2.0, 0.5))),
    Case("entropy of a mixture", lambda x: cp.sum(cp.entr(np.abs(SQUARE) @ x)), low=0.1, smooth=True),
    Case("large and sparse", lambda x: cp.norm1(cp.diff(x, k=1)), (150,)),
)  # fmt: skip


def _functions(case):
    x = cp.Variable(case.shape)
    return Functions(cp.sum(x), ((case.build(x), ZERO),), (False,), (x,), ()), x


def _compiled(rows):
    """Every row with its gradient, at a batch of points."""
    return jax.jit(jax.vmap(lambda y: [jax.value_and_grad(row)(y) for row in rows]))


def _numbers(rows, points):
    with jax.enable_x64(True):
        pairs = _compiled(rows)(points)
    return np.stack([value for value, _ in pairs], axis=1), np.stack([gradient for _, gradient in pairs], axis=1)


def _reference(expression, x, y):
    """The value and the gradient by CVXPY, as rows."""
    x.value = y.reshape(x.shape, order="F")
    jacobian = expression.grad[x]
    dense = jacobian.toarray() if hasattr(jacobian, "toarray") else np.asarray(jacobian)
    return np.ravel(expression.value, order="F"), dense.reshape(x.size, -1).T


def _assert_supported(expression, points, values, gradients, others, their_values):
    """F(z) >= f(x) + g . (z - x) at all pairs, the other way round for concave f."""
    sign = 1.0 if expression.is_convex() else -1.0
    assert expression.is_convex() or expression.is_concave()
    steps = others[None, :, :] - points[:, None, :]
    planes = values[:, None, :] + np.einsum("prn,pqn->pqr", gradients, steps)
    assert np.all(sign * (their_values[None] - planes) >= -AGREEMENT)


@pytest.mark.parametrize("case", ATOM_CASES + COMPOSITIONS, ids=lambda case: case.name)
def test_an_atom_is_what_cvxpy_says(case):
    functions, x = _functions(case)
    expression = functions.sides[0][0]
    points = np.random.default_rng(3).uniform(case.low, case.high, (5, x.size))
    result = lower_to_jax(functions)
    values, gradients = _numbers(result.rows[1:], points)
    judge = expression if case.twin is None else case.twin(x)
    for y, value, gradient in zip(points, values, gradients, strict=True):
        expected, slope = _reference(judge, x, y)
        np.testing.assert_allclose(value, expected, rtol=AGREEMENT, atol=AGREEMENT)
        np.testing.assert_allclose(gradient, slope, rtol=AGREEMENT, atol=AGREEMENT)
    _assert_supported(expression, points, values, gradients, points, values)
    assert (smooth(functions) is not None) == case.smooth


def _rules(expression):
    """The lines of the table that lowering an expression uses."""
    if isinstance(expression, cp.Variable) or not expression.variables() or expression.is_affine():
        return
    yield next((kind for kind in type(expression).__mro__ if kind in ATOMS), None)
    for argument in expression.args:
        yield from _rules(argument)


def test_every_atom_is_here():
    found = {rule for case in ATOM_CASES for rule in _rules(_functions(case)[0].constraints[0])}
    assert found == set(ATOMS)


# Points at kinks and edges, with the box that others are drawn from.
KINKS = (
    Case("abs", cp.abs),
    Case("norm1", cp.norm1),
    Case("norm", cp.norm),
    Case("norm, axis", lambda x: cp.norm(x, axis=1), (2, 2)),
    Case("norm_inf", cp.norm_inf),
    Case("3-norm", lambda x: cp.pnorm(x, 3)),
    Case("1.5-norm", lambda x: cp.pnorm(x, 1.5)),
    Case("max", cp.max),
    Case("min", cp.min),
    Case("maximum", lambda x: cp.maximum(x, -x, 0)),
    Case("minimum", lambda x: cp.minimum(x, 2 * x, 0)),
    Case("hinge", lambda x: cp.pos(x) + cp.neg(x)),
    Case("sum_largest", lambda x: cp.sum_largest(x, 2)),
    Case("sum_largest, in part", lambda x: cp.sum_largest(x, 1.5)),
    Case("dotsort", lambda x: cp.dotsort(x, [1.0, 2.0])),
    Case("cummax", cp.cummax),
    Case("huber", lambda x: cp.huber(x, 1)),
    Case("power 1.5", lambda x: cp.power(x, 1.5), low=0.0),
    Case("squared hinge", lambda x: cp.square(cp.pos(x))),
    Case("spread", lambda x: cp.std(x) + cp.ptp(x)),
    Case("norm of norms", lambda x: cp.norm(cp.hstack([cp.norm(x[:2]), cp.norm1(x[2:])]))),
    Case("entr", cp.entr, low=0.0),
    Case("kl_div", lambda x: cp.kl_div(x, [0.5, 1.0, 1.0, 2.0]), low=0.0),
    Case("rel_entr", lambda x: cp.rel_entr(x[:2], x[2:]), low=0.0),
    Case("sqrt", cp.sqrt, low=0.0),
    Case("power 0.25", lambda x: cp.power(x, 0.25), low=0.0),
    Case("0.5-norm", lambda x: cp.pnorm(x, 0.5), low=0.0),
    Case("-1-norm", lambda x: cp.pnorm(x, -1), low=0.0),
    Case("geo_mean", cp.geo_mean, low=0.0),
    Case("geo_mean of two", lambda x: cp.geo_mean(x[:2]), low=0.0),
    Case("quad_over_lin", lambda x: cp.quad_over_lin(x[:3], x[3]), low=0.0),
    Case("log1p of entropy", lambda x: cp.log1p(cp.entr(x)), low=0.0, high=1.0),
)
CORNERS = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1]], dtype=float)


@pytest.mark.parametrize("case", KINKS, ids=lambda case: case.name)
def test_kinks_and_edges_have_finite_subgradients(case):
    functions, x = _functions(case)
    expression = functions.sides[0][0]
    points = CORNERS if case.low == 0 else np.concatenate([CORNERS, -CORNERS, CORNERS - CORNERS[::-1]])
    others = np.random.default_rng(5).uniform(case.low, case.high, (40, x.size))
    rows = lower_to_jax(functions).rows[1:]
    values, gradients = _numbers(rows, np.concatenate([points, others]))
    values, gradients, their_values = values[: len(points)], gradients[: len(points)], values[len(points) :]
    assert np.all(np.isfinite(gradients))
    inside = np.all(np.isfinite(values), axis=1)
    assert inside.sum() >= 3
    points, values, gradients = points[inside], values[inside], gradients[inside]
    _assert_supported(expression, points, values, gradients, others, their_values)
    for y, value in zip(points, values, strict=True):
        x.value = y.reshape(x.shape, order="F")
        with np.errstate(all="ignore"):
            expected = np.asarray(expression.value).ravel(order="F")
        known = ~np.isnan(expected)  # CVXPY has no number for 0 / 0, whose closure is 0
        np.testing.assert_allclose(value[known], expected[known], atol=AGREEMENT)


@pytest.mark.parametrize(
    ("build", "infinite"),
    [
        (cp.log, -np.inf),
        (lambda x: cp.log1p(x - 1), -np.inf),
        (cp.inv_pos, np.inf),
        (lambda x: cp.power(x, -12), np.inf),
        (lambda x: cp.kl_div(1, x), np.inf),
        (lambda x: cp.quad_over_lin(cp.hstack([x, 1]), x), np.inf),
        (lambda x: cp.inv_prod(cp.hstack([x, 1, 1])), np.inf),
    ],
)
def test_slopes_are_finite_where_values_are_not(build, infinite):
    x = cp.Variable()
    functions = Functions(build(x), (), (), (x,), ())
    value, gradient = lower_to_jax(functions).gradients(np.zeros(1))
    assert value[0] == infinite
    assert np.isfinite(gradient).all()
    assert np.sign(gradient[0, 0]) == -np.sign(infinite)


@pytest.mark.parametrize(
    ("build", "infinite"),
    [
        (cp.entr, -np.inf),
        (cp.sqrt, -np.inf),
        (cp.log, -np.inf),
        (cp.inv_pos, np.inf),
        (lambda x: cp.kl_div(x, 1), np.inf),
    ],
)
def test_values_are_infinite_outside_the_domain(build, infinite):
    x = cp.Variable()
    value, gradient = lower_to_jax(Functions(build(x), (), (), (x,), ())).gradients(-np.ones(1))
    assert value[0] == infinite
    assert np.isfinite(gradient).all()


def test_the_slope_of_the_entropy_at_zero():
    x = cp.Variable()
    result = lower_to_jax(Functions(cp.entr(x), (), (), (x,), ()))
    assert result.gradients(np.zeros(1))[1][0, 0] == pytest.approx(-np.log(EDGE) - 1)
    assert result.gradients(np.full(1, 1e-50))[1][0, 0] == pytest.approx(-np.log(1e-50) - 1)


def test_curvature_is_finite_at_zero():
    x = cp.Variable(2)
    functions = Functions(-cp.sum(cp.entr(x)) + cp.norm(x), (), (), (x,), ())
    curvature = smooth(functions, norms=True).curvature(0, np.zeros(2), np.eye(2))
    assert np.isfinite(curvature).all()
    separate = Functions(-cp.sum(cp.entr(x)) + cp.kl_div(x[0], x[1]), (), (), (x,), ())
    hessian = smooth(separate).curvature(0, np.array([0.5, 0.25]), np.eye(2))
    np.testing.assert_allclose(hessian, [[2 + 2, -4], [-4, 4 + 8]], atol=AGREEMENT)


def test_numbers_are_double_whatever_the_caller_uses():
    x = cp.Variable(2)
    result = lower_to_jax(Functions(cp.norm1(x), ((cp.square(x), ZERO),), (False,), (x,), ()))
    y = np.array([1 + 1e-12, -1e-9])
    values, gradients = result.gradients(y)
    np.testing.assert_array_equal(values, result.values(y))
    np.testing.assert_allclose(values, [np.abs(y).sum(), *y**2], rtol=1e-15)
    assert values.dtype == gradients.dtype == np.float64
    np.testing.assert_array_equal(gradients, [[1, -1], [2 * y[0], 0], [0, 2 * y[1]]])


def test_several_images_lie_one_after_the_other():
    a, b = cp.Variable((2, 2)), cp.Variable(3)
    f = cp.norm1(a @ np.array([1.0, 2.0])) + cp.max(b)
    functions = Functions(f, ((cp.sum(a), cp.sum(b)),), (False,), (a, b), ())
    y = np.array([1.0, 2.0, 3.0, 4.0, 7.0, 6.0, 5.0])  # a by columns, then b
    values, gradients = lower_to_jax(functions).gradients(y)
    np.testing.assert_allclose(values, [1 + 6 + 2 + 8 + 7, 10 - 18])
    np.testing.assert_allclose(gradients, [[1, 1, 2, 2, 1, 0, 0], [1, 1, 1, 1, -1, -1, -1]])


def _problem(build):
    instance = random_instance(0, (6, 2, 3, 4))
    x = instance.embedding()
    return build(cp.sum(x, axis=0))


def test_parameters_are_those_of_the_moment():
    scale, target = cp.Parameter(nonneg=True, value=1.0, name="scale"), cp.Parameter(4, name="target", value=np.ones(4))
    bend = cp.Parameter(nonneg=True, value=0.5, name="bend")

    def build(totals):
        f = cp.norm1(totals - target) + cp.sum(cp.multiply(scale, cp.pos(totals))) + cp.sum(cp.huber(totals, bend))
        return bd.Problem(cp.Minimize(f), {"near": cp.norm(totals - target) <= scale})

    problem = _problem(build)
    before, program = problem._compiled.jax_functions(), problem.program()
    y = np.random.default_rng(0).normal(size=program.image.size)
    first = before.values(y)
    f, g = program.functions.values(y, np.zeros(0))
    np.testing.assert_allclose(first, [f, *g], atol=AGREEMENT)
    scale.value, target.value, bend.value = 3.0, np.zeros(4), 0.1
    np.testing.assert_array_equal(before.values(y), first)
    f, g = program.functions.values(y, np.zeros(0))
    np.testing.assert_allclose(first, [f, *g], atol=AGREEMENT)
    f, g = problem.program().functions.values(y, np.zeros(0))
    after = problem._compiled.jax_functions().values(y)
    np.testing.assert_allclose(after, [f, *g], atol=AGREEMENT)
    assert np.all(np.abs(after - first) > 0.01)


def _warning(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert call() is None
    (warning,) = caught
    assert warning.category is UserWarning
    return str(warning.message)


def test_an_unknown_atom_is_named():
    x, s = cp.Variable(2), cp.Variable(nonneg=True)
    odd = cp.perspective(cp.sum_squares(x), s)
    functions = Functions(cp.norm1(x), ((cp.norm(x), ZERO), (odd + cp.sum(x), ZERO)), (False, False), (x, s), ())
    assert "constraint 'risk' cannot" in _warning(lambda: lower_to_jax(functions, ["near", "risk"]))
    message = _warning(lambda: lower_to_jax(functions))
    assert "constraint 'c1' cannot" in message
    assert "the atom perspective" in message
    assert "evaluated by CVXPY instead" in message
    functions = Functions(odd, (), (), (x, s), ())
    assert _warning(lambda: lower_to_jax(functions)).startswith("the objective cannot")
    assert smooth(functions) is None  # quietly: the cone form is no worse


def test_an_auxiliary_variable_is_named():
    def build(totals):
        point = cp.Variable(4, name="point")
        return bd.Problem(cp.Minimize(cp.sum(totals)), {"set": cp.norm(totals - point) <= 1, "box": point <= 1})

    with pytest.warns(UserWarning, match="constraint 'set' cannot.*auxiliary variable 'point'.*minimisation") as caught:
        assert _problem(build)._compiled.jax_functions() is None
    assert len(caught) == 1


@pytest.mark.parametrize("limit", [0.5, 2.0])
def test_other_values_of_parameters_need_no_other_compilation(limit):
    mdp = bd.TabularMDP(np.full((60, 1, 60), 1 / 60), 0, horizon=2)
    x = mdp.embedding(total=True, visits=True)
    bound, target = cp.Parameter(name="bound", value=1.0), cp.Parameter(60, name="target", value=np.zeros(60))
    problem = bd.Problem(
        cp.Minimize(cp.sum_squares(x.visits - target)), {"norm": cp.norm(x.visits) <= bound, "first": x.visits[0] <= 1}
    )
    before = problem.program().smooth
    bound.value, target.value = limit, np.linspace(0.0, 1.0, 60)
    program = problem.program()
    assert program.smooth.smooth is before.smooth
    fresh = smooth(program.functions)  # with the parameters as constants
    y = np.random.default_rng(0).random(program.image.size)
    np.testing.assert_allclose(program.smooth.values(y), fresh.values(y), atol=1e-13)
    for mine, other in zip(program.smooth.gradients(y), fresh.gradients(y), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-13)
    along = np.eye(program.image.size)[:3]
    np.testing.assert_allclose(program.smooth.curvature(1, y, along), fresh.curvature(1, y, along), atol=1e-13)
    assert not np.allclose(before.values(y), fresh.values(y))


def test_a_parameter_that_enters_otherwise_is_a_constant():
    mdp = bd.TabularMDP(np.full((60, 1, 60), 1 / 60), 0, horizon=2)
    x, weight = mdp.embedding(total=True, visits=True), cp.Parameter(nonneg=True, name="weight", value=1.0)
    problem = bd.Problem(cp.Minimize(weight * cp.sum_squares(x.visits)))
    y = np.ones(problem.program().image.size)
    for value in (1.0, 3.0):
        weight.value = value
        assert problem.program().smooth.values(y)[0] == pytest.approx(value * y.size)
