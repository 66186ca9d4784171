"""The atoms that bidual knows as JAX functions, one line each in `ATOMS`.

At a kink every derivative is a subgradient of the atom: 0 for norms and absolute values at 0, that of one maximiser
for maxima and of k entries for sums of the k largest. Edges of domains are the matter of `_edges`. Affine atoms need
no line: `_lower` makes a matrix of each. Those that are here all the same are cheaper without one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.atom import Atom
from jaxtyping import Array, Float

from bidual.problem.modelling import _edges

Lowering = Callable[..., Array]  # from the values of an atom's arguments to its own


@final
@dataclass(frozen=True, eq=False)
class Rule:
    """The lowering of an atom, and whether it has the derivatives that the proximal player needs."""

    lower: Callable[[Any], Lowering]  # from the atom, which holds its axis or exponent
    smooth: Callable[[Any], bool]


def find_rule(expression: cp.Expression) -> Rule | None:
    """Return the rule of an atom; CVXPY's approximations by rational exponents are subclasses."""
    found = (ATOMS[kind] for kind in type(expression).__mro__ if kind in ATOMS)
    return next(found, None)


def _smooth(function: Lowering) -> Rule:
    return Rule(lambda atom: function, lambda atom: True)


def _mark_nonsmooth(function: Lowering) -> Rule:
    return Rule(lambda atom: function, lambda atom: False)


def _reduce_along(atom: Any, function: Callable[[Float[Array, "n *rest"]], Float[Array, "*rest"]]) -> Lowering:  # noqa: ANN401 - any atom with an axis
    """Apply a reduction of the first axis along the axes of an atom, in CVXPY's order of entries."""

    def apply(v: Array) -> Array:
        axes = tuple(range(v.ndim)) if atom.axis is None else tuple(np.atleast_1d(atom.axis).tolist())
        moved = jnp.moveaxis(v, axes, range(len(axes)))
        entries = jnp.reshape(moved, (-1, *moved.shape[len(axes) :]), order="F")
        return jnp.reshape(function(entries), atom.shape)

    return apply


def _compute_largest(v: Float[Array, "n *rest"]) -> Float[Array, "*rest"]:
    """Return the maximum, with the derivative of the first maximiser."""
    return jnp.take_along_axis(v, jnp.argmax(v, axis=0)[None], axis=0)[0]


def _compute_norm(v: Float[Array, "n *rest"]) -> Float[Array, "*rest"]:
    square = jnp.sum(v * v, axis=0)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _lower_convex_norm(p: float) -> Lowering:
    """Return the function (sum |v|^p)^(1/p) along the first axis, for p > 1."""

    def apply(v: Float[Array, "n *rest"]) -> Float[Array, "*rest"]:
        size = jnp.abs(v)
        # Norms are homogeneous, so any fixed unit is right; in this one no power overflows.
        unit = jax.lax.stop_gradient(jnp.max(size, axis=0, keepdims=True))
        unit = jnp.where(unit > 0, unit, 1.0)
        total = jnp.sum((size / unit) ** p, axis=0)
        return unit[0] * jnp.where(total > 0, jnp.where(total > 0, total, 1.0) ** (1.0 / p), 0.0)

    return apply


def _lower_pnorm(atom: cp.Pnorm) -> Lowering:
    p = float(atom.get_data()[0])
    if p == 2:
        return _reduce_along(atom, _compute_norm)
    return _reduce_along(atom, _lower_convex_norm(p) if p > 1 else _edges.make_concave_norm(p))


def _sum_largest(atom: cp.sum_largest) -> Lowering:
    def apply(v: Float[Array, "n *rest"]) -> Float[Array, "*rest"]:
        k = min(float(atom.k), float(v.shape[0]))
        whole = int(np.ceil(k))
        largest = jax.lax.top_k(jnp.moveaxis(v, 0, -1), whole)[0]
        # The last entry counts in part where k is not whole.
        return jnp.sum(largest, axis=-1) - (whole - k) * largest[..., -1]

    return _reduce_along(atom, apply)


def _lower_sorted_product(atom: cp.dotsort) -> Lowering:
    def apply(v: Array, w: Array) -> Array:
        padded = jnp.zeros(v.size, v.dtype).at[: w.size].set(jnp.ravel(w))
        return jnp.sort(jnp.ravel(v)) @ jnp.sort(padded)

    return apply


def _lower_running_largest(atom: cp.cummax) -> Lowering:
    (axis,) = np.atleast_1d(0 if atom.axis is None else atom.axis).tolist()
    return lambda v: jax.lax.cummax(v, axis=axis % v.ndim)


def _lower_geometric_mean(atom: cp.GeoMean) -> Lowering:
    kept = np.flatnonzero(atom._keep)  # entries of weight 0 have no part in it, and no domain
    mean = _edges.make_geometric_mean(np.array([float(w) for w in atom.w]))
    return _reduce_along(atom, (lambda v: v[kept[0]]) if kept.size == 1 else (lambda v: mean(v[kept])))


def _lower_power(atom: cp.Power) -> Lowering:
    """Lower v^p on CVXPY's domain for this p."""
    p = float(np.asarray(atom.p.value, dtype=np.float64))
    if p == 0:
        return jnp.ones_like
    if p == 2:
        return lambda v: v * v
    if p >= 1 and p == int(p) and int(p) & (int(p) - 1) == 0:  # CVXPY takes 1, 4, 8, ... as defined everywhere
        return lambda v: v ** int(p)
    if p < 1:
        return _edges.make_power_below_one(p)
    # The domain of other powers is v >= 0; their derivative at 0 is 0, and so is all that is beyond.
    return lambda v: jnp.where(v > 0, jnp.where(v > 0, v, 1.0) ** p, 0.0)


def _lower_huber(atom: cp.huber) -> Lowering:
    M = float(np.asarray(atom.M.value, dtype=np.float64))

    def apply(v: Array) -> Array:
        size = jnp.abs(v)
        return jnp.where(size <= M, v * v, 2 * M * size - M * M)

    return apply


def _lower_over_linear(atom: cp.quad_over_lin) -> Lowering:
    def apply(v: Array, w: Array) -> Array:
        terms = _edges.square_over(v, jnp.broadcast_to(jnp.reshape(w, ()), v.shape))
        return jnp.reshape(jnp.sum(terms, axis=atom.axis), atom.shape)

    return apply


def _compute_quadratic(v: Array, P: Array) -> Array:
    return jnp.ravel(v) @ P @ jnp.ravel(v)


def _lower_total(first: Array, *others: Array) -> Array:
    for other in others:
        first = first + other
    return first


def _pick(better: Callable[[Array, Array], Array]) -> Rule:
    """Return the rule for the best of several arguments entry by entry, with the derivative of one of them."""

    def lower(atom: Atom) -> Lowering:
        def apply(*arguments: Array) -> Array:
            first, *others = (jnp.broadcast_to(argument, atom.shape) for argument in arguments)
            for other in others:
                first = jnp.where(better(other, first), other, first)
            return first

        return apply

    return Rule(lower, lambda atom: False)


def _lower_entrywise(function: Lowering) -> Rule:
    """Return the rule for a smooth elementwise function of arguments of one shape, or numbers."""

    def lower(atom: Atom) -> Lowering:
        return lambda *arguments: function(*(jnp.broadcast_to(argument, atom.shape) for argument in arguments))

    return Rule(lower, lambda atom: True)


def _lower_reduction(function: Callable[..., Array], smooth: bool) -> Rule:
    """Return the rule for a JAX function with `axis` and `keepdims` arguments."""
    return Rule(lambda atom: lambda v: function(v, axis=atom.axis, keepdims=atom.keepdims), lambda atom: smooth)


def _has_smooth_power(atom: cp.Power) -> bool:
    return float(np.asarray(atom.p.value, dtype=np.float64)) > 1


def is_euclidean(expression: cp.Expression) -> bool:
    """Return whether an expression is the Euclidean norm of all entries of its argument."""
    return isinstance(expression, cp.Pnorm) and expression.get_data()[0] == 2 and expression.axis is None


def _is_quadratic(atom: cp.quad_over_lin) -> bool:
    return not atom.args[1].variables() and atom.axis is None


def _is_scaling(atom: cp.multiply) -> bool:
    return not all(argument.variables() for argument in atom.args)


ATOMS: Mapping[type, Rule] = MappingProxyType(
    {
        cp.Sum: _lower_reduction(jnp.sum, True),
        cp.AddExpression: _smooth(_lower_total),
        NegExpression: _smooth(jnp.negative),
        cp.multiply: Rule(lambda atom: jnp.multiply, _is_scaling),
        DivExpression: _smooth(jnp.divide),
        Promote: Rule(lambda atom: lambda v: jnp.broadcast_to(v, atom.shape), lambda atom: True),
        cp.entr: _smooth(lambda v: -_edges.x_log_x(v)),
        cp.kl_div: _lower_entrywise(lambda v, w: _edges.relative_entropy(v, w) - v + w),
        cp.rel_entr: _lower_entrywise(_edges.relative_entropy),
        cp.exp: _smooth(jnp.exp),
        cp.logistic: _smooth(jax.nn.softplus),
        cp.huber: Rule(_lower_huber, lambda atom: True),
        cp.log_sum_exp: _lower_reduction(jax.nn.logsumexp, True),
        cp.Power: Rule(_lower_power, _has_smooth_power),
        cp.quad_over_lin: Rule(_lower_over_linear, _is_quadratic),
        cp.QuadForm: _smooth(_compute_quadratic),
        # Kinks, or unbounded slopes near an edge: the cone form handles those better than a Newton step.
        cp.abs: _mark_nonsmooth(jnp.abs),
        cp.Pnorm: Rule(_lower_pnorm, lambda atom: False),
        cp.norm1: Rule(lambda atom: _reduce_along(atom, lambda v: jnp.sum(jnp.abs(v), axis=0)), lambda atom: False),
        cp.norm_inf: Rule(lambda atom: _reduce_along(atom, lambda v: _compute_largest(jnp.abs(v))), lambda atom: False),
        cp.max: Rule(lambda atom: _reduce_along(atom, _compute_largest), lambda atom: False),
        cp.min: Rule(lambda atom: _reduce_along(atom, lambda v: -_compute_largest(-v)), lambda atom: False),
        cp.maximum: _pick(jnp.greater),
        cp.minimum: _pick(jnp.less),
        cp.sum_largest: Rule(_sum_largest, lambda atom: False),
        cp.dotsort: Rule(_lower_sorted_product, lambda atom: False),
        cp.cummax: Rule(_lower_running_largest, lambda atom: False),
        cp.log: _mark_nonsmooth(_edges.log),
        cp.log1p: _mark_nonsmooth(_edges.log_1p),
        cp.GeoMean: Rule(_lower_geometric_mean, lambda atom: False),
        cp.xexp: _mark_nonsmooth(lambda v: v * jnp.exp(v)),
    }
)
