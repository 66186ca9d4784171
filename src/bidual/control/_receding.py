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
from bidual.control._search import AbstractSearch, Gains
from bidual.control._words import dynamics_stored, sampler_words, signal_words
from bidual.features import Computed
from bidual.models import AbstractDynamics
from bidual.policies import AbstractController, Stored


class Remembered(NamedTuple):
    """Within an episode: where its randomness comes from, and the last plan, whose first row is the last replanning."""

    key: Any  # a JAX key in compiled code, else a word to make it of
    nominal: Float[Any, "T q"]
    gains: Gains  # of the steps until the next replanning

    def answer(self, t: Any, s: Float[Any, "n"]) -> Float[Any, "q"]:  # noqa: ANN401 - a number, traced or not
        """Controls and extras t steps after the plan, and against what has led away from its path since."""
        return self.nominal[t] + self.gains.rows[t] @ (s - self.gains.states[t])


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Receding(AbstractController, AbstractLaw):
    """Plans from the state that was reached, at every `every`-th step, as far ahead as `nominal` is long.

    A plan never looks beyond the horizon: with a nominal sequence as long as the horizon the look-ahead shrinks. The
    first one starts from `nominal`, later ones, where the search is continued, from what is left of the plan before.
    Between plans the gains of the search, where it has any, answer what leads away from the path.
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
        word = np.uint32(rng.integers(2**32))
        return Remembered(word, np.asarray(self.nominal, dtype=np.float32), self._without_gains())

    @float32
    def act(self, memory: Remembered, h: int, s: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "m"], Remembered]:
        """Plan again where it is time to, and take the control of the step."""
        if h % self.every == 0:
            memory = jax.tree.map(np.asarray, _replanned(self, memory, np.int32(h), s))
        return memory.answer(h % self.every, s)[: self.dynamics.sizes[1]].astype(np.float64), memory

    def begin(self, key: Key[Array, ""]) -> Remembered:
        """The same in compiled code."""
        return Remembered(key, jnp.asarray(self.nominal), self._without_gains())

    def control(
        self, memory: Remembered, h: Int[Array, ""], s: Float[Array, "n"]
    ) -> tuple[Float[Array, "m"], Float[Array, "e"], Remembered]:
        """The same in compiled code; extras are those of the plan too."""
        memory = jax.lax.cond(h % self.every == 0, self.replan, lambda memory, h, s: memory, memory, h, s)
        m, now = self.dynamics.sizes[1], memory.answer(h % self.every, s)
        return now[:m], now[m:], memory

    def replan(self, memory: Remembered, h: Int[Array, ""], s: Float[Array, "n"]) -> Remembered:
        """The plan from state s at step h, given the one before."""
        nominal, (centre, _) = memory.nominal, middle(self.dynamics)
        rest = jnp.concatenate([nominal[self.every :], jnp.broadcast_to(centre[None], nominal.shape)])[: len(nominal)]
        later = rest if self.sampler.continued else jnp.broadcast_to(centre[None], rest.shape)
        before = jnp.where(h > 0, later, nominal)
        theta, key = jnp.asarray(self.theta), jr.fold_in(memory.key, h)
        found = self.sampler(self.dynamics, self.features, theta, h, s, key, before)
        gains = self._without_gains() if found.gains is None else Gains(*(part[: self.every] for part in found.gains))
        return Remembered(memory.key, found.nominal, gains)

    def _without_gains(self) -> Gains:
        n, q = self.dynamics.sizes[0], self.nominal.shape[1]
        return Gains(np.zeros((self.every, n), np.float32), np.zeros((self.every, q, n), np.float32))


@jax.jit
def _replanned(controller: Receding, memory: Remembered, h: Int[Array, ""], s: Float[Array, "n"]) -> Remembered:
    return controller.replan(memory._replace(key=jr.key(memory.key)), h, s)._replace(key=memory.key)
