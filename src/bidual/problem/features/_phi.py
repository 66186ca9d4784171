"""phi(s, u) as pytrees, whose arrays are arguments of compiled code: what declarations of features build.

Several of one shape can be stacked for `jax.vmap`. Over many samples the arrays of a map are shared, so that its
products are single ones of matrices.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual._base.types import float64

# cos(x) = p((x - 2 pi k)^2) with k the nearest whole number to x / 2 pi and p a polynomial of degree 5, fitted to
# cos(sqrt(t)) on [0, pi^2] with the least largest error, 7.8e-7, and shrunk by as much to stay within [-1, 1] there.
# Only where |x| is so large that k is not exact has it to be clipped: slopes are those of a cosine elsewhere.
# 2 pi is subtracted in two parts (Cody and Waite), the first of which has 8 bits: so k times it is exact in single
# precision while k has at most 16, and nothing is lost where x is hundreds of periods away from 0.
COSINE_ERROR = 2.5e-6  # for |x| up to 1000, in single precision too
_FIRST = 6.28125
_SECOND = 2 * np.pi - _FIRST
_COEFFICIENTS = (
    0.9999984216550645,
    -0.49999386823555353,
    0.04165978888876082,
    -0.001385890478574559,
    2.4204380330000154e-05,
    -2.1978856289613792e-07,
)


class AbstractMap(abc.ABC):
    """phi(s, u), for states and controls of known lengths: a pytree."""

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """The lengths n, m and d of a state, a control and phi."""

    @abc.abstractmethod
    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """Evaluate the features, in compiled code and in the precision of s."""


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class FourierMap(AbstractMap):
    """cos(frequencies (s, u) + phases) / sqrt(d)."""

    frequencies: Float[Any, "... d inputs"]
    phases: Float[Any, "... d"]
    n: int = field(metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The lengths, from the shape of the frequencies."""
        d, inputs = self.frequencies.shape[-2:]
        return self.n, inputs - self.n, d

    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """Evaluate one product and one cosine; the vector is on the left, so that samples of a batch are its rows."""
        frequencies, phases = (jnp.asarray(part, s.dtype) for part in (self.frequencies, self.phases))
        return compute_cosine(jnp.concatenate([s, u]) @ frequencies.T + phases) * (len(phases) ** -0.5)


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class LinearMap(AbstractMap):
    """(s, u), or (s, u, 1)."""

    n: int = field(metadata={"static": True})
    m: int = field(metadata={"static": True})
    constant: bool = field(metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The lengths: d is n + m, and one more with the constant."""
        return self.n, self.m, self.n + self.m + self.constant

    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """Concatenate state, control and constant."""
        return jnp.concatenate([s, u, jnp.ones(int(self.constant), s.dtype)])


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class FunctionMap(AbstractMap):
    """A function of the user."""

    n: int = field(metadata={"static": True})
    m: int = field(metadata={"static": True})
    d: int = field(metadata={"static": True})
    function: Callable[[Array, Array], Array] = field(metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The declared lengths."""
        return self.n, self.m, self.d

    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """Evaluate the user's function."""
        return jnp.asarray(self.function(s, u), s.dtype)


@float64
def compute_features(
    phi: AbstractMap, s: Float[np.ndarray, "k n"], u: Float[np.ndarray, "k m"]
) -> Float[np.ndarray, "k d"]:
    """Compute the features of many states and controls, in double precision."""
    # Episodes have random lengths, and every new length would be compiled again: lengths are powers of two.
    rows = 1 << (max(len(s), 1) - 1).bit_length()
    padded = (np.concatenate([part, np.zeros((rows - len(part), part.shape[1]))]) for part in (s, u))
    return np.asarray(_map_rows(phi, *padded))[: len(s)]


@jax.jit
def _map_rows(phi: AbstractMap, s: Float[Array, "k n"], u: Float[Array, "k m"]) -> Float[Array, "k d"]:
    return jax.vmap(phi)(s, u)


def compute_cosine(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return cos(x) up to `COSINE_ERROR`, and never outside [-1, 1], however large x is.

    It vectorises on CPUs: a model with random Fourier features spends nearly all of its time in cosines.
    """
    k = jnp.round(x * (0.5 / np.pi))
    rest = (x - k * _FIRST) - k * _SECOND
    t = rest * rest
    value = jnp.full_like(t, _COEFFICIENTS[-1])
    for coefficient in reversed(_COEFFICIENTS[:-1]):
        value = value * t + coefficient
    return jnp.clip(value, -1.0, 1.0)
