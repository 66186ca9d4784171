"""Walking on a map: four moves, bumping into the border means staying, some actions slip."""

import numpy as np
from jaxtyping import Float, Int

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left


def find_neighbours(rows: tuple[str, ...]) -> Int[np.ndarray, "S 4"]:
    """Return the cell that each move leads to from each cell, cells numbered row by row."""
    height, width = len(rows), len(rows[0])
    row, column = np.divmod(np.arange(height * width), width)
    targets = [
        np.clip(row + down, 0, height - 1) * width + np.clip(column + right, 0, width - 1) for down, right in MOVES
    ]
    return np.stack(targets, axis=1)


def find_cells(rows: tuple[str, ...], ends: str) -> Int[np.ndarray, "S"]:
    """Return each state's cell; episodes end on entering a cell marked by one of `ends`, so no state is in these.

    The last state is the one where ended episodes stay; it has no cell either.
    """
    marks = "".join(rows)
    return np.array([-1 if mark in ends else cell for cell, mark in enumerate(marks)] + [-1])


def make_slippery(targets: Int[np.ndarray, "S A"], slip: float) -> Float[np.ndarray, "S A S"]:
    """Return the law where, with probability `slip`, the action is replaced by a uniformly drawn one."""
    S, A = targets.shape
    intended = np.zeros((S, A, S))
    np.put_along_axis(intended, targets[:, :, None], 1.0, axis=2)
    return (1 - slip) * intended + slip * intended.mean(axis=1, keepdims=True)
