"""Functions with an edge to their domain: CVXPY's values there, and derivatives that stay finite.

At the edge a function may have no derivative (the entropy at 0, the root at 0) or no finite value (the logarithm at
0). Every derivative here is the one at the nearest point whose entries are at least EDGE, and no steeper than STEEPEST.
Inside that is the derivative itself. At the edge it is a plane that touches the function EDGE away and supports it
there, so the subgradient inequality holds up to what the function changes in between: EDGE for the entropy (slope
137), sqrt(EDGE) for the root, (1 - p) EDGE^p for powers 0 < p < 1. Where the value is infinite nothing can be
supported, and the slope is merely finite. Outside their domains convex functions are +inf and concave ones -inf.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

EDGE = 1e-60
STEEPEST = 1e150  # the product of two slopes is still a number


def _attach_slopes(
    value: Callable[..., Array], slopes: Callable[..., tuple[Array, ...]], *, reduces: bool = False
) -> Callable[..., Array]:
    """Return a function with these derivatives, entry by entry; where it reduces, along the first axis."""

    @jax.custom_jvp
    def function(*arguments: Array) -> Array:
        return value(*arguments)

    @function.defjvp
    def _(arguments: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        terms = [slope * tangent for slope, tangent in zip(slopes(*arguments), tangents, strict=True)]
        total = jnp.sum(jnp.stack(terms), axis=0)
        return function(*arguments), jnp.sum(total, axis=0) if reduces else total

    return function


def _clip(v: Array) -> Array:
    return jnp.maximum(v, EDGE)


def _clip_slope(slope: Array) -> Array:
    return jnp.clip(slope, -STEEPEST, STEEPEST)


def _compute_xlogx(v: Array) -> Array:
    positive = v > 0
    return jnp.where(positive, v * jnp.log(jnp.where(positive, v, 1.0)), jnp.where(v < 0, jnp.inf, 0.0))


def _compute_relative(v: Array, w: Array) -> Array:
    inside = (v > 0) & (w > 0)
    logs = jnp.log(jnp.where(inside, v, 1.0)) - jnp.log(jnp.where(inside, w, 1.0))
    return jnp.where(inside, v * logs, jnp.where((v == 0) & (w >= 0), 0.0, jnp.inf))


def _differentiate_relative(v: Array, w: Array) -> tuple[Array, Array]:
    v, w = _clip(v), _clip(w)
    return jnp.log(v) - jnp.log(w) + 1.0, -v / w


def _compute_log(v: Array) -> Array:
    return jnp.where(v > 0, jnp.log(jnp.where(v > 0, v, 1.0)), -jnp.inf)


def _compute_square_over(v: Array, w: Array) -> Array:
    return jnp.where(w > 0, v * v / jnp.where(w > 0, w, 1.0), jnp.where((v == 0) & (w == 0), 0.0, jnp.inf))


def _differentiate_square_over(v: Array, w: Array) -> tuple[Array, Array]:
    ratio = v / _clip(w)
    return _clip_slope(2.0 * ratio), _clip_slope(-ratio * ratio)


x_log_x = _attach_slopes(_compute_xlogx, lambda v: (jnp.log(_clip(v)) + 1.0,))
relative_entropy = _attach_slopes(_compute_relative, _differentiate_relative)  # v log(v / w), and 0 at (0, 0)
log = _attach_slopes(_compute_log, lambda v: (1.0 / _clip(v),))
log_1p = _attach_slopes(
    lambda v: jnp.where(v > -1, jnp.log1p(jnp.where(v > -1, v, 0.0)), -jnp.inf), lambda v: (1.0 / _clip(1.0 + v),)
)
square_over = _attach_slopes(_compute_square_over, _differentiate_square_over)  # v^2 / w, and 0 at (0, 0)


def make_power_below_one(p: float) -> Callable[[Array], Array]:
    """Return v^p for p < 1 other than 0: concave for p > 0 on v >= 0, convex and infinite at 0 for p < 0."""

    def value(v: Array) -> Array:
        inside = v > 0
        at_zero, outside = (0.0, -jnp.inf) if p > 0 else (jnp.inf, jnp.inf)
        return jnp.where(inside, jnp.where(inside, v, 1.0) ** p, jnp.where(v < 0, outside, at_zero))

    return _attach_slopes(value, lambda v: (_clip_slope(p * _clip(v) ** (p - 1.0)),))


def make_concave_norm(p: float) -> Callable[[Float[Array, "n *rest"]], Float[Array, "*rest"]]:
    """Return (sum v_i^p)^(1/p) along the first axis, for p < 1 other than 0: concave, and 0 at 0."""

    def in_units(v: Array) -> tuple[Array, Array, Array]:
        # In units of the entry that counts most no power overflows.
        unit = jnp.max(v, axis=0, keepdims=True) if p > 0 else jnp.min(v, axis=0, keepdims=True)
        parts = v / unit
        return unit[0], parts, jnp.sum(parts**p, axis=0)

    def value(v: Array) -> Array:
        inside = jnp.all(v > 0, axis=0) if p < 0 else jnp.any(v > 0, axis=0)
        safe = jnp.where(inside[None], jnp.maximum(v, 0.0), 1.0)
        unit, _, total = in_units(safe)
        return jnp.where(jnp.any(v < 0, axis=0), -jnp.inf, jnp.where(inside, unit * total ** (1.0 / p), 0.0))

    def slopes(v: Array) -> tuple[Array]:
        _, parts, total = in_units(_clip(v))
        return (_clip_slope(parts ** (p - 1.0) * total[None] ** (1.0 / p - 1.0)),)

    return _attach_slopes(value, slopes, reduces=True)


def make_geometric_mean(
    weights: Float[np.ndarray, "n"],
) -> Callable[[Float[Array, "n *rest"]], Float[Array, "*rest"]]:
    """Return prod v_i^w_i along the first axis, for positive weights that sum to 1: concave, and 0 at the edge."""

    def broadcastable_weights(v: Array) -> Array:
        return jnp.reshape(jnp.asarray(weights, dtype=v.dtype), (-1,) + (1,) * (v.ndim - 1))

    def value(v: Array) -> Array:
        inside = jnp.all(v > 0, axis=0)
        logs = jnp.log(jnp.where(inside[None], v, 1.0))
        mean = jnp.exp(jnp.sum(broadcastable_weights(v) * logs, axis=0))
        return jnp.where(jnp.any(v < 0, axis=0), -jnp.inf, jnp.where(inside, mean, 0.0))

    def slopes(v: Array) -> tuple[Array]:
        logs = jnp.log(_clip(v))
        mean = jnp.sum(broadcastable_weights(v) * logs, axis=0, keepdims=True)
        return (_clip_slope(broadcastable_weights(v) * jnp.exp(mean - logs)),)

    return _attach_slopes(value, slopes, reduces=True)
