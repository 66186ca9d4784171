"""Policies of controls from files: nothing in them is executed, and what does not fit is refused."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from bidual import _archive
from bidual._errors import ArchiveError, BidualError
from bidual.control._receding import Receding
from bidual.control._words import Given, array_of, read_dynamics, read_sampler, read_signals, switch, whole
from bidual.policies import CONTROLS, AbstractController, AffineFeedback, ControlPolicy, Mixture, RandomControls

# What forged words and arrays can make the readers of their parts raise.
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, BidualError)


def read_controls(path: str | os.PathLike[str], given: Given) -> ControlPolicy | Mixture:
    """The policy that `ControlPolicy.save` or `Mixture.save` wrote."""
    manifest, arrays = _archive.read(path, CONTROLS)
    try:
        weights = array_of(arrays, "weights", None)
        members = tuple(read_control(words, arrays, given) for words in manifest["members"])
        lawful = weights.dtype == np.float64 and np.all(weights >= 0) and abs(weights.sum() - 1) <= 1e-9
        if not (members and len(members) == len(weights) and lawful):
            raise ValueError("its weights are none of its members")
        if any(member.shape != members[0].shape for member in members):
            raise ValueError("its members are of different sizes")
    except ArchiveError as error:
        raise ArchiveError(f"{path} cannot be loaded: {error}") from error
    except MALFORMED as error:
        raise ArchiveError(f"{path} holds no policy of controls ({error!r:.200}): save it again") from error
    return members[0] if len(members) == 1 else Mixture(weights, members)


def read_control(words: Mapping[str, Any], pool: Mapping[str, np.ndarray], given: Given) -> ControlPolicy:
    """The policy of such words, whose arrays have numbers in a pool; one of `MALFORMED` where there is none."""
    arrays = {name: pool[str(whole(number, 0))] for name, number in words["arrays"].items()}
    controller = read_controller(words["controller"], arrays, given)
    low, high = (pool[str(whole(number, 0))] for number in words["limits"])
    ends = {"low": low, "high": high}
    low, high = (array_of(ends, name, controller.sizes[2], bounded=False) for name in ("low", "high"))
    if not np.all(low <= high):
        raise ValueError("its limits are none")
    return ControlPolicy(controller, low, high, switch(words["discrete"]))


def read_controller(words: dict[str, Any], arrays: dict[str, np.ndarray], given: Given) -> AbstractController:
    """The controller that was stored so."""
    match words["name"]:
        case "affine":
            return _affine(arrays)
        case "random":
            return _random(words, arrays)
        case "receding":
            return _receding(words, arrays, given)
    raise ArchiveError(f"there is no controller {words['name']!r:.40}: the file is damaged, or from a newer version")


def _affine(arrays: dict[str, np.ndarray]) -> AffineFeedback:
    gains = array_of(arrays, "gains", None, None, None)
    H, m, n = gains.shape
    if not gains.size:
        raise ValueError("it has no steps, or nothing to read or to set")
    return AffineFeedback(array_of(arrays, "controls", H, m), array_of(arrays, "states", H, n), gains)


def _random(words: dict[str, Any], arrays: dict[str, np.ndarray]) -> RandomControls:
    low = array_of(arrays, "low", None)
    high = array_of(arrays, "high", len(low))
    deviation, colour = words["deviation"], words["colour"]
    if not (low.size and np.all(low <= high) and 0 <= deviation < np.inf and 0 <= colour < 1):
        raise ValueError("its noise is none")
    sizes = whole(words["horizon"], 1), whole(words["dimension"], 1)
    return RandomControls(*sizes, low, high, float(deviation), float(colour))


def _receding(words: dict[str, Any], arrays: dict[str, np.ndarray], given: Given) -> Receding:
    features = read_signals(words["signals"], given.features)
    dynamics = read_dynamics(words["dynamics"], arrays, given)
    theta = array_of(arrays, "theta", None, features.dimension)
    nominal = array_of(arrays, "nominal", None, dynamics.sizes[1] + dynamics.sizes[2])
    if not 1 <= len(nominal) <= len(theta):
        raise ValueError(f"it looks {len(nominal)} steps ahead in {len(theta)}")
    every = whole(words["every"], 1, len(nominal))
    return Receding(dynamics, theta, nominal, features, read_sampler(words["sampler"]), every)
