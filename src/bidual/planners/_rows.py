"""The cheapest law of every row: min P . W over the laws P that a confidence set allows.

**Ball** {KL(phat || P) <= radius}. With m the least W over all possible successors, d = W - m and y > 0,

    A(y) = sum_k phat_k log(1 + d_k y),   B(y) = sum_k phat_k / (1 + d_k y),

the law P_k = exp(A - radius) phat_k / (1 + d_k y), with what is missing to 1 on the cheapest successor, lies in the
ball and pays m + exp(A - radius) (1 - B) / y, and no law in the ball pays less than m + (exp(A - radius) - 1) / y: a
bound for every y, whether or not the search for the best one has ended. The two meet where A + log B = radius, or as y
grows without end. A + log B is nearly quadratic in y at first and linear in log y later, so Newton's method is applied
to its root against y where it is small, and to itself against log y where it is large.

**Box** {low <= P <= high}: start from `low` and give what is missing to 1 to the cheapest successors first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bidual.models import Ball, Box

_TOLERANCE = 1e-12  # of the gap between the two values of a row, relative to the range of W
_STEPS = 40
_LARGE = 0.1  # from here on A + log B counts as linear in log y


class Choice(NamedTuple):
    """The least payment of every row and the law that pays it."""

    bound: Float[Array, "A R"]
    law: Float[Array, "K A R"]


def cheapest(rows: Ball | Box, W: Float[Array, "K A R"]) -> Choice:
    """The cheapest law of every row. A successor beyond the set's own lists, if there is one, comes last in W."""
    return _in_box(rows, W) if isinstance(rows, Box) else _in_ball(rows, W)


def _in_ball(rows: Ball, W: Float[Array, "K A R"]) -> Choice:
    phat, radius = rows.frequencies, rows.radius
    if W.shape[0] > phat.shape[0]:
        phat = jnp.concatenate([phat, jnp.zeros_like(W[:1])])
    # A successor of a known row that is not listed is impossible.
    possible = (radius > 0)[None] | (phat > 0)
    least = jnp.min(jnp.where(possible, W, jnp.inf), axis=0)
    d = jnp.where(possible, W - least[None], 0.0)
    spread = jnp.max(jnp.where(phat > 0, d, 0.0), axis=0)
    searched = jnp.isfinite(radius) & (radius > 0) & (spread > 0)
    eps = jnp.where(searched, radius, 1.0)
    y = _search(phat, d, eps, spread, searched)
    A, B, _, _ = _parts(phat, d, y)
    share = jnp.minimum(jnp.exp(A - eps), 1.0 / B)
    mean = jnp.sum(phat * d, axis=0)
    bound = jnp.where(searched, jnp.expm1(A - eps) / y, jnp.where(radius == 0, mean, 0.0))
    law = jnp.where(searched[None], share[None] * phat / (1 + d * y[None]), jnp.where(radius == 0, 1.0, 0.0) * phat)
    rest = jnp.maximum(0.0, 1 - jnp.sum(law, axis=0))
    first = jnp.argmin(jnp.where(possible, W, jnp.inf), axis=0)
    law = law + jnp.where(jnp.arange(W.shape[0])[:, None, None] == first[None], rest[None], 0.0)
    return Choice(least + bound, law)


def _parts(
    phat: Float[Array, "K A R"], d: Float[Array, "K A R"], y: Float[Array, "A R"]
) -> tuple[Float[Array, "A R"], Float[Array, "A R"], Float[Array, "A R"], Float[Array, "A R"]]:
    """A, B, A + log B and y times its derivative."""
    u = 1 + d * y[None]
    A = jnp.sum(phat * jnp.log(u), axis=0)
    tilted = phat / u
    B = jnp.sum(tilted, axis=0)
    moved = tilted * (d * y[None])
    slope = jnp.sum(moved, axis=0) - jnp.sum(moved / u, axis=0) / B
    return A, B, jnp.maximum(A + jnp.log(B), 0.0), slope


def _search(
    phat: Float[Array, "K A R"],
    d: Float[Array, "K A R"],
    eps: Float[Array, "A R"],
    spread: Float[Array, "A R"],
    searched: Array,
) -> Float[Array, "A R"]:
    """Y with A + log B = eps, as nearly as it takes, or very large where it stays below."""
    cap = 1e13 / jnp.where(spread > 0, spread, 1.0)
    mean = jnp.sum(phat * d, axis=0)
    variance = jnp.sum(phat * d * d, axis=0) - mean**2
    target = jnp.sqrt(2 * eps)
    first = jnp.minimum(target / jnp.sqrt(jnp.maximum(variance, 1e-30 * spread**2 + 1e-300)), cap)

    def step(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, y, _ = now
        _, _, f, slope = _parts(phat, d, y)
        root = jnp.sqrt(2 * f)
        safe = jnp.maximum(slope, 1e-300)
        near = 1 + (target - root) * root / safe
        far = jnp.exp(jnp.clip((eps - f) / safe, -9.0, 9.0))
        factor = jnp.where(slope > 1e-15, jnp.where(f > _LARGE, far, near), 1e4)
        y_next = jnp.minimum(y * jnp.clip(factor, 0.1, 1e4), cap)
        gap = jnp.abs(jnp.expm1(f - eps)) / (y * jnp.maximum(spread, 1e-300))
        open_ = searched & (gap > _TOLERANCE) & (y < cap)
        return count + 1, jnp.where(open_, y_next, y), jnp.any(open_)

    def unfinished(now: tuple[Array, Array, Array]) -> Array:
        return now[2] & (now[0] < _STEPS)

    return jax.lax.while_loop(unfinished, step, (jnp.array(0), first, jnp.array(True)))[1]


def _in_box(rows: Box, W: Float[Array, "K A R"]) -> Choice:
    low, high = rows.low, rows.high
    if W.shape[0] > low.shape[0]:
        low = jnp.concatenate([low, jnp.zeros_like(W[:1])])
        high = jnp.concatenate([high, rows.elsewhere[None]])
    order = jnp.argsort(W, axis=0)
    room = jnp.take_along_axis(high - low, order, axis=0)
    before = jnp.cumsum(room, axis=0) - room
    given = jnp.clip(1 - jnp.sum(low, axis=0)[None] - before, 0.0, room)
    law = low + jnp.take_along_axis(given, jnp.argsort(order, axis=0), axis=0)
    return Choice(jnp.sum(law * W, axis=0), law)
