"""CVXPY expressions as JAX functions of the image: values and gradients, and Hessian-vector products where smooth.

The traversal of expression trees. The atoms are in `_atoms`, the edges of their domains in `_edges`. Parameters enter
with their values at the time of the traversal.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.atom import Atom
from jaxtyping import Array, Float

from bidual._base.types import float64
from bidual.problem.convex import AbstractSmooth
from bidual.problem.modelling._atoms import find_rule
from bidual.problem.modelling._compile import extract_affine_rows
from bidual.problem.modelling._functions import Functions
from bidual.problem.modelling._smoothness import has_inner_kink, is_smooth

Part = Callable[[Float[Array, "n"]], Array]  # the value of a part of a tree, from the image
Row = Callable[[Float[Array, "n"]], Float[Array, ""]]


@final
@dataclass(frozen=True, eq=False)
class JaxFunctions:
    """f and every row of g, compiled at first use.

    A row is a pure function of the image, so `jax.jit`, `jax.vmap` and `jax.grad` apply. It needs double precision:
    call it under ``jax.enable_x64(True)``, as the methods do by themselves. Gradients are subgradients at kinks, and
    finite at the edge of a domain (see `_edges`).
    """

    rows: tuple[Row, ...]  # f, then g

    @float64
    def values(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "rows"]:
        """Evaluate f and g."""
        return np.asarray(self._values(y))

    @float64
    def gradients(self, y: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows n"]]:
        """Evaluate f and g with their gradients."""
        values, gradients = self._gradients(y)
        return np.asarray(values), np.asarray(gradients)

    @cached_property
    def _values(self) -> Callable[..., Array]:
        return jax.jit(lambda y: jnp.stack([row(y) for row in self.rows]))

    @cached_property
    def _gradients(self) -> Callable[..., tuple[Array, Array]]:
        def both(y: Array) -> tuple[Array, Array]:
            pairs = [jax.value_and_grad(row)(y) for row in self.rows]
            return jnp.stack([value for value, _ in pairs]), jnp.stack([gradient for _, gradient in pairs])

        return jax.jit(both)


@final
@dataclass(frozen=True, eq=False)
class Smooth(AbstractSmooth):
    """Lowered functions with second derivatives."""

    jax_functions: JaxFunctions

    def values(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "rows"]:
        """Evaluate f and g."""
        return self.jax_functions.values(y)

    def gradients(self, y: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows n"]]:
        """Evaluate f and g with their gradients."""
        return self.jax_functions.gradients(y)

    @float64
    def curvature(
        self, row: int, y: Float[np.ndarray, "n"], directions: Float[np.ndarray, "k n"]
    ) -> Float[np.ndarray, "k n"]:
        """Apply the Hessian of one row at y to every direction."""
        return np.asarray(self._curvatures[row](y, directions))

    @cached_property
    def _curvatures(self) -> tuple[Callable[..., Array], ...]:
        def along(row: Row) -> Callable[..., Array]:
            def one(y: Array, direction: Array) -> Array:
                return jax.jvp(jax.grad(row), (y,), (direction,))[1]

            return jax.jit(jax.vmap(one, in_axes=(None, 0)))

        return tuple(along(row) for row in self.jax_functions.rows)


@final
@dataclass(frozen=True, eq=False)
class SmoothAtParameters(AbstractSmooth):
    """Smooth functions of the image and of parameters, at given parameters: other values need no compilation."""

    smooth: Smooth
    parameters: Float[np.ndarray, "p"]

    def values(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "rows"]:
        """Evaluate f and g."""
        return self.smooth.values(self._with_parameters(y))

    def gradients(self, y: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows n"]]:
        """Evaluate f and g with their gradients."""
        values, gradients = self.smooth.gradients(self._with_parameters(y))
        return values, gradients[:, : y.size]

    def curvature(
        self, row: int, y: Float[np.ndarray, "n"], directions: Float[np.ndarray, "k n"]
    ) -> Float[np.ndarray, "k n"]:
        """Apply the Hessian of one row at y to every direction."""
        still = np.zeros((len(directions), self.parameters.size))
        along = np.concatenate([directions, still], axis=1)
        return self.smooth.curvature(row, self._with_parameters(y), along)[:, : y.size]

    def _with_parameters(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "np"]:
        return np.concatenate([y, self.parameters])


def lower_to_jax(functions: Functions, names: Sequence[str] | None = None) -> JaxFunctions | None:
    """Lower the functions to JAX; return None, with a warning and its reason, where CVXPY has to evaluate them instead.

    Args:
        functions: the functions to lower, at the parameters' present values.
        names: of the constraints, for the warning; ``c0, c1, ...`` if not given.
    """
    named = [f"constraint {name!r}" for name in names or [f"c{i}" for i in range(len(functions.constraints))]]
    rows: list[Row] = []
    where = _find_places(functions.images)
    for what, expression in zip(("the objective", *named), (functions.objective, *functions.constraints), strict=True):
        try:
            rows += _lower_rows(expression, where)
        except _NotLowered as reason:
            warnings.warn(
                f"{what} cannot be compiled with JAX: {reason}. The whole problem is evaluated by CVXPY instead, "
                "one point at a time",
                UserWarning,
                stacklevel=2,
            )
            return None
    return JaxFunctions(tuple(rows))


def smooth(functions: Functions, parameters: Sequence[cp.Variable] = (), *, norms: bool = False) -> Smooth | None:
    """Lower the functions to JAX; return None where one has a kink that matters, or there are auxiliary variables.

    Args:
        functions: the functions to lower.
        parameters: the images that stand for parameters, at no particular values.
        norms: whether Euclidean norms count as smooth wherever they are, though they have a kink at 0.
    """
    if functions.auxiliary or not is_smooth(functions.objective, norms):
        return None
    if not all(is_smooth(g, norms) or has_inner_kink(g, parameters) for g in functions.constraints):
        return None
    where = _find_places(functions.images)
    expressions = (functions.objective, *functions.constraints)
    return Smooth(JaxFunctions(tuple(row for expression in expressions for row in _lower_rows(expression, where))))


class _NotLowered(Exception):
    """A tree that cannot be lowered, with the reason."""


def _find_places(images: Sequence[cp.Variable]) -> dict[int, slice]:
    """Return the slice of every variable in the image vector, by id."""
    ends = np.cumsum([0, *(v.size for v in images)]).tolist()
    return {v.id: slice(*ends_of) for v, ends_of in zip(images, pairwise(ends), strict=True)}


def _lower_rows(expression: cp.Expression, where: Mapping[int, slice]) -> list[Row]:
    part = _lower_tree(expression, where)

    def entry(i: int) -> Row:
        return lambda y: jnp.ravel(part(y), order="F")[i]

    return [entry(i) for i in range(expression.size)]


def _lower_tree(expression: cp.Expression, where: Mapping[int, slice]) -> Part:
    """Lower an expression to a function of the image, by the rules of its atoms."""
    if isinstance(expression, cp.Variable):
        if expression.id not in where:
            raise _NotLowered(
                f"the best value of the auxiliary variable {expression.name()!r} needs a minimisation of its own"
            )
        place = where[expression.id]
        return lambda y: jnp.reshape(y[place], expression.shape, order="F")
    if not expression.variables():
        value = _read_constant(expression)
        return lambda y: jnp.asarray(value)
    rule = find_rule(expression)
    if isinstance(expression, AffAtom) and (rule is None or expression.is_affine()):
        return _lower_affine(expression, where)
    if rule is None:
        raise _NotLowered(f"bidual does not know the atom {type(expression).__name__}")
    arguments = [_lower_tree(argument, where) for argument in _list_arguments(expression)]
    function = rule.lower(expression)
    return lambda y: function(*(argument(y) for argument in arguments))


def _lower_affine(expression: AffAtom, where: Mapping[int, slice]) -> Part:
    """Lower an affine function of nonlinear parts to one sparse product for each, without a table of affine atoms."""
    parts: dict[cp.Variable, Part] = {}
    outer = _cut_outer(expression, where, parts)
    matrix, offset = extract_affine_rows(outer, list(parts))
    ends = np.cumsum([0, *(v.size for v in parts)]).tolist()
    blocks = [_make_operator(sp.csr_array(matrix[:, i:j])) for i, j in pairwise(ends)]

    def apply(y: Array) -> Array:
        total = jnp.asarray(offset)
        for operator, part in zip(blocks, parts.values(), strict=True):
            total = total + operator(jnp.ravel(part(y), order="F"))
        return jnp.reshape(total, expression.shape, order="F")

    return apply


def _cut_outer(expression: cp.Expression, where: Mapping[int, slice], parts: dict[cp.Variable, Part]) -> cp.Expression:
    """Return the affine atoms at the top of a tree, over variables that stand for the subtrees, added to `parts`."""
    if not expression.variables():
        return expression
    if isinstance(expression, AffAtom):
        return expression.copy([_cut_outer(argument, where, parts) for argument in expression.args])
    known = isinstance(expression, cp.Variable)
    variable = expression if known else cp.Variable(expression.shape)
    if variable not in parts:
        parts[variable] = _lower_tree(expression, where)
    return variable


def _make_operator(block: sp.csr_array) -> Callable[[Float[Array, "c"]], Float[Array, "r"]]:
    """Return the product with a sparse matrix, elementwise where that is diagonal."""
    rows, columns = block.shape or (0, 0)
    diagonal = block.diagonal()
    if rows == columns and block.nnz == np.count_nonzero(diagonal):
        return lambda v: jnp.asarray(diagonal) * v
    if rows * columns <= 10_000:
        dense = block.toarray()
        return lambda v: jnp.asarray(dense) @ v
    entries = sp.coo_array(block)

    def apply(v: Array) -> Array:  # three times as fast as JAX's own sparse matrices
        products = jnp.asarray(entries.data) * v[entries.col]
        return jax.ops.segment_sum(products, entries.row, rows, indices_are_sorted=True)

    return apply


def _list_arguments(expression: cp.Expression) -> Sequence[cp.Expression]:
    return expression.args if isinstance(expression, Atom) else ()


def _read_constant(expression: cp.Expression) -> np.ndarray:
    """Return the value of a constant as a dense array; CVXPY keeps sparse matrices sparse."""
    value = expression.value
    assert value is not None  # a parameter without one is refused before
    return np.asarray(sp.coo_array(value).toarray() if sp.issparse(value) else value, dtype=np.float64)
