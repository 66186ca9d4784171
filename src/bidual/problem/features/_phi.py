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
from bidual.problem.features._cosine import compute_cosine


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
