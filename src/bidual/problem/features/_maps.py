"""phi: features of state and control that the next state is linear in, as declarations and as maps.

A declaration is written by the user and stored in files; it does not know the lengths of states and controls. `built`
returns the map for them: a pytree, whose arrays are arguments of compiled code (and may have further axes, where
several are stacked for `jax.vmap`). Over many samples the arrays of a map are shared, so that its products are single
ones of matrices.
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

from bidual._base.errors import ArchiveError, ModelError
from bidual._base.keys import check_seed
from bidual._base.types import float64
from bidual.problem.features._cosine import cosine


class AbstractMap(abc.ABC):
    """phi(s, u), for states and controls of known lengths: a pytree."""

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """The lengths n, m and d of a state, a control and phi."""

    @abc.abstractmethod
    def __call__(self, s: Float[Array, "n"], u: Float[Array, "m"]) -> Float[Array, "d"]:
        """Evaluate the features, in compiled code and in the precision of s."""


class AbstractModelFeatures(abc.ABC):
    """A declaration of phi. Equal declarations give equal maps."""

    @property
    @abc.abstractmethod
    def bounded(self) -> bool:
        """Whether |phi| <= 1 for every state and control."""

    @property
    @abc.abstractmethod
    def header(self) -> dict[str, Any]:
        """The name and the parameters as JSON values, which `read_features` turns into the same declaration."""

    @abc.abstractmethod
    def build_map(self, n: int, m: int) -> AbstractMap:
        """Return the map for states of n numbers and controls of m."""


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


@final
@dataclass(frozen=True)
class Fourier(AbstractModelFeatures):
    """Random Fourier features; constructed by `fourier`."""

    d: int
    bandwidth: float
    seed: int
    scales: tuple[float, ...] | None

    @property
    def bounded(self) -> bool:
        """True: each of d numbers is at most 1 / sqrt(d)."""
        return True

    @property
    def header(self) -> dict[str, Any]:
        """The name and all four parameters."""
        return {"name": "fourier"} | asdict(self) | {"scales": None if self.scales is None else list(self.scales)}

    def build_map(self, n: int, m: int) -> FourierMap:
        """Draw frequencies and phases from the seed; scales become part of the frequencies."""
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
    """State and control themselves; constructed by `linear`."""

    constant: bool

    @property
    def bounded(self) -> bool:
        """False: phi is as long as state and control."""
        return False

    @property
    def header(self) -> dict[str, Any]:
        """The name and whether there is a constant."""
        return {"name": "linear", "constant": self.constant}

    def build_map(self, n: int, m: int) -> LinearMap:
        """Return the map; nothing is random."""
        return LinearMap(n, m, self.constant)


@final
@dataclass(frozen=True)
class Mapped(AbstractModelFeatures):
    """A function of the user; constructed by `mapped`. Functions are equal if they are the same object."""

    function: Callable[[Array, Array], Array]
    d: int

    @property
    def bounded(self) -> bool:
        """False: no bound is declared."""
        return False

    @property
    def header(self) -> dict[str, Any]:
        """The name and the number of features: the function itself is not stored."""
        return {"name": "mapped", "d": self.d}

    def build_map(self, n: int, m: int) -> FunctionMap:
        """Return the map after checking the function's output shape."""
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
    """Declare random Fourier features: cos(w . z + b) / sqrt(d) for d random w and b, with z = (s, u) / scales.

    Linear functions of them approximate functions in the space of the Gaussian kernel exp(-|z - z'|^2 / 2 bandwidth^2).
    No phi is longer than 1.

    Args:
        d: the number of features.
        bandwidth: the length scale of z over which the dynamics vary. w is normal with deviation 1 / bandwidth.
        seed: the seed of w and b.
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
    """Declare state and control themselves as features, for systems s' = A s + B u + noise: exact, and not bounded.

    Args:
        constant: add a feature that is always 1, for s' = A s + B u + c + noise.
    """
    return Linear(bool(constant))


def mapped(function: Callable[[Array, Array], Array], d: int) -> Mapped:
    """Declare features of your own.

    Args:
        function: of state and control, each a vector; it is traced by JAX, so it must consist of
            `jax.numpy` operations.
        d: the number of its values.
    """
    if not callable(function):
        raise ModelError(f"mapped(function, d) needs a function of state and control; got {function!r:.80}")
    return Mapped(function, _count("mapped", d))


def read_features(header: dict[str, Any], given: AbstractModelFeatures | None = None) -> AbstractModelFeatures:
    """Read the declaration stored as `words`; where it holds a function, `given` must be that declaration."""
    match header["name"]:
        case "fourier":
            return fourier(header["d"], header["bandwidth"], header["seed"], header["scales"])
        case "linear":
            return linear(header["constant"])
        case "mapped":
            if not isinstance(given, Mapped) or given.header != header:
                raise ArchiveError(
                    f"the model's features are a function that gives {header['d']} numbers, and functions are not "
                    "stored in files: give the same bd.features.mapped(function, d) again"
                )
            return given
    raise ArchiveError(f"there are no features named {header['name']!r}: the file is damaged, or from a newer version")


@float64
def features_of(phi: AbstractMap, s: Float[np.ndarray, "k n"], u: Float[np.ndarray, "k m"]) -> Float[np.ndarray, "k d"]:
    """Compute the features of many states and controls, in double precision."""
    # Episodes have random lengths, and every new length would be compiled again: lengths are powers of two.
    rows = 1 << (max(len(s), 1) - 1).bit_length()
    padded = (np.concatenate([part, np.zeros((rows - len(part), part.shape[1]))]) for part in (s, u))
    return np.asarray(_map_rows(phi, *padded))[: len(s)]


@jax.jit
def _map_rows(phi: AbstractMap, s: Float[Array, "k n"], u: Float[Array, "k m"]) -> Float[Array, "k d"]:
    return jax.vmap(phi)(s, u)


def _count(name: str, d: int) -> int:
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1:
        raise ModelError(f"{name}(d=...) must be a whole number of at least 1; got {d!r}")
    return int(d)
