"""Arrays of a file, each checked as it is read: `ValueError` names the one that is malformed."""

from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float, Int

T = TypeVar("T")
_LARGEST = 2.0**53  # up to which every whole number is exact


@final
@dataclass(frozen=True, eq=False)
class StoredArrays:
    """Arrays by name. A length of None fits any."""

    arrays: dict[str, np.ndarray]

    def numbers(self, name: str, *shape: int | None) -> Float[np.ndarray, "..."]:
        """Read finite numbers in double precision."""
        array = self._read(name, np.float64, shape)
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} contains NaN or infinity")
        return array

    def counts(self, name: str, *shape: int | None) -> Float[np.ndarray, "..."]:
        """Read counts, kept in double precision."""
        array = self.numbers(name, *shape)
        if not np.all((array >= 0) & (array < _LARGEST) & (array == np.floor(array))):
            raise ValueError(f"{name} contains a count that is negative or not whole")
        return array

    def places(self, name: str, low: int, high: int, *shape: int | None) -> Int[np.ndarray, "..."]:
        """Read whole numbers from `low` to `high` - 1."""
        array = self._read(name, np.int64, shape)
        if array.size and not (array.min() >= low and array.max() < high):
            raise ValueError(f"{name} contains a number outside {low} to {high - 1}")
        return array

    def flags(self, name: str, *shape: int | None) -> Bool[np.ndarray, "..."]:
        """Read truth values."""
        return self._read(name, np.bool_, shape)

    def has(self, name: str) -> bool:
        """Return whether there is an array of that name."""
        return name in self.arrays

    def _read(self, name: str, dtype: type, shape: tuple[int | None, ...]) -> np.ndarray:
        array = self.arrays[name]
        fits = len(shape) == array.ndim and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
        if array.dtype != dtype or not fits:
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
        return array


def require_type(kind: type[T], value: Any) -> T:  # noqa: ANN401 - JSON
    """Return a JSON value of exactly one type: True is no number here, and 1 is no float."""
    if type(value) is not kind:
        raise ValueError(f"{value!r:.80} is no {kind.__name__}")
    return value
