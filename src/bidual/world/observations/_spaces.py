"""Spaces of Gymnasium with finitely many elements, as leaves with a range for every entry.

A leaf has its place in the observation, its shape, and the least value and the number of values of each entry.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

Key = str | int


class SpacePart(NamedTuple):
    """Whole numbers somewhere in an observation: keys and indices that lead there, shape, and ranges of all entries."""

    path: tuple[Key, ...]
    shape: tuple[int, ...]
    low: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of values of the leaf."""
        return math.prod(self.sizes)

    def find(self, observation: Any) -> Any:  # noqa: ANN401 - whatever an environment shows
        """Return the part of an observation that belongs to this leaf; raise `ValueError` where there is none."""
        for key in self.path:
            try:
                observation = observation[key]
            except (LookupError, TypeError):
                raise ValueError(f"it has no entry {key!r}") from None
        return observation

    def read(self, observation: object) -> np.ndarray:
        """Return the entries in an observation, counted from 0; raise `ValueError` where they are none of the space."""
        part = self.find(observation)
        try:
            entries = np.asarray(part)
            if not (entries.dtype.kind in "biu" or bool(np.all(entries % 1 == 0))):
                raise ValueError
        except (TypeError, ValueError):
            raise ValueError(f"{self._name()}{part!r:.60} is not of whole numbers") from None
        if entries.shape != self.shape:
            raise ValueError(f"{self._name()}has the shape {entries.shape}, not {self.shape}")
        digits = entries.reshape(-1).astype(np.int64) - np.array(self.low, dtype=np.int64)
        if np.any((digits < 0) | (digits >= np.array(self.sizes, dtype=np.int64))):
            ends = [f"{low} to {low + size - 1}" for low, size in zip(self.low, self.sizes, strict=True)]
            raise ValueError(f"{self._name()}{part!r:.60} is outside {' x '.join(dict.fromkeys(ends))}")
        return digits

    def write(self, digits: np.ndarray) -> Any:  # noqa: ANN401
        """Return the values that belong to such entries."""
        return (digits + np.array(self.low, dtype=np.int64)).reshape(self.shape)

    def _name(self) -> str:
        return f"its entry {'.'.join(map(str, self.path))} = " if self.path else ""


def list_leaves(space: object) -> tuple[SpacePart, ...] | None:
    """Return the leaves of a space with finitely many elements that are whole numbers; None for any other."""
    leaves = tuple(_walk(space, ()))
    return tuple(leaf for leaf in leaves if leaf is not None) if None not in leaves else None


def find_unnumbered(space: object) -> object | None:
    """Return the first part of a space that is a Box of real numbers, or no space at all; None without one."""
    from gymnasium.spaces import Box

    for _, part in _list_parts(space, ()):
        if part is None or (isinstance(part, Box) and not np.issubdtype(part.dtype, np.integer)):
            return part
    return None


def _walk(space: object, path: tuple[Key, ...]) -> Iterator[SpacePart | None]:
    return (_read_leaf(part, place) for place, part in _list_parts(space, path))


def _list_parts(space: object, path: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], Any]]:
    """Iterate over the parts of a space that have no parts themselves, with their places; keys in their order."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            yield from _list_parts(space.spaces[key], (*path, key))
    elif isinstance(space, spaces.Tuple):
        for place, part in enumerate(space.spaces):
            yield from _list_parts(part, (*path, place))
    else:
        yield path, space


def _read_leaf(space: Any, path: tuple[Key, ...]) -> SpacePart | None:  # noqa: ANN401 - any space
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return SpacePart(path, (), (int(space.start),), (int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        return _leaf(path, np.asarray(space.start), np.asarray(space.nvec))
    if isinstance(space, spaces.MultiBinary):
        return _leaf(path, np.zeros(space.shape, dtype=np.int64), np.full(space.shape, 2))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.integer):
        low, high = (end.astype(object) for end in (space.low, space.high))  # of any size
        return _leaf(path, low, np.asarray(high - low + 1, dtype=object))
    return None


def _leaf(path: tuple[Key, ...], low: np.ndarray, sizes: np.ndarray) -> SpacePart:
    flat = (tuple(int(entry) for entry in array.reshape(-1)) for array in (low, sizes))
    return SpacePart(path, tuple(low.shape), *flat)
