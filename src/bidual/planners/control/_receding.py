"""Receding-horizon control: a controller that contains a model and replans in it during an episode."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Key

from bidual._base.types import float32
from bidual.models import AbstractDynamics, describe_signals
from bidual.planners.control._describe import describe_sampler, draw_transitions, store_dynamics
from bidual.planners.control._extras import split_extras
from bidual.planners.control._recipes import store_recipes, write_as_texts
from bidual.planners.control._rollouts import AbstractLaw
from bidual.planners.control._sampling import find_middle
from bidual.planners.control._search import AbstractSearch, Gains, Subproblem
from bidual.problem.features import Computed
from bidual.world.policies import AbstractController, StoredController


class RecedingMemory(NamedTuple):
    """The memory of an episode: its source of randomness, and the last plan, whose first row is the last replanning."""

    key: Any  # a JAX key in compiled code, else the seed word of one
    nominal: Float[Any, "T q"]
    gains: Gains  # of the steps until the next replanning

    def answer(self, t: Any, s: Float[Any, "n"]) -> Float[Any, "q"]:  # noqa: ANN401 - a number, traced or not
        """Return controls and extras t steps after the plan, with feedback against deviations from its path."""
        return self.nominal[t] + self.gains.rows[t] @ (s - self.gains.states[t])


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Receding(AbstractController, AbstractLaw):
    """A controller that replans from the present state at every `every`-th step, as far ahead as `nominal` is long.

    A plan ends at the horizon: with a nominal sequence as long as the horizon the planning horizon shrinks. The first
    one starts from `nominal`, later ones, where the search is continued, from the rest of the plan before. Between
    plans the gains of the search, where it has any, correct deviations from the path.
    """

    dynamics: AbstractDynamics
    theta: Float[Any, "H p"]
    nominal: Float[Any, "T q"]  # of controls and extras
    features: Computed = field(metadata={"static": True})
    sampler: AbstractSearch = field(metadata={"static": True})
    every: int = field(default=1, metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes (H, n, m)."""
        n, m, _ = self.dynamics.sizes
        return self.theta.shape[0], n, m

    @property
    def fingerprint(self) -> bytes:
        """A digest of its numbers and settings, and of the names of its signals, but not of their functions."""
        arrays = [np.asarray(leaf) for leaf in (*jax.tree_util.tree_leaves(self.dynamics), self.theta, self.nominal)]
        ends = [(signal.low, signal.high, signal.size) for signal in self.features.signals]
        description = (type(self.dynamics).__name__, self.features.names, ends, self.sampler, self.every)
        shapes = [(one.shape, one.dtype.str) for one in arrays]
        return blake2b(repr((description, shapes)).encode() + b"".join(one.tobytes() for one in arrays)).digest()

    @property
    def stored(self) -> StoredController:
        """The stored form: the model, and the names, bounds, sizes and recipes of the signals."""
        description, arrays = store_dynamics(self.dynamics)
        settings = {"sampler": describe_sampler(self.sampler), "every": self.every}
        header = {"name": "receding", "signals": describe_signals(self.features), "dynamics": description} | settings
        recipes, tables = store_recipes(self.features)
        header, arrays = header | recipes, arrays | tables
        return StoredController(header, arrays | {"theta": np.asarray(self.theta), "nominal": np.asarray(self.nominal)})

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of its signals that have no recipe."""
        pairs = zip(self.features.names, self.features.signals, strict=True)
        return tuple(name for name, one in pairs if one.recipe is None)

    def with_texts(self, texts: Mapping[str, str]) -> "Receding":
        """Return the controller with texts of the same values in the place of functions."""
        return replace(self, features=write_as_texts(self.features, texts, draw_transitions(self.dynamics)))

    def start(self, rng: np.random.Generator) -> RecedingMemory:
        """Draw one seed word, the source of all randomness of the episode's replanning."""
        word = np.uint32(rng.integers(2**32))
        return RecedingMemory(word, np.asarray(self.nominal, dtype=np.float32), self._drop_gains())

    @float32
    def act(
        self, memory: RecedingMemory, h: int, s: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "m"], RecedingMemory]:
        """Replan where it is due, and return the control of the step."""
        if h % self.every == 0:
            memory = jax.tree.map(np.asarray, _replan(self, memory, np.int32(h), s))
        return memory.answer(h % self.every, s)[: self.dynamics.sizes[1]].astype(np.float64), memory

    def begin(self, key: Key[Array, ""]) -> RecedingMemory:
        """Return the first memory in compiled code."""
        return RecedingMemory(key, jnp.asarray(self.nominal), self._drop_gains())

    def control(
        self, memory: RecedingMemory, h: Int[Array, ""], s: Float[Array, "n"]
    ) -> tuple[Float[Array, "m"], Float[Array, "e"], RecedingMemory]:
        """Act in compiled code, with the extras of the plan as well."""
        memory = jax.lax.cond(h % self.every == 0, self.replan, lambda memory, h, s: memory, memory, h, s)
        return *split_extras(memory.answer(h % self.every, s), self.dynamics.sizes[1]), memory

    def replan(self, memory: RecedingMemory, h: Int[Array, ""], s: Float[Array, "n"]) -> RecedingMemory:
        """Plan from state s at step h, given the plan before."""
        nominal, (centre, _) = memory.nominal, find_middle(self.dynamics)
        rest = jnp.concatenate([nominal[self.every :], jnp.broadcast_to(centre[None], nominal.shape)])[: len(nominal)]
        later = rest if self.sampler.continued else jnp.broadcast_to(centre[None], rest.shape)
        before = jnp.where(h > 0, later, nominal)
        theta, key = jnp.asarray(self.theta), jr.fold_in(memory.key, h)
        problem = Subproblem.ahead(self.dynamics, self.features, theta, h, s, len(before))
        found = self.sampler(problem, key, before)
        gains = self._drop_gains() if found.gains is None else Gains(*(part[: self.every] for part in found.gains))
        return RecedingMemory(memory.key, found.nominal, gains)

    def _drop_gains(self) -> Gains:
        n, q = self.dynamics.sizes[0], self.nominal.shape[1]
        return Gains(np.zeros((self.every, n), np.float32), np.zeros((self.every, q, n), np.float32))


@jax.jit
def _replan(controller: Receding, memory: RecedingMemory, h: Int[Array, ""], s: Float[Array, "n"]) -> RecedingMemory:
    return controller.replan(memory._replace(key=jr.key(memory.key)), h, s)._replace(key=memory.key)
