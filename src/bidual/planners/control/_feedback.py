"""Gains against noise: the linear-quadratic regulator along a path of the mean dynamics (differential programming).

Around (s_h, u_h) the dynamics are taken as linear and the cost of a step, s' being a function of s and u, as quadratic:

    Q_h = hess l_h + [A_h B_h]' P_{h+1} [A_h B_h],   u = u_h + k_h + K_h (s - s_h),   K_h = -Q_uu^-1 Q_us

Hessians are projected onto the positive semidefinite ones, so every step descends. For linear dynamics and a convex
quadratic cost nothing is lost: one step gives the optimal controls and gains. Controls that the step would take beyond
a limit stay there, without gain (Tassa et al. 2014).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bidual.models import AbstractDynamics
from bidual.planners.control._extras import join_extras, split_extras
from bidual.planners.control._search import Subproblem
from bidual.problem.features import Computed

_SHARES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.0)  # of a step that are tried; 0 keeps the controls as they are
_LEAST = 1e-9  # least curvature of a direction of controls, relative to the largest; more in float32


class FeedbackPath(NamedTuple):
    """An affine control law along a path, and the cost of the path under the mean dynamics."""

    controls: Float[Array, "H m"]
    states: Float[Array, "H n"]
    gains: Float[Array, "H m n"]
    cost: Float[Array, ""]


@partial(jax.jit, static_argnums=(1, 5))
def regulate(
    dynamics: AbstractDynamics,
    features: Computed,
    theta: Float[Array, "H p"],
    s: Float[Array, "n"],
    nominal: Float[Array, "H q"],
    steps: int,
) -> FeedbackPath:
    """Compute gains along the path of a sequence of controls and extras, after up to `steps` descents from it."""
    problem = Subproblem(dynamics, features, theta, jnp.asarray(len(theta)), s)
    return descend_path(problem, nominal, steps, dynamics.sizes[1])


def descend_path(problem: Subproblem, nominal: Float[Array, "H q"], steps: int, free: int) -> FeedbackPath:
    """Compute the same where the first `free` numbers of every step may change: the controls, or extras as well."""
    n, H = problem.dynamics.sizes[0], problem.theta.shape[0]
    u, e = split_extras(nominal, free)
    still = FeedbackPath(u, jnp.zeros((H, n)), jnp.zeros((H, free, n)), jnp.asarray(jnp.inf))
    follow, back = partial(_follow, problem, e), partial(_pass_backward, problem, e)
    path = follow(still, jnp.zeros((H, free)), jnp.asarray(0.0))

    def descend(_: Array, path: FeedbackPath) -> FeedbackPath:
        change, gains = back(path)
        law = path._replace(gains=gains)
        tried = jax.vmap(lambda share: follow(law, change, share))(jnp.asarray(_SHARES))
        best = jnp.argmin(tried.cost)
        return jax.tree.map(lambda each: each[best], tried)

    path = jax.lax.fori_loop(0, steps, descend, path)
    _, gains = back(path)
    return path._replace(gains=gains)


def _follow(
    problem: Subproblem,
    extras: Float[Array, "H e"],
    law: FeedbackPath,
    change: Float[Array, "H m"],
    share: Float[Array, ""],
) -> FeedbackPath:
    """Compute the path under changed controls, with the gains of the law."""
    low, high = _join_limits(problem.dynamics, change.shape[1], problem.s.dtype)

    def step(s: Array, now: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        theta_h, e, u, at, K, k = now
        u = jnp.clip(u + share * k + K @ (s - at), low, high)
        after, cost = problem.step(theta_h, s, join_extras(u, e))
        return after, (u, s, cost)

    along = (problem.theta, extras, law.controls, law.states, law.gains, change)
    _, (controls, states, costs) = jax.lax.scan(step, problem.s, along)
    total = jnp.sum(costs)
    return FeedbackPath(controls, states, law.gains, jnp.where(jnp.isfinite(total), total, jnp.inf))


def _pass_backward(
    problem: Subproblem, extras: Float[Array, "H e"], path: FeedbackPath
) -> tuple[Float[Array, "H m"], Float[Array, "H m n"]]:
    """Compute changes and gains at every step, from the last one backwards."""
    dynamics, theta = problem.dynamics, problem.theta
    n = dynamics.sizes[0]
    low, high = _join_limits(dynamics, path.controls.shape[1], theta.dtype)

    def cost(z: Array, theta_h: Array, e: Array) -> Array:
        return problem.step(theta_h, z[:n], join_extras(z[n:], e))[1]

    def mean(z: Array, e: Array) -> Array:
        both = split_extras(join_extras(z[n:], e), dynamics.sizes[1])
        return dynamics.step(z[:n], *both, jnp.zeros(n, dtype=z.dtype))[0]

    z = jnp.concatenate([path.states, path.controls], axis=1)
    slopes = _replace_undefined(jax.vmap(jax.grad(cost))(z, theta, extras))
    curves = _make_convex(_replace_undefined(jax.vmap(jax.hessian(cost))(z, theta, extras)))
    moves = _replace_undefined(jax.vmap(jax.jacfwd(mean))(z, extras))

    def step(ahead: tuple[Array, Array], now: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        p, P = ahead
        slope, curve, move, u = now
        q, Q = slope + move.T @ p, curve + move.T @ P @ move
        # A step that is not finite becomes 0: the path stays as it is.
        k, K = map(_replace_undefined, _minimise_within(Q[n:, n:], q[n:], Q[n:, :n], low - u, high - u))
        lift = jnp.concatenate([jnp.eye(n, dtype=Q.dtype), K])
        p = lift.T @ (q + Q[:, n:] @ k)
        P = lift.T @ Q @ lift
        return (p, (P + P.T) / 2), (k, K)

    start = jnp.zeros(n, dtype=theta.dtype), jnp.zeros((n, n), dtype=theta.dtype)
    _, (changes, gains) = jax.lax.scan(step, start, (slopes, curves, moves, path.controls), reverse=True)
    return changes, gains


def _join_limits(dynamics: AbstractDynamics, free: int, dtype: Any) -> list[Float[Array, "free"]]:  # noqa: ANN401
    """Return the limits of controls, and of extras, which the dynamics project onto the unit ball themselves."""
    ones = jnp.ones(dynamics.sizes[2], dtype=dtype)
    pairs = zip(dynamics.limits, (-ones, ones), strict=True)
    return [split_extras(join_extras(jnp.asarray(end, dtype=dtype), ball), free)[0] for end, ball in pairs]


def _minimise_within(
    Q: Float[Array, "m m"],
    q: Float[Array, "m"],
    cross: Float[Array, "m n"],
    low: Float[Array, "m"],
    high: Float[Array, "m"],
) -> tuple[Float[Array, "m"], Float[Array, "m n"]]:
    """Minimise q.k + k'Qk/2 within a box, with the gain. Controls are fixed at limits one round after the other."""
    m = q.size
    largest = jnp.max(jnp.abs(jnp.diagonal(Q)))
    least = max(_LEAST, 100 * float(jnp.finfo(Q.dtype).eps))
    Q = Q + least * jnp.where(largest > 0, largest, 1.0) * jnp.eye(m, dtype=Q.dtype)
    k, free = jnp.zeros_like(q), jnp.ones_like(q)
    for _ in range(m + 1):
        restricted = Q * free[:, None] * free[None] + jnp.diag(1 - free)
        goal = jnp.where(free > 0, jnp.linalg.solve(restricted, -free * (q + Q @ ((1 - free) * k))), k)
        free = jnp.where((goal < low) | (goal > high), 0.0, free)
        k = jnp.clip(goal, low, high)
    restricted = Q * free[:, None] * free[None] + jnp.diag(1 - free)
    return k, -jnp.linalg.solve(restricted, free[:, None] * cross)


def _make_convex(curves: Float[Array, "H z z"]) -> Float[Array, "H z z"]:
    values, vectors = jnp.linalg.eigh((curves + curves.swapaxes(1, 2)) / 2)
    return jnp.einsum("hij,hj,hkj->hik", vectors, jnp.maximum(values, 0.0), vectors)


def _replace_undefined(array: Float[Array, "..."]) -> Float[Array, "..."]:
    """Replace derivatives that do not exist by 0."""
    return jnp.where(jnp.isfinite(array), array, 0.0)
