"""Controls and extras as one vector: joined and parted without an empty array where there are no extras.

Never a slice of a concatenation that has no entries: the compiler's simplification of it fails (jaxlib 0.10 and 0.12),
which ends the thread it runs on without a message. Passes over all other functions of the program are then done by
the other threads or, on one core, by none: compilation ends with "no registered implementation ... lapack_ssyevd_ffi".
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def join_extras(u: Float[Array, "*batch m"], e: Float[Array, "*batch e"]) -> Float[Array, "*batch q"]:
    """Return controls and extras as one vector, controls first."""
    return jnp.concatenate([u, e], axis=-1) if e.shape[-1] else u


def split_extras(z: Float[Array, "*batch q"], m: int) -> tuple[Float[Array, "*batch m"], Float[Array, "*batch e"]]:
    """Return the m controls and the extras of a vector of both: the reverse of `join_extras`."""
    if z.shape[-1] == m:
        return z, jnp.zeros((*z.shape[:-1], 0), z.dtype)
    return z[..., :m], z[..., m:]
