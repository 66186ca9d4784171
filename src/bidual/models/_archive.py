"""Rows that only ever grow, shared by all who hold a part of them: what one holds never changes.

What is known after t episodes is the first t rows, and knowing more is adding rows behind them, which takes no copy.
Whoever adds to an older part gets rows of their own.
"""

from typing import final

import numpy as np
from jaxtyping import Shaped


@final
class Archive:
    """The first `count` rows of a buffer, along its second axis: the first is for the steps of an episode."""

    def __init__(self, buffer: Shaped[np.ndarray, "steps capacity *rest"], count: int, tail: list[int]) -> None:
        self._buffer, self.count = buffer, count
        self._tail = tail  # how many rows of the buffer are written, known to all who share it

    @staticmethod
    def empty(steps: int, rest: tuple[int, ...], dtype: type) -> "Archive":
        """No rows."""
        return Archive(np.zeros((steps, 0, *rest), dtype=dtype), 0, [0])

    @staticmethod
    def of(rows: Shaped[np.ndarray, "steps n *rest"]) -> "Archive":
        """These rows."""
        return Archive(rows, rows.shape[1], [rows.shape[1]])

    @property
    def rows(self) -> Shaped[np.ndarray, "steps n *rest"]:
        """All rows."""
        return self._buffer[:, : self.count]

    def add(self, rows: Shaped[np.ndarray, "steps more *rest"]) -> "Archive":
        """The same with more rows at the end."""
        total, buffer, tail = self.count + rows.shape[1], self._buffer, self._tail
        if tail[0] != self.count or total > buffer.shape[1]:
            shape = (buffer.shape[0], max(64, 2 * total), *buffer.shape[2:])
            buffer, tail = np.zeros(shape, dtype=buffer.dtype), [self.count]
            buffer[:, : self.count] = self.rows
        buffer[:, self.count : total] = rows
        tail[0] = total
        return Archive(buffer, total, tail)
