"""Sources of randomness: every draw depends on a seed, a purpose and a number, and on nothing else.

So an episode can be run again, or elsewhere, without running those before it.
"""

from enum import IntEnum
from hashlib import blake2b
from struct import pack
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Key, UInt

from bidual._base.errors import ProblemError


class Purpose(IntEnum):
    """The purpose of a draw. Numbers are part of the meaning of a seed: never change them."""

    PLAN = 0  # which model is drawn from the posterior, which member of a mixture is played
    LEARN = 1  # episodes to learn from
    EVALUATE = 2  # fresh episodes to evaluate a policy with
    AFTERWARDS = 3  # likewise, of a policy that was stored
    INSERT = 4  # actions at random in episodes to learn from
    SHOW = 5  # episodes that are drawn in a figure, and nothing else


class Draw(NamedTuple):
    """One source of randomness."""

    seed: int
    purpose: Purpose
    number: int

    def generator(self) -> np.random.Generator:
        """Return a NumPy generator."""
        return np.random.default_rng([self.seed, int(self.purpose), self.number])

    def uniform(self) -> float:
        """Draw a single number in [0, 1), at a hundredth of the cost of a generator."""
        digest = blake2b(pack("<QQQ", self.seed, int(self.purpose), self.number), digest_size=8).digest()
        return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

    def integers(self) -> tuple[int, int]:
        """Return two seeds below 2**31: one for an environment, one for the policy that acts in it."""
        first, second = np.random.SeedSequence([self.seed, int(self.purpose), self.number]).generate_state(2)
        return int(first >> 1), int(second >> 1)

    def seed_words(self) -> UInt[np.ndarray, "3"]:
        """Return the three numbers as an array, for `derive_key` in compiled code: eager JAX calls are slow."""
        return np.array([self.seed, int(self.purpose), self.number], dtype=np.uint32)


def derive_key(seed_words: UInt[Array, "3"]) -> Key[Array, ""]:
    """Return the JAX key of a draw, inside compiled code."""
    return jax.lax.fori_loop(
        1, 3, lambda i, key: jr.fold_in(key, seed_words[i]), jr.key(seed_words[0].astype(jnp.uint32))
    )


def check_seed(seed: int) -> int:
    """Check that a seed is a whole number that fits in 32 bits, and return it."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ProblemError(f"the seed must be a whole number from 0 to 2**32 - 1; got {seed!r}")
    return int(seed)
