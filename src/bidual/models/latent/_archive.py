"""Growing rows that share one buffer: the rows of one instance never change.

The data after t episodes are the first t rows, and later rows are appended behind them without a copy. Appending to an
older instance copies its rows to a buffer of its own.
"""

from typing import final

import numpy as np
from jaxtyping import Shaped


@final
class GrowingRows:
    """The first `count` rows of a buffer, along its second axis: the first is for the steps of an episode."""

    def __init__(self, buffer: Shaped[np.ndarray, "steps capacity *rest"], count: int, tail: list[int]) -> None:
        self._buffer, self.count = buffer, count
        self._tail = tail  # number of rows written, shared by all instances on this buffer

    @staticmethod
    def empty(steps: int, rest: tuple[int, ...], dtype: type) -> "GrowingRows":
        """Return an archive without rows."""
        return GrowingRows(np.zeros((steps, 0, *rest), dtype=dtype), 0, [0])

    @staticmethod
    def of(rows: Shaped[np.ndarray, "steps n *rest"]) -> "GrowingRows":
        """Return an archive of these rows."""
        return GrowingRows(rows, rows.shape[1], [rows.shape[1]])

    @property
    def rows(self) -> Shaped[np.ndarray, "steps n *rest"]:
        """All rows."""
        return self._buffer[:, : self.count]

    def add(self, rows: Shaped[np.ndarray, "steps more *rest"]) -> "GrowingRows":
        """Append rows."""
        total, buffer, tail = self.count + rows.shape[1], self._buffer, self._tail
        if tail[0] != self.count or total > buffer.shape[1]:
            shape = (buffer.shape[0], max(64, 2 * total), *buffer.shape[2:])
            buffer, tail = np.zeros(shape, dtype=buffer.dtype), [self.count]
            buffer[:, : self.count] = self.rows
        buffer[:, self.count : total] = rows
        tail[0] = total
        return GrowingRows(buffer, total, tail)
