"""Conversion of the samplers and dynamics that controllers plan with to JSON and arrays, and back.

Functions are not stored. Of a map that is a function there is its size: the reader of a file passes it again.
"""

from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bidual._base.errors import PolicyError
from bidual.models import AbstractDynamics, Ellipsoid, Regressed
from bidual.planners.control._descent import Descent
from bidual.planners.control._sampling import Elites, Exponential, Sampling
from bidual.planners.control._search import AbstractSearch, Chain
from bidual.problem.features import (
    AbstractMap,
    AbstractModelFeatures,
    Computed,
    FourierMap,
    FunctionMap,
    LinearMap,
    linear,
    read_features,
)
from bidual.world.policies import StoredController

_NUMBERS = tuple(field.name for field in fields(Sampling) if field.name not in ("utility", "keep", "warm"))
_SWITCHES = ("keep", "warm")


class Given(NamedTuple):
    """The functions that a file names: signals, and the map of the model where that is one."""

    features: Computed | None = None
    model_features: AbstractModelFeatures | None = None


def read_array(arrays: dict[str, np.ndarray], name: str, *shape: int | None, bounded: bool = True) -> np.ndarray:
    """Read the array of that name; `ValueError` for another shape (None: of any length) or entries that are NaN."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(size in (None, own) for size, own in zip(shape, array.shape, strict=True))
    numbers = array.dtype in (np.float32, np.float64) and not np.isnan(array).any()
    if not (fits and numbers and (not bounded or np.isfinite(array).all())):
        raise ValueError(f"{name} is of shape {array.shape}, or holds what is no number")
    return array


def check_whole(number: object, least: int, most: int | None = None) -> int:
    """Check for a whole number within limits, `ValueError` for anything else."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least or number > (most or number):
        raise ValueError(f"{number!r:.40} is no number from {least} on" + (f" to {most}" if most else ""))
    return number


def check_switch(value: object) -> bool:
    """Check for True or False, `ValueError` for anything else."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is neither true nor false")
    return value


def describe_sampler(sampler: AbstractSearch) -> dict[str, Any]:
    """Return all settings of a search as JSON values."""
    match sampler:
        case Chain(first, second):
            return {"chain": [describe_sampler(first), describe_sampler(second)]}
        case Descent(steps):
            return {"descent": int(steps)}
        case Sampling():
            return _describe_sampling(sampler)
    raise TypeError(f"{type(sampler).__name__} is no search that a file can hold")


def read_sampler(header: dict[str, Any]) -> AbstractSearch:
    """Rebuild a search from its JSON values."""
    if "chain" in header:
        first, second = header["chain"]
        return Chain(read_sampler(first), read_sampler(second))
    return Descent(check_whole(header["descent"], 1)) if "descent" in header else _read_sampling(header)


def _describe_sampling(sampler: Sampling) -> dict[str, Any]:
    numbers = {name: getattr(sampler, name) for name in _NUMBERS}
    exact = {name: value if isinstance(value, int) else float(value) for name, value in numbers.items()}
    utility = sampler.utility
    by = {"share": float(utility.share)} if isinstance(utility, Elites) else {"temperature": float(utility.temperature)}
    return exact | {name: bool(getattr(sampler, name)) for name in _SWITCHES} | {"utility": by}


def _read_sampling(header: dict[str, Any]) -> Sampling:
    by = header["utility"]
    utility = Elites(by["share"]) if "share" in by else Exponential(by["temperature"])
    switches = {name: check_switch(header[name]) for name in _SWITCHES}
    return Sampling(**{name: header[name] for name in _NUMBERS}, utility=utility, **switches)


def store_dynamics(dynamics: AbstractDynamics) -> StoredController:
    """Convert a regression to its stored form; a law that is a function is refused."""
    if not isinstance(dynamics, Regressed):
        raise PolicyError(
            f"the controller plans in a {type(dynamics).__name__}, which is a function, and functions are not stored "
            "in files: only controllers over learned dynamics can be saved"
        )
    header, arrays = _store_map(dynamics.phi)
    ellipsoid = dynamics.ellipsoid
    parts = {name: getattr(dynamics, name) for name in ("W", "deviation", "low", "high", "least", "most")}
    parts |= {"beta": dynamics.beta, "kappa": dynamics.kappa}
    if ellipsoid is not None:
        parts |= {name: getattr(ellipsoid, name) for name in ("directions", "inverse", "rest")}
    entries = {name: np.asarray(part) for name, part in parts.items() if part is not None}
    return StoredController({"map": header, "discrete": bool(dynamics.discrete)}, arrays | entries)


def read_dynamics(header: dict[str, Any], arrays: dict[str, np.ndarray], given: Given) -> Regressed:
    """Rebuild dynamics from JSON values and arrays; `ValueError` where they do not fit each other."""
    W = read_array(arrays, "W", None, None)
    n, m = len(W), len(read_array(arrays, "least", None))
    phi = _read_map(header["map"], arrays, n, m, given.model_features)
    d = phi.sizes[2]
    low, high = (read_array(arrays, name, n, bounded=False) for name in ("low", "high"))
    least, most = (read_array(arrays, name, m, bounded=False) for name in ("least", "most"))
    if not (n and m and np.all(low < high) and np.all(least <= most)):
        raise ValueError("its states or controls have no room")
    ellipsoid = None
    if "directions" in arrays:
        r = len(read_array(arrays, "inverse", None))
        ellipsoid = Ellipsoid(read_array(arrays, "directions", r, d), arrays["inverse"], read_array(arrays, "rest"))
    beta, kappa = (read_array(arrays, name) if name in arrays else None for name in ("beta", "kappa"))
    if ellipsoid is None and (beta is not None or kappa is not None):
        raise ValueError("it hopes for something in no ellipsoid")
    return Regressed(
        *(phi, read_array(arrays, "W", n, d), read_array(arrays, "deviation", n), low, high, least, most),
        *(ellipsoid, beta, kappa, check_switch(header["discrete"])),
    )


def draw_transitions(dynamics: AbstractDynamics) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw observations, controls and next observations all over the box of a regression, to compare signals at."""
    rng, n = np.random.default_rng(0), dynamics.sizes[0]
    least, most = (dynamics.low, dynamics.high) if isinstance(dynamics, Regressed) else (np.full(n, -1), np.full(n, 1))
    return _draw_between(rng, least, most), _draw_between(rng, *dynamics.limits), _draw_between(rng, least, most)


def _draw_between(rng: np.random.Generator, low: Any, high: Any, count: int = 64) -> np.ndarray:  # noqa: ANN401 - arrays
    """Draw evenly between finite ends; an infinite one is taken to be 10 or -10."""
    least, most = (np.where(np.isfinite(end), end, usual) for end, usual in ((low, -10.0), (high, 10.0)))
    return least + (most - least) * rng.random((count, len(least)))


def _store_map(phi: AbstractMap) -> StoredController:
    """Convert a map to its stored form, frequencies included: generators of random numbers may change."""
    if isinstance(phi, FourierMap):
        arrays = {"frequencies": np.asarray(phi.frequencies), "phases": np.asarray(phi.phases)}
        return StoredController({"name": "fourier"}, arrays)
    if isinstance(phi, LinearMap):
        return StoredController(linear(phi.constant).header, {})
    if isinstance(phi, FunctionMap):
        return StoredController({"name": "mapped", "d": phi.d}, {})
    raise PolicyError(f"a {type(phi).__name__} cannot be stored in a file: use fourier, linear or mapped features")


def _read_map(
    header: dict[str, Any], arrays: dict[str, np.ndarray], n: int, m: int, given: AbstractModelFeatures | None
) -> AbstractMap:
    if header["name"] == "fourier":
        phases = read_array(arrays, "phases", None)
        return FourierMap(read_array(arrays, "frequencies", len(phases), n + m), phases, n)
    return _build_map(read_features(header, given), n, m)


@lru_cache(maxsize=16)
def _build_map(declared: AbstractModelFeatures, n: int, m: int) -> AbstractMap:
    """Build a map, cached: a run has thousands of policies over one map, and checking a function traces it."""
    return declared.build_map(n, m)
