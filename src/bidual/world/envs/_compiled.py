"""One episode of a known model as one compiled function.

Every choice is made by inverting a cumulative distribution with one uniform number. Only sums of the same numbers in
the same order are compared, so that an episode is the same whether it is simulated alone or in a batch.

Dispatch is most of the time of a short episode, and XLA hands a program of more than about 1000 operations, a loop
counted once, to another thread, which costs more than 30 steps do. So the numbers are drawn in a loop over small
chunks, and long lists are searched by halving.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, Key, Shaped, UInt

from bidual._base.keys import derive_key

CHUNK = 4  # uniform numbers per turn of the loop that draws them
SHORT = 16  # up to this many entries a list is counted through


class TransitionTables(NamedTuple):
    """The model of a simulator: start states and successor lists, with cumulative probabilities."""

    starts: Int[Array, "n"]
    start_sums: Float[Array, "n"]
    states: Int[Array, "next S A K"]
    sums: Float[Array, "law S A K"]
    allowed: Bool[Array, "S A"]


# A policy as it enters compiled code: actions by step and state, or probabilities of them.
Rule = Int[Array, "H S"] | Float[Array, "H S A"]


def _simulate_episode(tables: TransitionTables, rule: Rule, seed_words: UInt[Array, "3"]) -> Int[Array, "packed"]:
    """Simulate H + 1 states, H actions and the first step with an action that its state does not allow, or H."""
    H = rule.shape[0]
    chances = _draw_uniforms(derive_key(seed_words), H + 1 if rule.ndim == 2 else 2 * H + 1)
    start = tables.starts[_pick(tables.start_sums, chances[0])]

    def step(
        now: tuple[Int[Array, ""], Int[Array, ""]], given: tuple[Int[Array, ""], Float[Array, ""], Float[Array, ""]]
    ) -> tuple[tuple[Int[Array, ""], Int[Array, ""]], tuple[Int[Array, ""], Int[Array, ""]]]:
        (state, wrong), (h, chance, whim) = now, given
        action = _act(rule, h, state, whim)
        place = _pick(_take_row(tables.sums, h, state, action), chance)
        arrived = _take_row(tables.states, h, state, action)[place]
        legal = (action >= 0) & (action < tables.allowed.shape[1]) & tables.allowed[state, action]
        return (arrived, jnp.where((wrong == H) & ~legal, h, wrong)), (arrived, action)

    given = (jnp.arange(H, dtype=jnp.int32), chances[1 : H + 1], chances[-H:])  # a plan has no use for the last
    (_, wrong), (arrivals, actions) = jax.lax.scan(step, (start, jnp.int32(H)), given)
    return jnp.concatenate([start[None], arrivals, actions, wrong[None]])


def _draw_member(sums: Float[Array, "k"], seed_words: UInt[Array, "3"]) -> Int[Array, ""]:
    """Draw the member of a mixture that plays the episode, with a number that the episode does not use."""
    return _pick(sums, jr.uniform(jr.fold_in(derive_key(seed_words), 0), dtype=jnp.float64))


def _simulate_episodes(tables: TransitionTables, rule: Rule, seed_words: UInt[Array, "n 3"]) -> Int[Array, "n packed"]:
    """Simulate one after the other: a parallel batch would run twice as fast and compile a second longer."""
    return jax.lax.map(lambda one: _simulate_episode(tables, rule, one), seed_words)


episode = jax.jit(_simulate_episode)
episodes = jax.jit(_simulate_episodes)
member = jax.jit(_draw_member)
members = jax.jit(jax.vmap(_draw_member, in_axes=(None, 0)))


def _draw_uniforms(key: Key[Array, ""], count: int) -> Float[Array, "at_least_count"]:
    """Draw uniform numbers in [0, 1)."""

    def draw(none: None, number: UInt[Array, ""]) -> tuple[None, Float[Array, "chunk"]]:
        return none, jr.uniform(jr.fold_in(key, number), (CHUNK,), dtype=jnp.float64)

    return jax.lax.scan(draw, None, jnp.arange(1, 1 - (-count // CHUNK), dtype=jnp.uint32))[1].ravel()


def _act(rule: Rule, h: Int[Array, ""], state: Int[Array, ""], whim: Float[Array, ""]) -> Int[Array, ""]:
    if rule.ndim == 3:
        return _pick(_sum_from_left(rule[h, state]), whim)
    # Without the barrier XLA widens the whole table of small integers before it takes one of them.
    return jax.lax.optimization_barrier(rule[h, state]).astype(jnp.int32)


def _pick(sums: Float[Array, "n"], chance: Float[Array, ""]) -> Int[Array, ""]:
    """Return the first entry whose cumulative probability exceeds `chance` of the total: never one of probability 0.

    Where there is none, as for sums that are NaN, it is n, which the caller detects as an action that does not exist.
    """
    count, wanted = sums.shape[0], chance * sums[-1]
    if count <= SHORT:
        return jnp.sum(~(sums > wanted), dtype=jnp.int32)
    passed = jnp.int32(0)
    for bit in reversed(range(count.bit_length())):
        further = passed + jnp.int32(1 << bit)
        passed = jnp.where((further <= count) & ~(sums[further - 1] > wanted), further, passed)
    return passed


def _sum_from_left(row: Float[Array, "A"]) -> Float[Array, "A"]:
    """Sum from left to right, as NumPy does: in another order the sums could rise at an entry of 0."""

    def add(total: Float[Array, ""], entry: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return total + entry, total + entry

    return jax.lax.scan(add, jnp.zeros((), row.dtype), row, unroll=8)[1]


def _take_row(
    array: Shaped[Array, "steps S A K"], h: Int[Array, ""], state: Int[Array, ""], action: Int[Array, ""]
) -> Shaped[Array, "K"]:
    """Return one row, whether there is one law or one for every step."""
    return array[h if array.shape[0] > 1 else 0, state, action]
