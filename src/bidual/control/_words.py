"""What controllers plan with, as JSON values and arrays, and back: samplers, signals, and dynamics with their map.

Functions are not stored. Of signals there are names, bounds and sizes, of a map that is a function its size: whoever
reads a file gives them again.
"""

from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bidual._errors import ArchiveError, PolicyError
from bidual.control._descent import Descent
from bidual.control._sampling import Elites, Exponential, Sampling
from bidual.control._search import AbstractSearch, Chain
from bidual.features import (
    AbstractMap,
    AbstractModelFeatures,
    Computed,
    FourierMap,
    FunctionMap,
    LinearMap,
    linear,
    read_features,
)
from bidual.models import AbstractDynamics, Ellipsoid, Regressed
from bidual.policies import Stored

_NUMBERS = tuple(field.name for field in fields(Sampling) if field.name not in ("utility", "keep", "warm"))
_SWITCHES = ("keep", "warm")


class Given(NamedTuple):
    """The functions that a file names: signals, and the map of the model where that is one."""

    features: Computed | None = None
    model_features: AbstractModelFeatures | None = None


def array_of(arrays: dict[str, np.ndarray], name: str, *shape: int | None, bounded: bool = True) -> np.ndarray:
    """The array of that name; `ValueError` where it has another shape (None: of any length) or no numbers."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(size in (None, own) for size, own in zip(shape, array.shape, strict=True))
    numbers = array.dtype in (np.float32, np.float64) and not np.isnan(array).any()
    if not (fits and numbers and (not bounded or np.isfinite(array).all())):
        raise ValueError(f"{name} is of shape {array.shape}, or holds what is no number")
    return array


def whole(number: object, least: int, most: int | None = None) -> int:
    """A whole number within limits, `ValueError` for anything else."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least or number > (most or number):
        raise ValueError(f"{number!r:.40} is no number from {least} on" + (f" to {most}" if most else ""))
    return number


def switch(value: object) -> bool:
    """True or False, `ValueError` for anything else."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is neither true nor false")
    return value


def sampler_words(sampler: AbstractSearch) -> dict[str, Any]:
    """All settings."""
    match sampler:
        case Chain(first, second):
            return {"chain": [sampler_words(first), sampler_words(second)]}
        case Descent(steps):
            return {"descent": int(steps)}
        case Sampling():
            return _sampling_words(sampler)
    raise TypeError(f"{type(sampler).__name__} is no search that a file can hold")


def read_sampler(words: dict[str, Any]) -> AbstractSearch:
    """The search of such words."""
    if "chain" in words:
        first, second = words["chain"]
        return Chain(read_sampler(first), read_sampler(second))
    return Descent(whole(words["descent"], 1)) if "descent" in words else _read_sampling(words)


def _sampling_words(sampler: Sampling) -> dict[str, Any]:
    numbers = {name: getattr(sampler, name) for name in _NUMBERS}
    exact = {name: value if isinstance(value, int) else float(value) for name, value in numbers.items()}
    utility = sampler.utility
    by = {"share": float(utility.share)} if isinstance(utility, Elites) else {"temperature": float(utility.temperature)}
    return exact | {name: bool(getattr(sampler, name)) for name in _SWITCHES} | {"utility": by}


def _read_sampling(words: dict[str, Any]) -> Sampling:
    by = words["utility"]
    utility = Elites(by["share"]) if "share" in by else Exponential(by["temperature"])
    switches = {name: switch(words[name]) for name in _SWITCHES}
    return Sampling(**{name: words[name] for name in _NUMBERS}, utility=utility, **switches)


def signal_words(features: Computed) -> list[list[Any]]:
    """Name, least and largest value (None: no end) and size of every signal."""
    ends = ([one.low, one.high] for one in features.signals)
    told = [[float(end) if np.isfinite(end) else None for end in pair] for pair in ends]
    return [[name, *pair, one.size] for name, pair, one in zip(features.names, told, features.signals, strict=True)]


def read_signals(words: list[list[Any]], given: Computed | None) -> Computed:
    """The given signals, where they are those that were named."""
    names = ", ".join(f"{name}=..." for name, *_ in words)
    if given is None:
        raise ArchiveError(
            "its controller plans again as it goes, with signals that are functions, and functions are not stored in "
            f"files: give the same ones again, bd.load(path, features=bd.features.computed({names})). Other programs "
            "can run a policy of bd.control.Feedback(), which holds nothing but arrays"
        )
    now = signal_words(given)
    if now != words:
        then = ", ".join(_signal(one) for one in words)
        raise ArchiveError(
            f"its controller plans with other signals than those given: {then} then, "
            f"{', '.join(_signal(one) for one in now)} now. Names, order, bounds and sizes must be the same"
        )
    return given


def _signal(words: list[Any]) -> str:
    name, low, high, size = words
    ends = f"{'no end' if low is None else low} to {'no end' if high is None else high}"
    return f"{name} ({ends}{'' if size is None else f', {size} numbers'})"


def dynamics_stored(dynamics: AbstractDynamics) -> Stored:
    """Of regressions; a law that was given as a function is refused."""
    if not isinstance(dynamics, Regressed):
        raise PolicyError(
            f"the controller plans in a {type(dynamics).__name__}, which is a function, and functions are not stored "
            "in files: only controllers over learned dynamics can be saved"
        )
    words, arrays = _map_stored(dynamics.phi)
    ellipsoid = dynamics.ellipsoid
    parts = {name: getattr(dynamics, name) for name in ("W", "deviation", "low", "high", "least", "most")}
    parts |= {"beta": dynamics.beta, "kappa": dynamics.kappa}
    if ellipsoid is not None:
        parts |= {name: getattr(ellipsoid, name) for name in ("directions", "inverse", "rest")}
    told = {name: np.asarray(part) for name, part in parts.items() if part is not None}
    return Stored({"map": words, "discrete": bool(dynamics.discrete)}, arrays | told)


def read_dynamics(words: dict[str, Any], arrays: dict[str, np.ndarray], given: Given) -> Regressed:
    """The dynamics of such words and arrays; `ValueError` where they do not fit each other."""
    W = array_of(arrays, "W", None, None)
    n, m = len(W), len(array_of(arrays, "least", None))
    phi = _read_map(words["map"], arrays, n, m, given.model_features)
    d = phi.sizes[2]
    low, high = (array_of(arrays, name, n, bounded=False) for name in ("low", "high"))
    least, most = (array_of(arrays, name, m, bounded=False) for name in ("least", "most"))
    if not (n and m and np.all(low < high) and np.all(least <= most)):
        raise ValueError("its states or controls have no room")
    ellipsoid = None
    if "directions" in arrays:
        r = len(array_of(arrays, "inverse", None))
        ellipsoid = Ellipsoid(array_of(arrays, "directions", r, d), arrays["inverse"], array_of(arrays, "rest"))
    beta, kappa = (array_of(arrays, name) if name in arrays else None for name in ("beta", "kappa"))
    if ellipsoid is None and (beta is not None or kappa is not None):
        raise ValueError("it hopes for something in no ellipsoid")
    return Regressed(
        *(phi, array_of(arrays, "W", n, d), array_of(arrays, "deviation", n), low, high, least, most),
        *(ellipsoid, beta, kappa, switch(words["discrete"])),
    )


def _map_stored(phi: AbstractMap) -> Stored:
    """Frequencies are stored as they are: generators of random numbers need not stay the same for ever."""
    if isinstance(phi, FourierMap):
        arrays = {"frequencies": np.asarray(phi.frequencies), "phases": np.asarray(phi.phases)}
        return Stored({"name": "fourier"}, arrays)
    if isinstance(phi, LinearMap):
        return Stored(linear(phi.constant).words, {})
    if isinstance(phi, FunctionMap):
        return Stored({"name": "mapped", "d": phi.d}, {})
    raise PolicyError(f"a {type(phi).__name__} cannot be stored in a file: use fourier, linear or mapped features")


def _read_map(
    words: dict[str, Any], arrays: dict[str, np.ndarray], n: int, m: int, given: AbstractModelFeatures | None
) -> AbstractMap:
    if words["name"] == "fourier":
        phases = array_of(arrays, "phases", None)
        return FourierMap(array_of(arrays, "frequencies", len(phases), n + m), phases, n)
    return _built(read_features(words, given), n, m)


@lru_cache(maxsize=16)
def _built(declared: AbstractModelFeatures, n: int, m: int) -> AbstractMap:
    """A run has thousands of policies over one map, and a function is traced to be tried."""
    return declared.built(n, m)
