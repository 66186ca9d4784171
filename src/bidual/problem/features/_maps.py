"""phi: features of state and control that the next state is linear in, as declarations and as maps.

A declaration is written by the user and stored in files; it does not know the lengths of states and controls.
`build_map` returns the map for them.
"""

import abc
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual._base.errors import ArchiveError, ModelError
from bidual._base.keys import check_seed
from bidual.problem.features._phi import AbstractMap, FourierMap, FunctionMap, LinearMap

SEEN = "seen"  # scales that are not given but observed


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
@dataclass(frozen=True)
class Fourier(AbstractModelFeatures):
    """Random Fourier features; constructed by `fourier`."""

    d: int
    bandwidth: float
    seed: int
    scales: tuple[float, ...] | str | None

    @property
    def bounded(self) -> bool:
        """True: each of d numbers is at most 1 / sqrt(d)."""
        return True

    @property
    def header(self) -> dict[str, Any]:
        """The name and all four parameters."""
        return (
            {"name": "fourier"}
            | asdict(self)
            | {"scales": list(self.scales) if isinstance(self.scales, tuple) else self.scales}
        )

    @property
    def fits_scales(self) -> bool:
        """Whether scales are those of what is seen."""
        return self.scales == SEEN

    def fit_map(self, scales: Float[np.ndarray, "inputs"], n: int) -> FourierMap:
        """Return the map with these scales."""
        return replace(self, scales=tuple(scales.tolist())).build_map(n, scales.size - n)

    def build_map(self, n: int, m: int) -> FourierMap:
        """Draw frequencies and phases from the seed; scales become part of the frequencies, 1 before they are known."""
        given = self.scales if isinstance(self.scales, tuple) else (1.0,) * (n + m)
        if len(given) != n + m:
            raise ModelError(
                f"fourier(scales=...) has {len(given)} numbers, but states have {n} and controls {m}: "
                f"give one scale for each, {n + m} in all"
            )
        rng = np.random.default_rng([self.seed, n, m])
        frequencies = rng.standard_normal((self.d, n + m)) / (self.bandwidth * np.array(given))
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
    d: int = 128,
    bandwidth: float = 1.0,
    seed: int = 0,
    scales: tuple[float, ...] | list[float] | Literal["seen"] | None = None,
) -> Fourier:
    """Declare random Fourier features: cos(w . z + b) / sqrt(d) for d random w and b, with z = (s, u) / scales.

    Linear functions of them approximate functions in the space of the Gaussian kernel exp(-|z - z'|^2 / 2 bandwidth^2).
    No phi is longer than 1.

    Args:
        d: the number of features.
        bandwidth: the length scale of z over which the dynamics vary. w is normal with deviation 1 / bandwidth.
        seed: the seed of w and b.
        scales: one positive number for every number of the state, then of the control: its size in its own units. Or
            "seen": of a state variable half the range that the first episodes of a run show, at most half of the range
            that the environment declares, and of a control half of its limits.
    """
    if isinstance(scales, str) and scales != SEEN:
        raise ModelError(f"fourier(scales=...) must be positive numbers or {SEEN!r}; got {scales!r:.80}")
    if scales is not None and not isinstance(scales, str):
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


def _count(name: str, d: int) -> int:
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1:
        raise ModelError(f"{name}(d=...) must be a whole number of at least 1; got {d!r}")
    return int(d)
