"""Signals written in JAX, so that a model's rollouts can evaluate them as well as an environment."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual._base.types import Successors
from bidual.problem.features._base import AbstractFeatures, FeaturePart, Observed, Pieces, Psi
from bidual.problem.features._expressions import read_expression

Function = Callable[[Array, Array, Array], Array]


class Recipe(NamedTuple):
    """A signal that a file can store: the kind and settings as JSON values, and arrays."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Quadratic(NamedTuple):
    """x' form x + 2 slope . x + constant, x = (obs, control, next_obs)."""

    form: Float[np.ndarray, "x x"]
    slope: Float[np.ndarray, "x"]
    constant: float


@final
@dataclass(frozen=True, eq=False)
class Signal:
    """A function of one transition; constructed by `signal`, `rbf` or `quadratic`."""

    __repr__ = describe_briefly

    function: Function
    low: float
    high: float
    size: int | None  # None: a single number
    quadratic: Quadratic | None = None  # the function before clipping to its bounds
    recipe: Recipe | None = None  # None: a function of the user, which no file stores

    def value(
        self, obs: Float[Array, "n"], control: Float[Array, "m"], next_obs: Float[Array, "n"]
    ) -> Float[Array, "size"]:
        """Evaluate the function, clipped to its bounds."""
        entries = jnp.asarray(self.function(obs, control, next_obs))
        return jnp.clip(entries.reshape(1 if self.size is None else self.size), self.low, self.high)


@final
@dataclass(frozen=True, eq=False)
class Computed(AbstractFeatures):
    """One part per named function; every number of it is a feature. After the end of an episode all are 0."""

    __repr__ = describe_briefly

    names: tuple[str, ...]
    signals: tuple[Signal, ...]

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """One part per function, a number or a vector."""
        sizes = [signal.size or 1 for signal in self.signals]
        starts = np.cumsum([0, *sizes])
        return tuple(
            FeaturePart(name, int(start), () if signal.size is None else (signal.size,))
            for name, start, signal in zip(self.names, starts, self.signals, strict=False)
        )

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
        """The least and the largest value of every feature, infinite where none was declared."""
        sizes = [signal.size or 1 for signal in self.signals]
        ends = [[signal.low, signal.high] for signal in self.signals]
        low, high = np.repeat(np.array(ends), sizes, axis=0).T
        return low, high

    def values(
        self, obs: Float[Array, "n"], control: Float[Array, "m"], next_obs: Float[Array, "n"]
    ) -> Float[Array, "p"]:
        """Return every feature of one transition, in compiled code."""
        return jnp.concatenate([signal.value(obs, control, next_obs) for signal in self.signals])

    def stage(self, successors: Successors) -> Psi:
        """Raise `ModelError`: states of a known finite model have no observations."""
        raise ModelError(
            "signals that are computed from observations need an environment with vectors to observe, and "
            "bd.models.KNR(...) to learn it; a finite model needs arrays, bd.features.signals(...)"
        )

    def pieces(self, shape: tuple[int, int, int]) -> Pieces:
        """Return every feature as one that the environment reports: there is no table of states to compute it from."""
        del shape
        low, high = self.bounds
        entries = tuple(
            (position, Observed(_refuse_call, float(least), float(most)))
            for position, (least, most) in enumerate(zip(low, high, strict=True))
        )
        return Pieces(np.zeros((1, self.dimension, 1, 1)), observed=entries)


def signal(
    function: Function | str, low: float | None = None, high: float | None = None, *, size: int | None = None
) -> Signal:
    """Declare a function of one transition, written in JAX, with the bounds that its values are clipped to.

    Args:
        function: of observation, control and next observation, each a vector; it is traced by JAX, so it must
            consist of `jax.numpy` operations. Or a text over ``obs``, ``control`` and ``next_obs``, such as
            ``"cos(next_obs[2]) - 0.1 * sum(control**2)"``: that is stored with a policy, and a function is not.
        low: values below are raised to it. Only signals bounded on both sides can be certified from episodes.
        high: values above are lowered to it.
        size: the number of its values, where it is a vector of features.
    """
    ends = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    if np.isnan(ends).any() or ends[0] > ends[1]:
        raise ModelError(f"a signal needs bounds low <= high; got [{low}, {high}]")
    if size is not None and not (isinstance(size, int) and not isinstance(size, bool) and size >= 1):
        raise ModelError(f"size must be a whole number of at least 1, or None for a single number; got {size!r}")
    if isinstance(function, str):
        return Signal(read_expression(function), *ends, size, recipe=Recipe({"kind": "text", "text": function}, {}))
    return Signal(function, *ends, size)


def rbf(centres: ArrayLike, width: float, *, of: tuple[int, ...] | None = None) -> Signal:
    """Declare radial basis functions of the next observation: its nearness to each centre, from 0 to 1.

    Args:
        centres: the points of the maxima, one row each.
        width: their deviation: exp(-distance^2 / (2 width^2)).
        of: the indices of the entries of the observation that count; None: all of them.
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

    indices = None if of is None else [int(i) for i in of]
    recipe = Recipe({"kind": "rbf", "width": float(width), "of": indices}, {"centres": middles})
    return replace(signal(bumps, 0.0, 1.0, size=len(middles)), recipe=recipe)


def quadratic(
    form: ArrayLike,
    slope: ArrayLike | None = None,
    constant: float = 0.0,
    *,
    low: float | None = None,
    high: float | None = None,
) -> Signal:
    """Declare x' form x + 2 slope . x + constant of x = (observation, control, next observation), concatenated.

    Such a signal is known to be quadratic: under linear dynamics its expectation has a lower bound over all policies,
    unless the signal is clipped to bounds that it can reach.

    Args:
        form: a square matrix, of which the symmetric part counts.
        slope: by default 0.
        constant: the value at x = 0.
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

    def evaluate_form(obs: Array, control: Array, next_obs: Array) -> Array:
        x = jnp.concatenate([obs, control, next_obs])
        if len(x) != len(known.slope):
            raise ModelError(
                f"a quadratic signal has a form of {len(known.slope)} rows, but observation, control and next "
                f"observation are {len(obs)} + {len(control)} + {len(next_obs)} numbers: give one row for each"
            )
        F, f = (jnp.asarray(part, x.dtype) for part in known[:2])
        return x @ F @ x + 2 * f @ x + jnp.asarray(known.constant, x.dtype)

    recipe = Recipe({"kind": "quadratic", "constant": known.constant}, {"form": known.form, "slope": known.slope})
    return replace(signal(evaluate_form, low, high), quadratic=known, recipe=recipe)


def read_signal(recipe: Recipe, low: float | None, high: float | None, size: int | None) -> Signal:
    """Return the signal of a stored recipe, with its bounds and size; raise `ModelError` where there is none such."""
    (header, arrays), signals = recipe, []
    match header.get("kind"):
        case "text" if isinstance(header.get("text"), str):
            signals = [signal(header["text"], low, high, size=size)]
        case "rbf":
            of = header["of"] if header["of"] is None else tuple(int(i) for i in header["of"])
            signals = [rbf(arrays["centres"], float(header["width"]), of=of)]
        case "quadratic":
            form, slope = arrays["form"], arrays["slope"]
            signals = [quadratic(form, slope, float(header["constant"]), low=low, high=high)]
    ends = [(one.low, one.high, one.size) for one in signals]
    wanted = (-np.inf if low is None else low, np.inf if high is None else high, size)
    if ends != [wanted]:
        raise ModelError(f"a stored signal of kind {header.get('kind')!r:.40} has other bounds or sizes, or is unknown")
    return signals[0]


def computed(**named: Signal | Function | str) -> Computed:
    """Declare named signals as features, for environments whose observations are vectors.

    Args:
        **named: for each name a function of observation, control and next observation, written in JAX, the same as
            text, or a result of `signal`, `rbf` or `quadratic`.
    """
    if not named:
        raise ModelError("computed() needs at least one named function, for example computed(cost=lambda x, u, y: ...)")
    return Computed(tuple(named), tuple(one if isinstance(one, Signal) else signal(one) for one in named.values()))


def _refuse_call(*_: object) -> float:
    raise AssertionError("computed signals are read by the environment of controls itself")
