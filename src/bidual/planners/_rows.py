"""The cheapest law of every row: min P . W over the laws P that a confidence set allows.

**Ball** {KL(phat || P) <= radius}. With m the least W over all possible successors, d = W - m and y > 0,

    A(y) = sum_k phat_k log(1 + d_k y),   B(y) = sum_k phat_k / (1 + d_k y),

the law P_k = exp(A - radius) phat_k / (1 + d_k y), with the rest of the mass on the cheapest successor, lies in the
ball and costs m + exp(A - radius) (1 - B) / y, and no law in the ball costs less than m + (exp(A - radius) - 1) / y,
a bound for every y, whether or not the search for the best one has ended. The two meet where f = A + log B equals the
radius, or as y grows without end. log f is nearly linear in log y while y is small and bends slowly later: Halley's
method on it takes three or four steps.

**Box** {low <= P <= high}: start from `low` and give the rest of the mass to the cheapest successors first.

**Near** {sum (P - centre)+ <= gain}: the cheapest successor gets the gain, and the others, from the cheapest to the
dearest, their mass under the centre until none is left.
"""

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bidual.models import BallRows, BoxRows, NearRows
from bidual.planners._passes import UNROLL

_TOLERANCE = 1e-3  # of the last move of y: the next would be its cube, and the value errs by the square of that
_STEPS = 40


class RowChoice(NamedTuple):
    """The least cost of every row and the law that attains it."""

    bound: Float[Array, "A R"]
    law: Float[Array, "K A R"]


def choose_cheapest(rows: BallRows | BoxRows | NearRows, W: Float[Array, "K A R"]) -> RowChoice:
    """Compute the cheapest law of every row. A successor beyond the set's lists, if any, comes last in W."""
    if isinstance(rows, BallRows):
        return _choose_in_ball(rows, W)
    return _choose_in_box(rows, W) if isinstance(rows, BoxRows) else _choose_near(rows, W)


def _choose_in_ball(rows: BallRows, W: Float[Array, "K A R"]) -> RowChoice:
    """Minimise P . W over {n KL(phat, P) <= radius} for every row: a bound and a law."""
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
    A, B, *_ = _expand_parts(phat, d, y)
    share = jnp.minimum(jnp.exp(A - eps), 1.0 / B)
    mean = _sum(phat * d)
    bound = jnp.where(searched, jnp.expm1(A - eps) / y, jnp.where(radius == 0, mean, 0.0))
    plain = jnp.where(jnp.isfinite(radius)[None], phat, 0.0)
    law = jnp.where(searched[None], share[None] * phat / (1 + d * y[None]), plain)
    rest = jnp.maximum(0.0, 1 - _sum(law))
    first = jnp.argmin(jnp.where(possible, W, jnp.inf), axis=0)
    law = law + jnp.where(jnp.arange(W.shape[0])[:, None, None] == first[None], rest[None], 0.0)
    return RowChoice(least + bound, law)


def _sum(terms: Float[Array, "K A R"]) -> Float[Array, "A R"]:
    """Sum over the successors, term by term where they are few: XLA then makes one loop of a whole formula."""
    if terms.shape[0] > UNROLL:
        return jnp.sum(terms, axis=0)
    return reduce(jnp.add, list(terms))


def _expand_parts(phat: Float[Array, "K A R"], d: Float[Array, "K A R"], y: Float[Array, "A R"]) -> tuple[Array, ...]:
    """Compute A, B, f = A + log B, and the first two derivatives of f by log y."""
    A = _sum(phat * jnp.log1p(d * y[None]))
    r = 1 / (1 + d * y[None])
    tilted, w = phat * r, 1 - r
    B, moved = _sum(tilted), tilted * w
    N = _sum(moved)
    first = _sum(phat * w) - N / B
    second = N - _sum(moved * (1 - 2 * w)) / B - (N / B) ** 2
    return A, B, A + jnp.log(B), first, second


def _search(
    phat: Float[Array, "K A R"],
    d: Float[Array, "K A R"],
    eps: Float[Array, "A R"],
    spread: Float[Array, "A R"],
    searched: Array,
) -> Float[Array, "A R"]:
    """Solve A + log B = eps for y, to the tolerance; very large where it stays below eps."""
    cap = 1e13 / jnp.where(spread > 0, spread, 1.0)
    first = jnp.minimum(_choose_first(phat, d, eps, spread), cap)

    def step(y: Float[Array, "A R"]) -> Float[Array, "A R"]:
        _, _, f, first, second = _expand_parts(phat, d, y)
        # Halley's method for log f = log eps in log y. Where f underflows, y is too small.
        off = jnp.log(jnp.maximum(f, 1e-300) / eps)
        slope = first / jnp.maximum(f, 1e-300)
        bend = second / jnp.maximum(f, 1e-300) - slope**2
        below = 2 * slope**2 - off * bend
        move = jnp.where((f > 1e-14) & (below > 0), -2 * off * slope / jnp.maximum(below, 1e-300), 9.0)
        return jnp.minimum(y * jnp.exp(jnp.clip(move, -2.0, 9.0)), cap)

    def unfinished(now: tuple[Array, Array, Array]) -> Array:
        count, before, y = now
        # Steps are compared, because a test of the gap itself would compute all logarithms a second time.
        moving = searched & (jnp.abs(y - before) > _TOLERANCE * y)
        return jnp.any(moving) & (count < _STEPS)

    def go_on(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, _, y = now
        return count + 1, y, step(y)

    return jax.lax.while_loop(unfinished, go_on, (jnp.array(1), first, step(first)))[2]


def _choose_first(
    phat: Float[Array, "K A R"], d: Float[Array, "K A R"], eps: Float[Array, "A R"], spread: Float[Array, "A R"]
) -> Float[Array, "A R"]:
    """Compute the start of the search from the expansion A + log B = s^2 y^2 / 2 (1 - c y) + ..."""
    first, second, third = _sum(phat * d), _sum(phat * d * d), _sum(phat * d * d * d)
    variance = jnp.maximum(second - first**2, 1e-30 * spread**2 + 1e-300)
    y = jnp.sqrt(2 * eps / variance)
    c = (4 / 3 * third - 2 * first * second + 2 / 3 * first**3) / variance
    return y / jnp.clip(1 - 0.5 * c * y, 0.3, 3.0)


def _choose_in_box(rows: BoxRows, W: Float[Array, "K A R"]) -> RowChoice:
    """Minimise P . W over a box for every row: the free mass goes to the least W first."""
    low, high = rows.low, rows.high
    if W.shape[0] > low.shape[0]:
        low = jnp.concatenate([low, jnp.zeros_like(W[:1])])
        high = jnp.concatenate([high, rows.elsewhere[None]])
    order = jnp.argsort(W, axis=0)
    room = jnp.take_along_axis(high - low, order, axis=0)
    before = jnp.cumsum(room, axis=0) - room
    given = jnp.clip(1 - jnp.sum(low, axis=0)[None] - before, 0.0, room)
    law = low + jnp.take_along_axis(given, jnp.argsort(order, axis=0), axis=0)
    return RowChoice(jnp.sum(law * W, axis=0), law)


def _choose_near(rows: NearRows, W: Float[Array, "K A R"]) -> RowChoice:
    """Minimise P . W over {sum (P - centre)+ <= gain} for every row: mass moves from the largest W to the least."""
    centre, gain = rows.centre, rows.gain
    if W.shape[0] > centre.shape[0]:
        centre = jnp.concatenate([centre, jnp.zeros_like(W[:1])])
    order = jnp.argsort(jnp.where((gain > 0)[None] | (centre > 0), W, jnp.inf), axis=0)
    sorted_ = jnp.take_along_axis(centre, order, axis=0)
    first = jnp.minimum(1.0, sorted_[0] + gain)
    rest = sorted_.at[0].set(0.0)
    before = first[None] + jnp.cumsum(rest, axis=0) - rest
    kept = jnp.clip(1 - before, 0.0, rest).at[0].set(first)
    law = jnp.take_along_axis(kept, jnp.argsort(order, axis=0), axis=0)
    # The remainder due to rounding goes to the cheapest.
    law = law + jnp.where(jnp.arange(W.shape[0])[:, None, None] == order[:1], 1 - _sum(law)[None], 0.0)
    return RowChoice(_sum(law * W), law)
