"""Policies of controls on their way to files: words that name arrays, and every array once.

What reads them again is `bidual.control.read_controls`, for some controllers plan in a model.
"""

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Float

from bidual import _archive
from bidual.policies._control import ControlPolicy

CONTROLS = "policy of controls"


class Pool:
    """Arrays in the order of their first appearance: controllers that plan in one model share nearly all of them."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[bytes, int] = {}

    def number(self, array: np.ndarray) -> int:
        """The place of an array, to which it is added if it is new."""
        array = np.asarray(array, order="C")
        shape = f"{array.dtype.str}{array.shape}".encode()
        number = self._numbers.setdefault(blake2b(shape + array.tobytes()).digest(), len(self.arrays))
        if number == len(self.arrays):
            self.arrays.append(array)
        return number

    def named(self, first: int = 0) -> dict[str, np.ndarray]:
        """Those from number `first` on, by their numbers as words."""
        return {str(first + place): array for place, array in enumerate(self.arrays[first:])}


def control_words(policy: ControlPolicy, pool: Pool) -> dict[str, Any]:
    """A policy as JSON values; its arrays are in the pool, and named by their numbers."""
    words, arrays = policy.controller.stored
    return {
        "controller": words,
        "arrays": {name: pool.number(array) for name, array in arrays.items()},
        "limits": [pool.number(policy.low), pool.number(policy.high)],
        "discrete": bool(policy.discrete),
    }


def write_controls(
    members: Sequence[ControlPolicy], weights: Float[np.ndarray, "k"], path: str | os.PathLike[str]
) -> None:
    """Write a policy, or a mixture of several, to one file."""
    _archive.write(path, CONTROLS, *stored_controls(members, weights))


def stored_controls(
    members: Sequence[ControlPolicy], weights: Float[np.ndarray, "k"]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The same as JSON values and arrays."""
    pool = Pool()
    words = [control_words(member, pool) for member in members]
    return {"members": words}, pool.named() | {"weights": weights}
