"""Soft planning: the policy that trades a linear cost against its divergence from the uniform policy.

    V_h(s) = -log mean_a exp(-Q_h(s, a)),   pi_h(a|s) proportional to exp(-Q_h(s, a)),
    Q_h(s, a) = theta_h . psi_h(s, a) + sum_k p_k(s, a) V_{h+1}(s'_k)

V_0(theta) is concave and its gradient is the embedding of the soft policy. A KL-proximal step of length eta from the
soft policy of theta along a cost G leads to the soft policy of theta + eta G, and the divergence between the soft
policies of two costs is KL(b || a) = V_0(b) - V_0(a) - (b - a) . Psi(b): a policy is one vector, and mirror descent
over policies is arithmetic on such vectors.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bidual.planners._passes import Cost, at, expectation, stage_cost


@jax.jit
def soft_pass(
    states: Int[Array, "next K A R"],
    probabilities: Float[Array, "law K A R"],
    allowed: Bool[Array, "A R"] | None,
    initial: Float[Array, "R"],
    psi: Float[Array, "steps d A R"],
    cost: Cost,
) -> tuple[Float[Array, "H A R"], Float[Array, "H R"], Float[Array, ""]]:
    """Compute the soft policy, its visits, and V_0."""
    steps = jnp.arange(cost.signals.shape[0])
    choices = jnp.log(float(psi.shape[2])) if allowed is None else jnp.log(jnp.sum(allowed, axis=0))

    def backward(V: Float[Array, "R"], h: Int[Array, ""]) -> tuple[Float[Array, "R"], Float[Array, "A R"]]:
        Q = stage_cost(psi, cost, h) + expectation(at(probabilities, h), at(states, h), V)
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

        def arrive(total: Float[Array, "R"], one: tuple[Array, Array]) -> tuple[Float[Array, "R"], None]:
            target, chance = one
            return total.at[target.ravel()].add((left * chance).ravel(), mode="promise_in_bounds"), None

        arrived, _ = jax.lax.scan(arrive, jnp.zeros_like(mu), (at(states, h), at(probabilities, h)))
        return arrived, mu

    V, policy = jax.lax.scan(backward, jnp.zeros_like(initial), steps, reverse=True)
    _, visits = jax.lax.scan(forward, initial, (steps, policy))
    return policy, visits, initial @ V


@jax.jit
def soft_embedding(
    policy: Float[Array, "H A R"], visits: Float[Array, "H R"], psi: Float[Array, "steps d A R"]
) -> Float[Array, "H d"]:
    """Compute the expected signals of a policy with these visits."""
    if psi.shape[1] == 0:
        return jnp.zeros((policy.shape[0], 0))
    occupancy = policy * visits[:, None]
    if psi.shape[0] == 1:
        return jnp.einsum("dar,har->hd", psi[0], occupancy)
    return jnp.einsum("hdar,har->hd", psi, occupancy)
