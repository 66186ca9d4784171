"""Parts shared by the passes through a model: costs in the planner's layout, and expectations over successors."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bidual._base.types import select_step

# Up to this many actions a loop over them is unrolled; beyond, compiling costs more than it saves.
UNROLL = 16


class Cost(NamedTuple):
    """A cost theta over the features as costs of signals, of states and of state-action pairs."""

    signals: Float[Array | np.ndarray, "H d"]
    visits: Float[Array | np.ndarray, "H R"] | None
    pairs: Float[Array | np.ndarray, "H A R"] | None


def compute_stage_cost(psi: Float[Array, "steps d A R"], cost: Cost, h: Int[Array, ""]) -> Float[Array, "A R"]:
    """Compute theta_h . psi_h(s, a) for every action and state."""
    pay = jnp.tensordot(cost.signals[h], select_step(psi, h), axes=1)
    if cost.visits is not None:
        pay = pay + cost.visits[h][None]
    return pay if cost.pairs is None else pay + cost.pairs[h]


def expect_next(
    probabilities: Float[Array, "K A R"], states: Int[Array, "K A R"], V: Float[Array, "R"]
) -> Float[Array, "A R"]:
    # List by list: in one fused loop XLA computes the sum again for every use of it, and reads dozens of streams at
    # once (a backward pass over 1024 states with costs of states took 3.2 ms fused and 0.6 ms this way).
    start = jnp.zeros(probabilities.shape[1:])
    total, _ = jax.lax.scan(lambda sum_, list_: (sum_ + list_[0] * V[list_[1]], None), start, (probabilities, states))
    return total


def select_actions(array: Array, action: Int[Array, "R"]) -> Array:
    """Return ``array[n, action[s], s]`` for every n and s."""
    if array.shape[1] > UNROLL:
        return jnp.take_along_axis(array, action.astype(jnp.int32)[None, None, :], axis=1)[:, 0]
    at_action = array[:, 0]
    for a in range(1, array.shape[1]):
        at_action = jnp.where((action == a)[None], array[:, a], at_action)
    return at_action
