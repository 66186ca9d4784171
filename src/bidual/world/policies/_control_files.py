"""Writing policies of controls to files: a JSON header that names arrays, and every array once.

They are read by `bidual.control.read_controls`, for some controllers plan in a model.
"""

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Float

from bidual._base import archive
from bidual.world.policies._control import ControlPolicy

CONTROLS = "policy of controls"


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


def control_header(policy: ControlPolicy, pool: ArrayPool) -> dict[str, Any]:
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
    """Write a policy, or a mixture of several, to one file."""
    archive.write(path, CONTROLS, *encode_controls(members, weights))


def encode_controls(
    members: Sequence[ControlPolicy], weights: Float[np.ndarray, "k"]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Encode policies and weights as JSON values and arrays."""
    pool = ArrayPool()
    header = [control_header(member, pool) for member in members]
    return {"members": header}, pool.arrays_by_number() | {"weights": weights}
