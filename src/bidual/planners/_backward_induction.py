"""Exact planning in a known model: values backward, then visits forward, in one compiled call.

V_h(s) = min_a  theta_h . psi_h(s, a) + sum_k p_k(s, a) V_{h+1}(s'_k),      V_{H+1} = 0
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bidual._types import float64
from bidual.models import Known, Layout
from bidual.planners._base import AbstractPlanner, Plan

# Up to this many successors or actions a loop over them is unrolled; beyond, compiling costs more than it saves.
_UNROLL = 16
# From this many states on, successors are gathered one list at a time: 83 ms for a backward pass at 100 000 states,
# against 207 ms in one fused loop (which reads dozens of streams at once; that this is the cause is a guess). Below,
# the fused loop is as fast or faster.
_MANY_STATES = 8192


@final
@dataclass(frozen=True)
class BackwardInduction(AbstractPlanner[Known]):
    """The exact planner for a known model. Ties go to the lowest action."""

    @float64
    def __call__(self, model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """One backward and one forward pass."""
        arrays = (model.states, model.probabilities, model.allowed, model.initial, psi.signals)
        actions, *expected = _plan(*arrays, *psi.cost(theta))
        psi_plan = psi.embedding(*expected)
        value = float(np.vdot(theta, psi_plan))
        return Plan(actions, psi_plan, value, lower=value)


@jax.jit
def _plan(
    states: Int[Array, "next K A R"],
    probabilities: Float[Array, "law K A R"],
    allowed: Bool[Array, "A R"] | None,
    initial: Float[Array, "R"],
    psi: Float[Array, "steps d A R"],
    theta: Float[Array, "H d"],
    on_visits: Float[Array, "H R"] | None,
    on_pairs: Float[Array, "H A R"] | None,
) -> tuple[Int[Array, "H R"], Float[Array, "H d"], Float[Array, "H R"] | None, Float[Array, "H A R"] | None]:
    steps = jnp.arange(theta.shape[0])
    label = jnp.int8 if psi.shape[2] <= 127 else jnp.int32

    def backward(V: Float[Array, "R"], h: Int[Array, ""]) -> tuple[Float[Array, "R"], Int[Array, "R"]]:
        Q = jnp.tensordot(theta[h], _at(psi, h), axes=1)
        Q = Q + _expectation(_at(probabilities, h), _at(states, h), V)
        if on_visits is not None:
            Q = Q + on_visits[h][None]
        if on_pairs is not None:
            Q = Q + on_pairs[h]
        if allowed is not None:
            Q = jnp.where(allowed, Q, jnp.inf)
        return jnp.min(Q, axis=0), jnp.argmin(Q, axis=0).astype(label)

    def forward(
        mu: Float[Array, "R"], now: tuple[Int[Array, ""], Int[Array, "R"]]
    ) -> tuple[Float[Array, "R"], tuple[Float[Array, "d"], Float[Array, "R"] | None, Float[Array, "A R"] | None]]:
        h, action = now
        embedding = _chosen(_at(psi, h), action) @ mu
        flow = _chosen(_at(probabilities, h), action) * mu[None]
        arrived = jnp.zeros_like(mu).at[_chosen(_at(states, h), action).ravel()].add(flow.ravel())
        pairs = None
        if on_pairs is not None:
            pairs = jnp.where(action[None] == jnp.arange(psi.shape[2], dtype=label)[:, None], mu[None], 0.0)
        return arrived, (embedding, None if on_visits is None else mu, pairs)

    _, actions = jax.lax.scan(backward, jnp.zeros_like(initial), steps, reverse=True)
    _, expected = jax.lax.scan(forward, initial, (steps, actions))
    return actions, *expected


def _at(array: Array, h: Int[Array, ""]) -> Array:
    """Entry h of a time axis that may have length 1."""
    return array[0] if array.shape[0] == 1 else array[h]


def _expectation(
    probabilities: Float[Array, "K A R"], states: Int[Array, "K A R"], V: Float[Array, "R"]
) -> Float[Array, "A R"]:
    if V.size < _MANY_STATES and len(probabilities) <= _UNROLL:
        total = probabilities[0] * V[states[0]]
        for p, s in zip(probabilities[1:], states[1:], strict=True):
            total = total + p * V[s]
        return total
    start = jnp.zeros(probabilities.shape[1:])
    total, _ = jax.lax.scan(lambda sum_, list_: (sum_ + list_[0] * V[list_[1]], None), start, (probabilities, states))
    return total


def _chosen(array: Array, action: Int[Array, "R"]) -> Array:
    """``array[n, action[s], s]`` for every n and s."""
    if array.shape[1] > _UNROLL:
        return jnp.take_along_axis(array, action.astype(jnp.int32)[None, None, :], axis=1)[:, 0]
    chosen = array[:, 0]
    for a in range(1, array.shape[1]):
        chosen = jnp.where((action == a)[None], array[:, a], chosen)
    return chosen
