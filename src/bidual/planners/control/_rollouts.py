"""The embedding of a policy in a model, as an average over paths with noise.

Policy and dynamics are those of the plan: the same extras, the same replanning. So the average is the
embedding of the plan itself, up to sampling.
"""

import abc
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt

from bidual._base.keys import derive_key
from bidual._base.types import float32
from bidual.models import AbstractDynamics, Stage
from bidual.problem.features import Computed


class AbstractLaw(abc.ABC):
    """A control law in compiled code: controls and extras from the states along a path. A law is a pytree."""

    @abc.abstractmethod
    def begin(self, key: Key[Array, ""]) -> Any:  # noqa: ANN401 - a pytree of its own type
        """Return the memory before the first step of a path."""

    @abc.abstractmethod
    def control(
        self,
        memory: Any,  # noqa: ANN401
        h: Int[Array, ""],
        s: Float[Array, "n"],
    ) -> tuple[Float[Array, "m"], Float[Array, "e"], Any]:
        """Compute control and extras at step h in state s, and the memory after it."""


@float32
def embedding(
    law: AbstractLaw, dynamics: AbstractDynamics, psi: Stage, paths: int, seed_words: UInt[np.ndarray, "3"]
) -> Float[np.ndarray, "H p"]:
    """Compute the mean features of every step, over paths from the start states.

    Start states take turns from a random one on: each is equally likely, and path numbers differ by at most one.
    """
    return np.asarray(
        _average_features(law, dynamics, psi.features, psi.horizon, paths, psi.starts, seed_words), dtype=np.float64
    )


@partial(jax.jit, static_argnums=(2, 3, 4))
def _average_features(
    law: AbstractLaw,
    dynamics: AbstractDynamics,
    features: Computed,
    horizon: int,
    paths: int,
    starts: Float[Array, "k n"],
    seed_words: UInt[Array, "3"],
) -> Float[Array, "H p"]:
    """Average the features of every step over paths that begin at the start states in turn."""
    key = derive_key(seed_words)
    turn = jr.randint(jr.fold_in(key, 0), (), 0, starts.shape[0])
    states = starts[(turn + jnp.arange(paths)) % starts.shape[0]]
    memories = jax.vmap(law.begin)(jr.split(jr.fold_in(key, 1), paths))
    walk = partial(_walk, law, dynamics, features)

    def step(now: tuple[Any, Array], h: Int[Array, ""]) -> tuple[tuple[Any, Array], Float[Array, "p"]]:
        memories, states = now
        noise = jr.normal(jr.fold_in(jr.fold_in(key, 2), h), states.shape, dtype=states.dtype)
        memories, states, values = jax.vmap(walk, in_axes=(None, 0, 0, 0))(h, memories, states, noise)
        return (memories, states), jnp.mean(values, axis=0)

    _, means = jax.lax.scan(step, (memories, states), jnp.arange(horizon))
    return means


def _walk(
    law: AbstractLaw,
    dynamics: AbstractDynamics,
    features: Computed,
    h: Int[Array, ""],
    memory: Any,  # noqa: ANN401
    s: Float[Array, "n"],
    noise: Float[Array, "n"],
) -> tuple[Any, Float[Array, "n"], Float[Array, "p"]]:
    """Simulate one step of one path, and compute its features."""
    control, e, memory = law.control(memory, h, s)
    u = dynamics.project_control(control)
    after, _ = dynamics.step(s, u, e, noise)
    return memory, after, features.values(s, u, after)
