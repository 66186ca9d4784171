"""Smooth CVXPY expressions as JAX functions of the image, with gradients and Hessian-vector products.

Only atoms with a derivative everywhere that matters are in the table (a Euclidean norm has none at 0, where its
gradient is taken as 0). What is not in it is left to the cone form, which knows the subgradients at kinks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.unary_operators import NegExpression
from jax.experimental import sparse
from jaxtyping import Array, Float

from bidual._types import float64
from bidual.convex import AbstractSmooth
from bidual.problem._compile import affine_rows
from bidual.problem._functions import Functions

Lowered = Callable[[Array], Array]


@final
@dataclass(frozen=True, eq=False)
class Smooth(AbstractSmooth):
    """f and every row of g, compiled at first use."""

    rows: tuple[Lowered, ...]  # f, then g, each from the image to a number

    @float64
    def values(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "rows"]:
        """F and g."""
        return np.asarray(self._values(y))

    @float64
    def gradients(self, y: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows n"]]:
        """F and g with their gradients."""
        values, gradients = self._gradients(y)
        return np.asarray(values), np.asarray(gradients)

    @float64
    def curvature(
        self, row: int, y: Float[np.ndarray, "n"], directions: Float[np.ndarray, "k n"]
    ) -> Float[np.ndarray, "k n"]:
        """The Hessian of one row at y, applied to every direction."""
        return np.asarray(self._curvatures[row](y, directions))

    @cached_property
    def _values(self) -> Callable[..., Array]:
        return jax.jit(lambda y: jnp.stack([row(y) for row in self.rows]))

    @cached_property
    def _gradients(self) -> Callable[..., tuple[Array, Array]]:
        def both(y: Array) -> tuple[Array, Array]:
            pairs = [jax.value_and_grad(row)(y) for row in self.rows]
            return jnp.stack([value for value, _ in pairs]), jnp.stack([gradient for _, gradient in pairs])

        return jax.jit(both)

    @cached_property
    def _curvatures(self) -> tuple[Callable[..., Array], ...]:
        def along(row: Lowered) -> Callable[..., Array]:
            def one(y: Array, direction: Array) -> Array:
                return jax.jvp(jax.grad(row), (y,), (direction,))[1]

            return jax.jit(jax.vmap(one, in_axes=(None, 0)))

        return tuple(along(row) for row in self.rows)


@float64
def smooth(functions: Functions) -> Smooth | None:
    """The functions in JAX, or None where an atom is not smooth, or there are auxiliary variables."""
    if functions.auxiliary:
        return None
    starts = np.cumsum([0, *(v.size for v in functions.images)])
    where = {v.id: (int(start), v.shape) for v, start in zip(functions.images, starts[:-1], strict=True)}
    try:
        rows = [_lower(functions.objective, where)]
        for g in functions.constraints:
            lowered = _lower(g, where)
            rows += [_entry(lowered, i) for i in range(g.size)]
    except _NotSmooth:
        return None
    return Smooth((_entry(rows[0], 0), *rows[1:]))


class _NotSmooth(Exception):
    """An atom that is not in the table."""


def _entry(lowered: Lowered, i: int) -> Lowered:
    return lambda y: jnp.ravel(lowered(y), order="F")[i]


def _lower(expression: cp.Expression, where: dict[int, tuple[int, tuple[int, ...]]]) -> Lowered:
    if isinstance(expression, cp.Variable):
        start, shape = where[expression.id]
        return lambda y: jnp.reshape(y[start : start + int(np.prod(shape))], shape, order="F")
    if not expression.variables():
        value = np.asarray(expression.value, dtype=np.float64)
        return lambda y: jnp.asarray(value)
    if isinstance(expression, AffAtom) and expression.is_affine():
        return _affine(expression, where)
    arguments = [_lower(argument, where) for argument in expression.args]  # pyright: ignore[reportAttributeAccessIssue]
    for kind, rule in _RULES:
        if isinstance(expression, kind):
            function = rule(expression)
            return lambda y: function(*(argument(y) for argument in arguments))
    raise _NotSmooth(type(expression).__name__)


def _affine(expression: cp.Expression, where: dict[int, tuple[int, tuple[int, ...]]]) -> Lowered:
    """An affine expression of the image variables as one sparse product: no table of affine atoms is needed."""
    variables = expression.variables()
    matrix, offset = affine_rows(expression, variables)
    operators = []
    start = 0
    for variable in variables:
        block = sp.csr_array(matrix[:, start : start + variable.size])
        start += variable.size
        operators.append((where[variable.id][0], variable.size, _operator(block)))

    def apply(y: Array) -> Array:
        total = jnp.asarray(offset)
        for first, size, operator in operators:
            total = total + operator(y[first : first + size])
        return jnp.reshape(total, expression.shape, order="F")

    return apply


def _operator(block: sp.csr_array) -> Lowered:
    """The product with a sparse matrix, cheaply where it is a multiple of the identity."""
    rows, columns = block.shape or (0, 0)
    diagonal = block.diagonal()
    if rows == columns and block.nnz == np.count_nonzero(diagonal):
        return lambda v: jnp.asarray(diagonal) * v
    if rows * columns <= 10_000:
        dense = block.toarray()
        return lambda v: jnp.asarray(dense) @ v
    stored = sparse.BCSR.from_scipy_sparse(sp.csr_matrix(block))
    return lambda v: stored @ v


def _axis_sum(expression: Any) -> Callable[[Array], Array]:  # noqa: ANN401 - an atom with axis and keepdims
    return lambda v: jnp.sum(v, axis=expression.axis, keepdims=expression.keepdims)


def _norm(v: Array) -> Array:
    """The Euclidean norm, with gradient 0 at 0."""
    square = jnp.sum(v * v)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _xlogx(v: Array) -> Array:
    return jnp.where(v > 0, v * jnp.log(jnp.where(v > 0, v, 1.0)), jnp.where(v < 0, jnp.inf, 0.0))


def _relative(v: Array, w: Array) -> Array:
    return _xlogx(v) - v * jnp.log(w)


def _huber(expression: cp.huber) -> Callable[[Array], Array]:
    M = float(np.asarray(expression.M.value, dtype=np.float64))

    def apply(v: Array) -> Array:
        size = jnp.abs(v)
        return jnp.where(size <= M, v * v, 2 * M * size - M * M)

    return apply


def _power(expression: cp.Power) -> Callable[[Array], Array]:
    p = float(expression.get_data()[0])
    if p == 2:
        return lambda v: v * v
    if p <= 1:
        raise _NotSmooth("power")
    # The domain of other powers is v >= 0; their derivative at 0 is 0.
    return lambda v: jnp.where(v > 0, jnp.where(v > 0, v, 1.0) ** p, 0.0)


def _pnorm(expression: cp.Pnorm) -> Callable[[Array], Array]:
    if expression.get_data()[0] != 2 or expression.axis is not None:
        raise _NotSmooth("p-norm")
    return _norm


def _over_linear(expression: cp.quad_over_lin) -> Callable[[Array, Array], Array]:
    if expression.args[1].variables() or expression.axis is not None:
        raise _NotSmooth("quad_over_lin")
    return lambda v, w: jnp.sum(v * v) / w


def _log_sum_exp(expression: cp.log_sum_exp) -> Callable[[Array], Array]:
    return lambda v: jax.nn.logsumexp(v, axis=expression.axis, keepdims=expression.keepdims)


def _linear_atom(function: Callable[..., Array]) -> Callable[[Any], Callable[..., Array]]:
    return lambda expression: function


def _total(first: Array, *others: Array) -> Array:
    for other in others:
        first = first + other
    return first


def _product(expression: cp.multiply) -> Callable[[Array, Array], Array]:
    if all(argument.variables() for argument in expression.args):
        raise _NotSmooth("product")
    return lambda v, w: v * w


_RULES: Sequence[tuple[Any, Callable[[Any], Callable[..., Array]]]] = (
    (cp.Sum, _axis_sum),
    (cp.AddExpression, _linear_atom(_total)),
    (NegExpression, _linear_atom(jnp.negative)),
    (cp.multiply, _product),
    (DivExpression, _linear_atom(jnp.divide)),
    (Promote, lambda expression: lambda v: jnp.broadcast_to(v, expression.shape)),
    (cp.entr, _linear_atom(lambda v: -_xlogx(v))),
    (cp.kl_div, _linear_atom(lambda v, w: _relative(v, w) - v + w)),
    (cp.rel_entr, _linear_atom(_relative)),
    (cp.exp, _linear_atom(jnp.exp)),
    (cp.logistic, _linear_atom(jax.nn.softplus)),
    (cp.huber, _huber),
    (cp.log_sum_exp, _log_sum_exp),
    (cp.Power, _power),
    (cp.Pnorm, _pnorm),
    (cp.quad_over_lin, _over_linear),
    (cp.QuadForm, _linear_atom(lambda v, P: v @ P @ v)),
)
