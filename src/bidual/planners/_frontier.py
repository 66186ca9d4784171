"""The least of many vectors of values: those that no other one is below in every entry."""

import numpy as np
from jaxtyping import Float, Int

_MOST = 4096  # vectors that later ones are compared with: where there are more, they hardly ever dominate each other


class Frontier:
    """The vectors of one step of a search so far, of which those above another one everywhere were left out."""

    def __init__(self, size: int) -> None:
        self._kept = np.zeros((64, size))
        self._count = 0

    def add(self, values: Float[np.ndarray, "k S"], room: float) -> Int[np.ndarray, "new"]:
        """Add vectors, smallest sum first; return which of them are not above an earlier one by more than -room."""
        chosen = []
        for place in np.argsort(values.sum(axis=1), kind="stable").tolist():
            above = values[place] + room
            if np.all(self._kept[: self._count] <= above, axis=1).any():
                continue
            chosen.append(place)
            self._append(values[place])
        return np.array(chosen, dtype=np.int64)

    def _append(self, value: Float[np.ndarray, "S"]) -> None:
        if self._count == _MOST:
            return
        if self._count == len(self._kept):
            self._kept = np.concatenate([self._kept, np.zeros_like(self._kept)])
        self._kept[self._count] = value
        self._count += 1
