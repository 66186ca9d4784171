"""Optimistic planning: the cheapest policy under the cheapest law that may be true.

V_h(s) = min_a  theta_h . psi_h(s, a) + min over P in the row's set of sum_k P_k (theta_h . arrival_k + V_{h+1}(s'_k))

Signals on arrival are inside the inner minimum: their expectation under an estimate would not be a bound.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bidual._base.types import float64, select_step
from bidual.models import Arrivals, LawRows, Layout, Rectangular
from bidual.planners._base import AbstractPlanner, Plan
from bidual.planners._passes import Cost, compute_stage_cost, select_actions
from bidual.planners._rows import choose_cheapest


@final
@dataclass(frozen=True)
class ExtendedValueIteration(AbstractPlanner[Rectangular]):
    """The exact planner over sets of laws. Ties go to the lowest action."""

    @float64
    def __call__(self, model: Rectangular, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Plan by one backward pass, which chooses actions and laws, and one forward pass through them."""
        cost = Cost(*psi.cost(theta))
        on_arrival = theta[:, list(psi.positions)]
        lower, actions, *expected, arrival_signals = _plan(
            model.rows, psi.signals, psi.arrivals, cost, on_arrival, open_=model.open
        )
        embedding = psi.embedding(*expected)
        if psi.positions:
            embedding = np.array(embedding)
            embedding[:, list(psi.positions)] += np.asarray(arrival_signals)
        return Plan(actions, embedding, float(np.vdot(theta, embedding)), lower=float(lower))


class _StepChoice(NamedTuple):
    """The choices of a backward step for the forward pass: actions, laws, successors and signals on arrival."""

    action: Int[Array, "R"]
    law: Float[Array, "K R"]
    states: Int[Array, "K R"]
    arrival_signals: Float[Array, "n R"]


@jax.jit(static_argnames=("open_",))
def _plan(
    model: LawRows,
    psi: Float[Array, "steps d A R"],
    arrivals: Arrivals | None,
    cost: Cost,
    on_arrival: Float[Array, "H n"],
    *,
    open_: bool,
) -> tuple[Any, ...]:  # lower, actions, and the expected signals, visits, occupancies (or None) and arrivals
    """Minimise the cost over actions and laws backward in time, and roll the choice out forward."""
    steps = jnp.arange(cost.signals.shape[0])
    label = jnp.int8 if psi.shape[2] <= 127 else jnp.int32

    def backward(V: Float[Array, "R"], h: Int[Array, ""]) -> tuple[Float[Array, "R"], _StepChoice]:
        W, states = _collect_payments(model, arrivals, on_arrival[h], V, h, open_=open_)
        choice = choose_cheapest(jax.tree.map(lambda set_: select_step(set_, h), model.rows), W)
        Q = compute_stage_cost(psi, cost, h) + choice.bound
        if model.allowed is not None:
            Q = jnp.where(model.allowed, Q, jnp.inf)
        action = jnp.argmin(Q, axis=0).astype(label)
        law, targets = select_actions(choice.law, action), select_actions(states, action)
        arrival_signals = _expect_arrival_signals(
            arrivals, on_arrival[h], law, targets, action, h, listed=model.states.shape[0]
        )
        return jnp.min(Q, axis=0), _StepChoice(action, law, targets, arrival_signals)

    def forward(mu: Float[Array, "R"], now: tuple[Int[Array, ""], _StepChoice]) -> tuple[Float[Array, "R"], tuple]:
        h, taken = now
        embedding = select_actions(select_step(psi, h), taken.action) @ mu
        arrived = jnp.zeros_like(mu).at[taken.states.ravel()].add((taken.law * mu[None]).ravel())
        pairs = None
        if cost.pairs is not None:
            choices = jnp.arange(psi.shape[2], dtype=label)[:, None]
            pairs = jnp.where(taken.action[None] == choices, mu[None], 0.0)
        return arrived, (embedding, None if cost.visits is None else mu, pairs, taken.arrival_signals @ mu)

    V, taken = jax.lax.scan(backward, jnp.zeros(psi.shape[3]), steps, reverse=True)
    first = choose_cheapest(model.start.rows, V[model.start.states])
    start = jnp.zeros_like(V).at[model.start.states.ravel()].add(first.law.ravel())
    _, expected = jax.lax.scan(forward, start, (steps, taken))
    return first.bound[0, 0], taken.action, *expected


def _collect_payments(
    model: LawRows, arrivals: Arrivals | None, t: Float[Array, "n"], V: Float[Array, "R"], h: Array, *, open_: bool
) -> tuple[Float[Array, "k A R"], Int[Array, "k A R"]]:
    """Compute the cost to go of each successor, with the best of all states last where lists are open."""
    W = V[model.states]
    if arrivals is not None:
        W = W + _pay(t, select_step(arrivals.low, h), None if arrivals.high is None else select_step(arrivals.high, h))
    if not open_:
        return W, model.states
    there = V if arrivals is None else V + _pay(t, arrivals.floor, arrivals.ceiling)
    if arrivals is None or arrivals.far is None:
        best = jnp.broadcast_to(jnp.argmin(there).astype(model.states.dtype), W.shape[1:])
        elsewhere = there[best]
    else:
        everywhere = jnp.tensordot(t, select_step(arrivals.far, h), axes=1) + there[:, None, None]
        best = jnp.argmin(everywhere, axis=0).astype(model.states.dtype)
        elsewhere = jnp.min(everywhere, axis=0)
    return jnp.concatenate([W, elsewhere[None]]), jnp.concatenate([model.states, best[None]])


def _pay(t: Float[Array, "n"], low: Float[Array, "n ..."], high: Float[Array, "n ..."] | None) -> Array:
    """Minimise t . signal over signals between their ends."""
    if high is None:
        return jnp.tensordot(t, low, axes=1)
    return jnp.tensordot(jnp.maximum(t, 0.0), low, axes=1) + jnp.tensordot(jnp.minimum(t, 0.0), high, axes=1)


def _expect_arrival_signals(
    arrivals: Arrivals | None,
    t: Float[Array, "n"],
    law: Float[Array, "k R"],
    targets: Int[Array, "k R"],
    action: Int[Array, "R"],
    h: Array,
    *,
    listed: int,
) -> Float[Array, "n R"]:
    """Compute the expected signals on arrival under the chosen law, at the ends that minimise the cost."""
    R = law.shape[1]
    if arrivals is None:
        return jnp.zeros((0, R))
    low = select_step(arrivals.low, h)
    ends = low if arrivals.high is None else jnp.where((t > 0)[:, None, None, None], low, select_step(arrivals.high, h))
    taken = jnp.stack([select_actions(signal, action) for signal in ends])
    arrival_signals = jnp.einsum("nkr,kr->nr", taken, law[:listed])
    if law.shape[0] == listed:
        return arrival_signals
    beyond = jnp.where((t > 0)[:, None], arrivals.floor, arrivals.ceiling)[:, targets[-1]]
    if arrivals.far is not None:
        everyone = jnp.arange(R)
        beyond = beyond + select_step(arrivals.far, h)[:, targets[-1], action.astype(jnp.int32), everyone]
    return arrival_signals + beyond * law[-1][None]
