"""Receding-horizon control: a controller that holds the model it plans in, and plans again as it goes."""

from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Key

from bidual._types import float32
from bidual.control._rollouts import AbstractLaw
from bidual.control._sampling import middle
from bidual.control._search import AbstractSearch
from bidual.control._words import dynamics_stored, sampler_words, signal_words
from bidual.features import Computed
from bidual.models import AbstractDynamics
from bidual.policies import AbstractController, Stored


class Remembered(NamedTuple):
    """Within an episode: where its randomness comes from, and the last plan, whose first row is the last replanning."""

    key: Any  # a JAX key in compiled code, else a word to make it of
    nominal: Float[Any, "T q"]


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Receding(AbstractController, AbstractLaw):
    """Plans from the state that was reached, at every `every`-th step, as far ahead as `nominal` is long.

    A plan never looks beyond the horizon: with a nominal sequence as long as the horizon the look-ahead shrinks. The
    first one starts from `nominal`, later ones, where the search is continued, from what is left of the plan before.
    """

    dynamics: AbstractDynamics
    theta: Float[Any, "H p"]
    nominal: Float[Any, "T q"]  # of controls and extras
    features: Computed = field(metadata={"static": True})
    sampler: AbstractSearch = field(metadata={"static": True})
    every: int = field(default=1, metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(H, n, m)."""
        n, m, _ = self.dynamics.sizes
        return self.theta.shape[0], n, m

    @property
    def fingerprint(self) -> bytes:
        """Of its numbers and settings, and of the names of its signals: what they compute is not seen."""
        arrays = [np.asarray(leaf) for leaf in (*jax.tree_util.tree_leaves(self.dynamics), self.theta, self.nominal)]
        ends = [(signal.low, signal.high, signal.size) for signal in self.features.signals]
        words = (type(self.dynamics).__name__, self.features.names, ends, self.sampler, self.every)
        shapes = [(one.shape, one.dtype.str) for one in arrays]
        return blake2b(repr((words, shapes)).encode() + b"".join(one.tobytes() for one in arrays)).digest()

    @property
    def stored(self) -> Stored:
        """The model is inside; of signals there are the names, bounds and sizes."""
        words, arrays = dynamics_stored(self.dynamics)
        settings = {"sampler": sampler_words(self.sampler), "every": self.every}
        told = {"name": "receding", "signals": signal_words(self.features), "dynamics": words} | settings
        return Stored(told, arrays | {"theta": np.asarray(self.theta), "nominal": np.asarray(self.nominal)})

    def start(self, rng: np.random.Generator) -> Remembered:
        """One draw, from which all replanning of the episode takes its randomness."""
        return Remembered(np.uint32(rng.integers(2**32)), np.asarray(self.nominal, dtype=np.float32))

    @float32
    def act(self, memory: Remembered, h: int, s: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "m"], Remembered]:
        """Plan again where it is time to, and take the control of the step."""
        if h % self.every == 0:
            nominal = _replanned(self, np.int32(h), s, memory.key, memory.nominal)
            memory = Remembered(memory.key, np.asarray(nominal))
        m = self.dynamics.sizes[1]
        return memory.nominal[h % self.every, :m].astype(np.float64), memory

    def begin(self, key: Key[Array, ""]) -> Remembered:
        """The same in compiled code."""
        return Remembered(key, jnp.asarray(self.nominal))

    def control(
        self, memory: Remembered, h: Int[Array, ""], s: Float[Array, "n"]
    ) -> tuple[Float[Array, "m"], Float[Array, "e"], Remembered]:
        """The same in compiled code; extras are those of the plan too."""
        nominal = jax.lax.cond(h % self.every == 0, self.replan, lambda key, nominal, h, s: nominal, *memory, h, s)
        m, now = self.dynamics.sizes[1], nominal[h % self.every]
        return now[:m], now[m:], Remembered(memory.key, nominal)

    def replan(
        self, key: Key[Array, ""], nominal: Float[Array, "T q"], h: Int[Array, ""], s: Float[Array, "n"]
    ) -> Float[Array, "T q"]:
        """The plan from state s at step h, given the one before."""
        centre, _ = middle(self.dynamics)
        rest = jnp.concatenate([nominal[self.every :], jnp.broadcast_to(centre[None], nominal.shape)])[: len(nominal)]
        later = rest if self.sampler.continued else jnp.broadcast_to(centre[None], rest.shape)
        before = jnp.where(h > 0, later, nominal)
        theta, key = jnp.asarray(self.theta), jr.fold_in(key, h)
        return self.sampler(self.dynamics, self.features, theta, h, s, key, before).nominal


@jax.jit
def _replanned(
    controller: Receding, h: Int[Array, ""], s: Float[Array, "n"], word: Array, nominal: Float[Array, "T q"]
) -> Float[Array, "T q"]:
    return controller.replan(jr.key(word), nominal, h, s)
