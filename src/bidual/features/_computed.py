"""Signals that a model's rollouts can be asked for as well as an environment: functions written in JAX."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from bidual._errors import ModelError
from bidual._types import Successors
from bidual.features._base import AbstractFeatures, Observed, Part, Pieces, Psi

Function = Callable[[Array, Array, Array], Array]


class Quadratic(NamedTuple):
    """x' form x + 2 slope . x + constant, x = (obs, control, next_obs)."""

    form: Float[np.ndarray, "x x"]
    slope: Float[np.ndarray, "x"]
    constant: float


@final
@dataclass(frozen=True, eq=False)
class Signal:
    """A function of one transition; made by `signal`, `rbf` or `quadratic`."""

    function: Function
    low: float
    high: float
    size: int | None  # None: a single number
    quadratic: Quadratic | None = None  # what the function is, before it is held to its bounds

    def value(
        self, obs: Float[Array, "n"], control: Float[Array, "m"], next_obs: Float[Array, "n"]
    ) -> Float[Array, "size"]:
        """What it pays, held to its bounds."""
        told = jnp.asarray(self.function(obs, control, next_obs))
        return jnp.clip(told.reshape(1 if self.size is None else self.size), self.low, self.high)


@final
@dataclass(frozen=True, eq=False)
class Computed(AbstractFeatures):
    """One part per named function; every number of it is a feature. After the end of an episode all are 0."""

    names: tuple[str, ...]
    signals: tuple[Signal, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """One part per function, a number or a vector."""
        sizes = [signal.size or 1 for signal in self.signals]
        starts = np.cumsum([0, *sizes])
        return tuple(
            Part(name, int(start), () if signal.size is None else (signal.size,))
            for name, start, signal in zip(self.names, starts, self.signals, strict=False)
        )

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
        """The least and the largest value of every feature, infinite where nothing was declared."""
        sizes = [signal.size or 1 for signal in self.signals]
        ends = [[signal.low, signal.high] for signal in self.signals]
        low, high = np.repeat(np.array(ends), sizes, axis=0).T
        return low, high

    def values(
        self, obs: Float[Array, "n"], control: Float[Array, "m"], next_obs: Float[Array, "n"]
    ) -> Float[Array, "p"]:
        """Every feature of one transition, in compiled code."""
        return jnp.concatenate([signal.value(obs, control, next_obs) for signal in self.signals])

    def stage(self, successors: Successors) -> Psi:
        """Refused: states of a known finite model have no observations."""
        raise ModelError(
            "signals that are computed from observations need an environment with vectors to observe, and "
            "bd.models.KNR(...) to learn it; a finite model needs arrays, bd.features.signals(...)"
        )

    def pieces(self, shape: tuple[int, int, int]) -> Pieces:
        """Every feature as one that the environment tells: there is no table of states to look it up in."""
        del shape
        low, high = self.bounds
        told = tuple(
            (position, Observed(_by_environment, float(least), float(most)))
            for position, (least, most) in enumerate(zip(low, high, strict=True))
        )
        return Pieces(np.zeros((1, self.dimension, 1, 1)), observed=told)


def signal(
    function: Function, low: float | None = None, high: float | None = None, *, size: int | None = None
) -> Signal:
    """A function of one transition, written in JAX, and what its values are held to.

    Args:
        function: of observation, control and next observation, each a vector; it is traced by JAX, so it must be made
            of `jax.numpy` operations.
        low: values below are raised to it. Only what is bounded on both sides can be certified from episodes.
        high: values above are lowered to it.
        size: how many numbers it gives, where it is a vector of features.
    """
    ends = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    if np.isnan(ends).any() or ends[0] > ends[1]:
        raise ModelError(f"a signal needs bounds low <= high; got [{low}, {high}]")
    if size is not None and not (isinstance(size, int) and not isinstance(size, bool) and size >= 1):
        raise ModelError(f"size must be a whole number of at least 1, or None for a single number; got {size!r}")
    return Signal(function, *ends, size)


def rbf(centres: ArrayLike, width: float, *, of: tuple[int, ...] | None = None) -> Signal:
    """Bumps around centres, of the observation that a step leads to: how near it is to each, from 0 to 1.

    Args:
        centres: where the bumps are highest, one row each.
        width: their deviation: exp(-distance^2 / (2 width^2)).
        of: the places in the observation of the numbers that count; None: all of them.
    """
    middles = np.asarray(centres, dtype=np.float64)
    if middles.ndim != 2 or middles.size == 0 or not np.isfinite(middles).all():
        raise ModelError(f"centres must be finite numbers of shape (p, n), one row each; got shape {middles.shape}")
    if not 0 < width < np.inf:
        raise ModelError(f"width must be a positive number; got {width!r}")
    if of is not None and len(of) != middles.shape[1]:
        raise ModelError(f"centres have {middles.shape[1]} numbers each, but `of` names {len(of)}: give one place each")

    def bumps(obs: Array, control: Array, next_obs: Array) -> Array:
        del obs, control
        place = next_obs if of is None else jnp.stack([next_obs[i] for i in of])
        offsets = place[None] - jnp.asarray(middles, dtype=place.dtype)
        return jnp.exp(-0.5 * jnp.sum(offsets**2, axis=1) / width**2)

    return signal(bumps, 0.0, 1.0, size=len(middles))


def quadratic(
    form: ArrayLike,
    slope: ArrayLike | None = None,
    constant: float = 0.0,
    *,
    low: float | None = None,
    high: float | None = None,
) -> Signal:
    """X' form x + 2 slope . x + constant of x = (observation, control, next observation), one after the other.

    What is declared so is known to be quadratic: under linear dynamics there is a bound on what any policy pays, unless
    the signal is held to ends that it can reach.

    Args:
        form: a square matrix, of which the symmetric part counts.
        slope: by default 0.
        constant: what is paid at x = 0.
        low: values below are raised to it.
        high: values above are lowered to it.
    """
    matrix = np.asarray(form, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ModelError(f"form must be a square matrix of finite numbers; got shape {matrix.shape}")
    line = np.zeros(len(matrix)) if slope is None else np.asarray(slope, dtype=np.float64)
    if line.shape != (len(matrix),) or not np.isfinite([*line, constant]).all():
        raise ModelError(f"slope must be {len(matrix)} finite numbers, as many as form has rows, and constant one")
    known = Quadratic((matrix + matrix.T) / 2, line, float(constant))

    def paid(obs: Array, control: Array, next_obs: Array) -> Array:
        x = jnp.concatenate([obs, control, next_obs])
        if len(x) != len(known.slope):
            raise ModelError(
                f"a quadratic signal has a form of {len(known.slope)} rows, but observation, control and next "
                f"observation are {len(obs)} + {len(control)} + {len(next_obs)} numbers: give one row for each"
            )
        F, f = (jnp.asarray(part, x.dtype) for part in known[:2])
        return x @ F @ x + 2 * f @ x + jnp.asarray(known.constant, x.dtype)

    return replace(signal(paid, low, high), quadratic=known)


def computed(**named: Signal | Function) -> Computed:
    """Named signals as features, for environments whose observations are vectors.

    Args:
        **named: for each name a function of observation, control and next observation, written in JAX, or what
            `signal`, `rbf` or `quadratic` make.
    """
    if not named:
        raise ModelError("computed() needs at least one named function, for example computed(cost=lambda x, u, y: ...)")
    return Computed(tuple(named), tuple(one if isinstance(one, Signal) else signal(one) for one in named.values()))


def _by_environment(*_: object) -> float:
    raise AssertionError("computed signals are read by the environment of controls itself")
