"""Exact planning in a known model: values backward, then visits forward, in one compiled call.

    V_h(s) = min_a Q_h(s, a),   Q_h(s, a) = theta_h . psi_h(s, a) + sum_k p_k(s, a) V_{h+1}(s'_k),   V_{H+1} = 0

The soft policy trades the cost against its divergence from the uniform policy:

    V_h(s) = -log mean_a exp(-Q_h(s, a)),   pi_h(a|s) proportional to exp(-Q_h(s, a))

V_0(theta) is then concave and its gradient is the embedding of the soft policy. A KL-proximal step of length eta from
the soft policy of theta along a cost G leads to the soft policy of theta + eta G, and the divergence between the soft
policies of two costs is KL(b || a) = V_0(b) - V_0(a) - (b - a) . Psi(b): a policy is one vector, and mirror descent
over policies is arithmetic on such vectors.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bidual._base.types import float64, select_step
from bidual.models import Known, Law, Layout
from bidual.planners._base import AbstractSoftPlanner, Plan
from bidual.planners._passes import Cost, arrive, compute_stage_cost, expect_next, select_actions


@final
@dataclass(frozen=True)
class BackwardInduction(AbstractSoftPlanner[Known]):
    """The exact planner for a known model. Ties go to the lowest action."""

    @float64
    def __call__(self, model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Plan exactly, by one backward and one forward pass."""
        actions, *expected = _plan(*_take_arrays(model, psi), Cost(*psi.cost(theta)))
        psi_plan = psi.embedding(*expected)
        value = float(np.vdot(theta, psi_plan))
        return Plan(actions, psi_plan, value, lower=value)

    @float64
    def with_embedding(self, model: Known, psi: Layout, plan: Plan) -> Plan:
        """Return a plan of which only actions and image are known with its embedding, by one forward pass."""
        cost = Cost(*psi.cost(np.zeros((len(plan.embedding), psi.psi.dimension))))
        law, _, initial, signals = _take_arrays(model, psi)
        embedding = psi.embedding(*_expect(law, initial, signals, cost, plan.actions))
        return replace(plan, embedding=embedding, image=None)

    @float64
    def soft(self, model: Known, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Compute the soft policy by one soft backward pass, and its visits by one forward pass through all actions."""
        cost = Cost(*psi.cost(theta))
        policy, visits, value = run_soft_pass(*_take_arrays(model, psi), cost)
        signals = compute_soft_embedding(policy, visits, psi.signals)
        pairs = None if cost.pairs is None else policy * visits[:, None]
        embedding = psi.embedding(signals, None if cost.visits is None else visits, pairs)
        return Plan(None, embedding, float(value), lower=-np.inf, soft_cost=theta)

    @float64
    def occupancy(self, model: Known, psi: Layout, plan: Plan) -> Float[np.ndarray, "H A R"]:
        """Compute occupancies from the actions of a plan, or from its soft policy, which is computed again."""
        if plan.soft_cost is not None:
            policy, visits, _ = run_soft_pass(*_take_arrays(model, psi), Cost(*psi.cost(plan.soft_cost)))
            return np.asarray(policy * visits[:, None])
        assert plan.actions is not None  # a plan has actions or a soft cost
        return np.asarray(_follow(model.law, model.initial, plan.actions))


@jax.jit
def _plan(
    law: Law,
    allowed: Bool[Array, "A R"] | None,
    initial: Float[Array, "R"],
    psi: Float[Array, "steps d A R"],
    cost: Cost,
) -> tuple[Int[Array, "H R"], Float[Array, "H d"], Float[Array, "H R"] | None, Float[Array, "H A R"] | None]:
    """Minimise the cost backward in time; return actions, embedding, visits and occupancies."""
    steps = jnp.arange(cost.signals.shape[0])
    label = jnp.int8 if psi.shape[2] <= 127 else jnp.int32

    def backward(V: Float[Array, "R"], h: Int[Array, ""]) -> tuple[Float[Array, "R"], Int[Array, "R"]]:
        Q = compute_stage_cost(psi, cost, h) + expect_next(law, h, V)
        if allowed is not None:
            Q = jnp.where(allowed, Q, jnp.inf)
        return jnp.min(Q, axis=0), jnp.argmin(Q, axis=0).astype(label)

    _, actions = jax.lax.scan(backward, jnp.zeros_like(initial), steps, reverse=True)
    return actions, *_expect(law, initial, psi, cost, actions)


@jax.jit
def _expect(
    law: Law,
    initial: Float[Array, "R"],
    psi: Float[Array, "steps d A R"],
    cost: Cost,
    actions: Int[Array, "H R"],
) -> tuple[Float[Array, "H d"], Float[Array, "H R"] | None, Float[Array, "H A R"] | None]:
    """Compute embedding, visits and occupancies of a deterministic policy, as far as a cost is on them."""

    def forward(
        mu: Float[Array, "R"], now: tuple[Int[Array, ""], Int[Array, "R"]]
    ) -> tuple[Float[Array, "R"], tuple[Float[Array, "d"], Float[Array, "R"] | None, Float[Array, "A R"] | None]]:
        h, action = now
        embedding = select_actions(select_step(psi, h), action) @ mu
        arrived = arrive(law, h, action, mu)
        pairs = None
        if cost.pairs is not None:
            pairs = jnp.where(action[None] == jnp.arange(psi.shape[2], dtype=actions.dtype)[:, None], mu[None], 0.0)
        return arrived, (embedding, None if cost.visits is None else mu, pairs)

    _, expected = jax.lax.scan(forward, initial, (jnp.arange(actions.shape[0]), actions))
    return expected


@jax.jit
def _follow(
    law: Law,
    initial: Float[Array, "R"],
    actions: Int[Array, "H R"],
) -> Float[Array, "H A R"]:
    """Compute the occupancies of a deterministic policy."""
    choices = jnp.arange(law.states.shape[2], dtype=actions.dtype)[:, None]

    def forward(
        mu: Float[Array, "R"], now: tuple[Int[Array, ""], Int[Array, "R"]]
    ) -> tuple[Float[Array, "R"], Float[Array, "A R"]]:
        h, action = now
        arrived = arrive(law, h, action, mu)
        return arrived, jnp.where(action[None] == choices, mu[None], 0.0)

    return jax.lax.scan(forward, initial, (jnp.arange(actions.shape[0]), actions))[1]


def _take_arrays(model: Known, psi: Layout) -> tuple[Any, ...]:
    return model.law, model.allowed, model.initial, psi.signals


@jax.jit
def run_soft_pass(
    law: Law,
    allowed: Bool[Array, "A R"] | None,
    initial: Float[Array, "R"],
    psi: Float[Array, "steps d A R"],
    cost: Cost,
) -> tuple[Float[Array, "H A R"], Float[Array, "H R"], Float[Array, ""]]:
    """Compute the soft policy, its visits, and V_0."""
    steps = jnp.arange(cost.signals.shape[0])
    choices = jnp.log(float(psi.shape[2])) if allowed is None else jnp.log(jnp.sum(allowed, axis=0))

    def backward(V: Float[Array, "R"], h: Int[Array, ""]) -> tuple[Float[Array, "R"], Float[Array, "A R"]]:
        Q = compute_stage_cost(psi, cost, h) + expect_next(law, h, V)
        if allowed is not None:
            Q = jnp.where(allowed, Q, jnp.inf)
        least = jnp.min(Q, axis=0)
        weight = jnp.exp(least[None] - Q)
        mass = jnp.sum(weight, axis=0)
        return least - jnp.log(mass) + choices, weight / mass[None]

    def forward(
        mu: Float[Array, "R"], now: tuple[Int[Array, ""], Float[Array, "A R"]]
    ) -> tuple[Float[Array, "R"], Float[Array, "R"]]:
        h, policy = now
        left = mu[None] * policy

        def spread(total: Float[Array, "R"], one: tuple[Array, Array]) -> tuple[Float[Array, "R"], None]:
            target, chance = one
            return total.at[target.ravel()].add((left * chance).ravel(), mode="promise_in_bounds"), None

        lists = (select_step(law.states, h), select_step(law.probabilities, h))
        arrived, _ = jax.lax.scan(spread, jnp.zeros_like(mu), lists)
        if law.tail is not None:
            flow = left.reshape(-1)[law.tail.cells] * law.tail.probabilities
            arrived = arrived.at[law.tail.states].add(flow, mode="promise_in_bounds")
        return arrived, mu

    V, policy = jax.lax.scan(backward, jnp.zeros_like(initial), steps, reverse=True)
    _, visits = jax.lax.scan(forward, initial, (steps, policy))
    return policy, visits, initial @ V


@jax.jit
def compute_soft_embedding(
    policy: Float[Array, "H A R"], visits: Float[Array, "H R"], psi: Float[Array, "steps d A R"]
) -> Float[Array, "H d"]:
    """Compute the expected signals of a policy with these visits."""
    if psi.shape[1] == 0:
        return jnp.zeros((policy.shape[0], 0))
    occupancy = policy * visits[:, None]
    if psi.shape[0] == 1:
        return jnp.einsum("dar,har->hd", psi[0], occupancy)
    return jnp.einsum("hdar,har->hd", psi, occupancy)
