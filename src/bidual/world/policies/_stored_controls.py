"""Policies of controls as JSON values and arrays, and in files: functions that they plan with only as texts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Float

from bidual._base import archive
from bidual._base.errors import PolicyError
from bidual.world.policies._control import ControlPolicy

CONTROLS = "policy of controls"


def store_as_texts(members: Sequence[ControlPolicy], signals: Mapping[str, str] | None) -> tuple[ControlPolicy, ...]:
    """Return the policies with these texts in the place of functions; raise where a function has none, and may not."""
    known = sorted({name for member in members for name in member.controller.functions})
    if signals is None and known:
        texts = ", ".join(f"{name!r}: '...'" for name in known)
        raise PolicyError(
            f"the controller plans again as it goes, with signals that are functions ({', '.join(known)}), and no file "
            f"stores functions: give the same as text, save(path, signals={{{texts}}}), in which 'cos(next_obs[0])' is "
            "an example. Or leave them out, save(path, signals={}), and give the functions again to bd.load"
        )
    others = sorted({*(signals or {})} - {*known})
    if others:
        raise PolicyError(
            f"signals names {', '.join(others)}, and the functions that this policy plans with are "
            f"{', '.join(known) or 'none'}: leave the others out"
        )
    return tuple(replace(member, controller=member.controller.with_texts(signals or {})) for member in members)


class ArrayPool:
    """Arrays in the order of their first appearance: controllers that plan in one model share nearly all of them."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[bytes, int] = {}

    def number(self, array: np.ndarray) -> int:
        """Return the index of an array, appending it if it is new."""
        array = np.asarray(array, order="C")
        shape = f"{array.dtype.str}{array.shape}".encode()
        number = self._numbers.setdefault(blake2b(shape + array.tobytes()).digest(), len(self.arrays))
        if number == len(self.arrays):
            self.arrays.append(array)
        return number

    def arrays_by_number(self, first: int = 0) -> dict[str, np.ndarray]:
        """Return the arrays from number `first` on, by their numbers as strings."""
        return {str(first + place): array for place, array in enumerate(self.arrays[first:])}


def encode_control(policy: ControlPolicy, pool: ArrayPool) -> dict[str, Any]:
    """Encode a policy as JSON values; its arrays go to the pool, and are named by their numbers."""
    header, arrays = policy.controller.stored
    return {
        "controller": header,
        "arrays": {name: pool.number(array) for name, array in arrays.items()},
        "limits": [pool.number(policy.low), pool.number(policy.high)],
        "discrete": bool(policy.discrete),
    }


def write_controls(
    members: Sequence[ControlPolicy], weights: Float[np.ndarray, "k"], path: str | os.PathLike[str]
) -> None:
    """Write a policy, or a mixture of several, to one file: a JSON header that names arrays, and every array once.

    `bidual.control.read_controls` reads it, for some controllers plan in a model.
    """
    archive.write(path, CONTROLS, *encode_controls(members, weights))


def encode_controls(
    members: Sequence[ControlPolicy], weights: Float[np.ndarray, "k"]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Encode policies and weights as JSON values and arrays."""
    pool = ArrayPool()
    header = [encode_control(member, pool) for member in members]
    return {"members": header}, pool.arrays_by_number() | {"weights": weights}
