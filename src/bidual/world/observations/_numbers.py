"""What states are numbers of: whole numbers, elements of a finite space, or whatever is met, in the order it is met."""

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from bidual.world.observations._canonical import format_value
from bidual.world.observations._spaces import SpacePart


@final
@dataclass(frozen=True)
class NumberRange:
    """Whole numbers from `first` on: less that, each is a state."""

    size: int
    first: int = 0

    def number(self, value: Any) -> int:  # noqa: ANN401 - whatever an environment shows
        """Return the number of a value; raise `ValueError` where it has none."""
        try:
            number = operator.index(value) - self.first
        except TypeError:
            raise ValueError(": it must be a whole number") from None
        if not 0 <= number < self.size:
            raise ValueError(f", which is not one of {self.first} to {self.first + self.size - 1}: correct it")
        return number

    @property
    def texts(self) -> list[str]:
        """The values, in the order of their numbers."""
        return [str(self.first + number) for number in range(self.size)]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"kind": "range", "size": self.size, "first": self.first}


@final
@dataclass(frozen=True)
class FiniteSpace:
    """The elements of a finite space: entries are counted through, the last one fastest, dictionaries by their keys."""

    leaves: tuple[SpacePart, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(leaf.size for leaf in self.leaves)

    def number(self, value: Any) -> int:  # noqa: ANN401
        """Return the number of an element; raise `ValueError` for anything else."""
        try:
            digits = [int(digit) for leaf in self.leaves for digit in leaf.read(value)]
        except ValueError as error:
            raise ValueError(f": {error}. It must be one of the observation space; correct it") from None
        number = 0
        for digit, size in zip(digits, self._sizes, strict=True):
            number = number * size + digit
        return number

    @property
    def texts(self) -> list[str]:
        """The elements as texts, in the order of their numbers."""
        digits = (
            np.stack(np.unravel_index(np.arange(self.size), self._sizes), axis=1) if self._sizes else np.zeros((1, 0))
        )
        return [format_value(self._build(row)) for row in digits.astype(np.int64)]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        leaves = [[list(leaf.path), list(leaf.shape), list(leaf.low), list(leaf.sizes)] for leaf in self.leaves]
        return {"kind": "space", "leaves": leaves}

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(size for leaf in self.leaves for size in leaf.sizes)

    def _build(self, digits: np.ndarray) -> Any:  # noqa: ANN401
        """Build the element with these entries."""
        ends = np.cumsum([0, *(len(leaf.sizes) for leaf in self.leaves)])
        parts = [leaf.write(digits[ends[i] : ends[i + 1]]) for i, leaf in enumerate(self.leaves)]
        return _nest([leaf.path for leaf in self.leaves], parts)


def _nest(paths: list[tuple[Any, ...]], parts: list[Any]) -> Any:  # noqa: ANN401
    """Build dictionaries and lists of parts from the places they belong to."""
    if paths == [()]:
        return parts[0]
    keys = list(dict.fromkeys(path[0] for path in paths))
    entries = {}
    for key in keys:
        inside = [(path[1:], part) for path, part in zip(paths, parts, strict=True) if path[0] == key]
        entries[key] = _nest([path for path, _ in inside], [part for _, part in inside])
    return entries if isinstance(keys[0], str) else [entries[key] for key in keys]


@final
@dataclass(frozen=True)
class Met:
    """Values in the order in which they were met, by their texts; at most `limit` of them."""

    limit: int
    keys: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of states that there can be."""
        return self.limit

    def find(self, key: str) -> int | None:
        """Return the number of a text; None where it was not met."""
        return self._numbers.get(key)

    def extend(self, *keys: str) -> "Met":
        """Return the numbering with further texts, in their order."""
        return Met(self.limit, self.keys + keys)

    @property
    def texts(self) -> list[str]:
        """The texts in the order of their numbers, and something else for numbers that are free."""
        return [*self.keys, *(f"not met ({number})" for number in range(len(self.keys), self.limit))]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"kind": "met", "limit": self.limit, "keys": list(self.keys)}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {key: number for number, key in enumerate(self.keys)}
