"""Policies of controls from files: nothing in them is executed, and inconsistent parts are refused."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from bidual._base import archive
from bidual._base.errors import ArchiveError, BidualError
from bidual.planners.control._describe import (
    Given,
    check_switch,
    check_whole,
    read_array,
    read_dynamics,
    read_sampler,
)
from bidual.planners.control._receding import Receding
from bidual.planners.control._recipes import read_recipes, read_signals
from bidual.world.policies import CONTROLS, AbstractController, AffineFeedback, ControlPolicy, Mixture, RandomControls

# The errors that forged headers and arrays can cause in the readers of their parts.
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, BidualError)


def read_controls(path: str | os.PathLike[str], given: Given) -> ControlPolicy | Mixture:
    """Read a policy that `ControlPolicy.save` or `Mixture.save` wrote."""
    manifest, arrays = archive.read(path, CONTROLS)
    try:
        weights = read_array(arrays, "weights", None)
        members = tuple(read_control(header, arrays, given) for header in manifest["members"])
        lawful = weights.dtype == np.float64 and np.all(weights >= 0) and abs(weights.sum() - 1) <= 1e-9
        if not (members and len(members) == len(weights) and lawful):
            raise ValueError("its weights are none of its members")
        if any(member.shape != members[0].shape for member in members):
            raise ValueError("its members are of different sizes")
        if any(member.discrete != members[0].discrete for member in members):
            raise ValueError("some of its members choose actions by number, and some do not")
    except ArchiveError as error:
        raise ArchiveError(f"{path} cannot be loaded: {error}") from error
    except MALFORMED as error:
        raise ArchiveError(f"{path} holds no policy of controls ({error!r:.200}): save it again") from error
    return members[0] if len(members) == 1 else Mixture(weights, members)


def read_control(header: Mapping[str, Any], pool: Mapping[str, np.ndarray], given: Given) -> ControlPolicy:
    """Rebuild a policy from JSON values, whose arrays are numbered in a pool; raises one of `MALFORMED` if damaged."""
    arrays = {name: pool[str(check_whole(number, 0))] for name, number in header["arrays"].items()}
    controller = read_controller(header["controller"], arrays, given)
    low, high = (pool[str(check_whole(number, 0))] for number in header["limits"])
    ends = {"low": low, "high": high}
    low, high = (read_array(ends, name, controller.sizes[2], bounded=False) for name in ("low", "high"))
    if not np.all(low <= high):
        raise ValueError("its limits are none")
    return ControlPolicy(controller, low, high, check_switch(header["discrete"]))


def read_controller(header: dict[str, Any], arrays: dict[str, np.ndarray], given: Given) -> AbstractController:
    """Rebuild a controller from its stored form."""
    match header["name"]:
        case "affine":
            return _read_affine(arrays)
        case "random":
            return _read_random(header, arrays)
        case "receding":
            return _read_receding(header, arrays, given)
    raise ArchiveError(f"there is no controller {header['name']!r:.40}: the file is damaged, or from a newer version")


def _read_affine(arrays: dict[str, np.ndarray]) -> AffineFeedback:
    gains = read_array(arrays, "gains", None, None, None)
    H, m, n = gains.shape
    if not gains.size:
        raise ValueError("it has no steps, or nothing to read or to set")
    return AffineFeedback(read_array(arrays, "controls", H, m), read_array(arrays, "states", H, n), gains)


def _read_random(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RandomControls:
    low = read_array(arrays, "low", None)
    high = read_array(arrays, "high", len(low))
    deviation, colour = header["deviation"], header["colour"]
    if not (low.size and np.all(low <= high) and 0 <= deviation < np.inf and 0 <= colour < 1):
        raise ValueError("its noise is none")
    sizes = check_whole(header["horizon"], 1), check_whole(header["dimension"], 1)
    return RandomControls(*sizes, low, high, float(deviation), float(colour))


def _read_receding(header: dict[str, Any], arrays: dict[str, np.ndarray], given: Given) -> Receding:
    features = read_signals(header["signals"], read_recipes(header, arrays), given.features)
    dynamics = read_dynamics(header["dynamics"], arrays, given)
    theta = read_array(arrays, "theta", None, features.dimension)
    nominal = read_array(arrays, "nominal", None, dynamics.sizes[1] + dynamics.sizes[2])
    if not 1 <= len(nominal) <= len(theta):
        raise ValueError(f"it looks {len(nominal)} steps ahead in {len(theta)}")
    if max(np.abs(part).max(initial=0) for part in (theta, nominal)) > np.finfo(np.float32).max:
        raise ValueError("its costs or its plan are beyond single precision, in which it plans")
    every = check_whole(header["every"], 1, len(nominal))
    return Receding(dynamics, theta, nominal, features, read_sampler(header["sampler"]), every)
