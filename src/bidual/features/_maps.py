"""phi: features of state and control that the next state is linear in. A declaration, and the map that it becomes.

A declaration is what a user writes and a file stores; it does not know yet how long states and controls are. `built`
makes the map for them: a pytree, whose arrays are arguments of compiled code (and may have further axes, where several
are stacked for `jax.vmap`). Over many samples the arrays of a map are shared, so that its products are single ones of
matrices.
"""

import abc
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from numbers import Real
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual._errors import ArchiveError, ModelError
from bidual._keys import check_seed
from bidual._types import float64
from bidual.features._cosine import cosine


class AbstractMap(abc.ABC):
    """phi(s, u), for states and controls of known lengths: a pytree."""

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """How many numbers a state, a control and phi have: n, m, d."""

    @abc.abstractmethod
    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """The features, in compiled code and in the precision of s."""


class AbstractModelFeatures(abc.ABC):
    """The declaration of phi. Equal declarations become equal maps."""

    @property
    @abc.abstractmethod
    def bounded(self) -> bool:
        """Whether no phi is longer than 1, whatever state and control are."""

    @property
    @abc.abstractmethod
    def words(self) -> dict[str, Any]:
        """Name and parameters as JSON values: `read_features` makes the same declaration of them."""

    @abc.abstractmethod
    def built(self, n: int, m: int) -> AbstractMap:
        """The map for states of n numbers and controls of m."""


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
        """Of the frequencies."""
        d, inputs = self.frequencies.shape[-2:]
        return self.n, inputs - self.n, d

    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """One product and one cosine; the vector is on the left, so that samples in a batch are rows of the product."""
        frequencies, phases = (jnp.asarray(part, s.dtype) for part in (self.frequencies, self.phases))
        return cosine(jnp.concatenate([s, u]) @ frequencies.T + phases) * (len(phases) ** -0.5)


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
        """All numbers, and one more with the constant."""
        return self.n, self.m, self.n + self.m + self.constant

    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """One after the other."""
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
        """As declared."""
        return self.n, self.m, self.d

    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """What the function says."""
        return jnp.asarray(self.function(s, u), s.dtype)


@final
@dataclass(frozen=True)
class Fourier(AbstractModelFeatures):
    """Random Fourier features; made by `fourier`."""

    d: int
    bandwidth: float
    seed: int
    scales: tuple[float, ...] | None

    @property
    def bounded(self) -> bool:
        """Each of d numbers is at most 1 / sqrt(d)."""
        return True

    @property
    def words(self) -> dict[str, Any]:
        """All four numbers."""
        return {"name": "fourier"} | asdict(self) | {"scales": None if self.scales is None else list(self.scales)}

    def built(self, n: int, m: int) -> FourierMap:
        """Frequencies and phases drawn from the seed; scales become part of the frequencies."""
        if self.scales is not None and len(self.scales) != n + m:
            raise ModelError(
                f"fourier(scales=...) has {len(self.scales)} numbers, but states have {n} and controls {m}: "
                f"give one scale for each, {n + m} in all"
            )
        rng = np.random.default_rng([self.seed, n, m])
        scales = np.ones(n + m) if self.scales is None else np.array(self.scales)
        frequencies = rng.standard_normal((self.d, n + m)) / (self.bandwidth * scales)
        return FourierMap(frequencies, rng.uniform(0, 2 * np.pi, self.d), n)


@final
@dataclass(frozen=True)
class Linear(AbstractModelFeatures):
    """State and control themselves; made by `linear`."""

    constant: bool

    @property
    def bounded(self) -> bool:
        """They are as long as state and control are."""
        return False

    @property
    def words(self) -> dict[str, Any]:
        """Whether there is a constant."""
        return {"name": "linear", "constant": self.constant}

    def built(self, n: int, m: int) -> LinearMap:
        """Nothing to draw."""
        return LinearMap(n, m, self.constant)


@final
@dataclass(frozen=True)
class Mapped(AbstractModelFeatures):
    """A function of the user; made by `mapped`. Functions are equal where they are the same object."""

    function: Callable[[Array, Array], Array]
    d: int

    @property
    def bounded(self) -> bool:
        """Nobody says so."""
        return False

    @property
    def words(self) -> dict[str, Any]:
        """How many features: the function itself is not stored."""
        return {"name": "mapped", "d": self.d}

    def built(self, n: int, m: int) -> FunctionMap:
        """The function, tried on shapes."""
        inputs = (jax.ShapeDtypeStruct((size,), jnp.float32) for size in (n, m))
        shape = getattr(jax.eval_shape(self.function, *inputs), "shape", None)
        if shape != (self.d,):
            raise ModelError(
                f"mapped(function, d={self.d}) needs a function that gives {self.d} numbers, in an array of shape "
                f"({self.d},), for a state of {n} and a control of {m}; it gives {shape}"
            )
        return FunctionMap(n, m, self.d, self.function)


def fourier(
    d: int = 128, bandwidth: float = 1.0, seed: int = 0, scales: tuple[float, ...] | list[float] | None = None
) -> Fourier:
    """Random Fourier features: cos(w . z + b) / sqrt(d) for d random w and b, with z = (s, u) / scales.

    What is linear in them is close to a function in the space of the Gaussian kernel exp(-|z - z'|^2 / 2 bandwidth^2).
    No phi is longer than 1.

    Args:
        d: how many.
        bandwidth: how far z must go for the next state to change in another way. w is normal with deviation
            1 / bandwidth.
        seed: which w and b are drawn.
        scales: one positive number for every number of the state, then of the control: its size in its own units.
    """
    if scales is not None:
        scales = tuple(float(scale) for scale in scales)
        if not all(0 < scale < np.inf for scale in scales):
            raise ModelError(f"fourier(scales=...) must be positive numbers; got {list(scales)}")
    if not (isinstance(bandwidth, Real) and 0 < bandwidth < np.inf):
        raise ModelError(f"fourier(bandwidth=...) must be a positive number; got {bandwidth!r}")
    return Fourier(_count("fourier", d), float(bandwidth), check_seed(seed), scales)


def linear(constant: bool = False) -> Linear:
    """State and control themselves, for systems s' = A s + B u + noise: exact, and not bounded.

    Args:
        constant: add a feature that is always 1, for s' = A s + B u + c + noise.
    """
    return Linear(bool(constant))


def mapped(function: Callable[[Array, Array], Array], d: int) -> Mapped:
    """Features of your own.

    Args:
        function: of state and control, each a vector; it is traced by JAX, so it must be made of `jax.numpy`
            operations.
        d: how many numbers it gives.
    """
    if not callable(function):
        raise ModelError(f"mapped(function, d) needs a function of state and control; got {function!r:.80}")
    return Mapped(function, _count("mapped", d))


def read_features(words: dict[str, Any], given: AbstractModelFeatures | None = None) -> AbstractModelFeatures:
    """The declaration that was stored as `words`; where it holds a function, `given` must be it."""
    match words["name"]:
        case "fourier":
            return fourier(words["d"], words["bandwidth"], words["seed"], words["scales"])
        case "linear":
            return linear(words["constant"])
        case "mapped":
            if not isinstance(given, Mapped) or given.words != words:
                raise ArchiveError(
                    f"the model's features are a function that gives {words['d']} numbers, and functions are not "
                    "stored in files: give the same bd.features.mapped(function, d) again"
                )
            return given
    raise ArchiveError(f"there are no features named {words['name']!r}: the file is damaged, or from a newer version")


@float64
def features_of(phi: AbstractMap, s: Float[np.ndarray, "k n"], u: Float[np.ndarray, "k m"]) -> Float[np.ndarray, "k d"]:
    """The features of many states and controls, in double precision."""
    # Episodes end when they like, and every other length would be compiled again: lengths are powers of two.
    rows = 1 << (max(len(s), 1) - 1).bit_length()
    padded = (np.concatenate([part, np.zeros((rows - len(part), part.shape[1]))]) for part in (s, u))
    return np.asarray(_rows(phi, *padded))[: len(s)]


@jax.jit
def _rows(phi: AbstractMap, s: Float[Array, "k n"], u: Float[Array, "k m"]) -> Float[Array, "k d"]:
    return jax.vmap(phi)(s, u)


def _count(name: str, d: int) -> int:
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1:
        raise ModelError(f"{name}(d=...) must be a whole number of at least 1; got {d!r}")
    return int(d)
