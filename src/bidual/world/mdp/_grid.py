"""`Grid`: a map whose cells are states, for models, signals and figures."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
_CALLED = {(-1, 0): "up", (0, 1): "right", (1, 0): "down", (0, -1): "left", (0, 0): "stay"}
_NOWHERE = -1

Rows = Sequence[str] | tuple[int, int]
Walls = str | Iterable[tuple[int, int]]


@final
@dataclass(frozen=True, eq=False, init=False)
class Grid:
    """A map of cells: the states of a model, the places of letters, and the background of figures.

    ``grid = bd.Grid(["S..#", "..PG"])`` has seven states, numbered row by row without the wall, and four actions: up,
    right, down and left.

    Args:
        rows: texts of one length with a letter for each cell, or a shape (rows, columns) of open ground.
        cells: the cell of every state, counted row by row from 0, where states are not simply the cells without walls:
            several may share a cell, and -1 is nowhere.
        moves: the change of (row, column) that each action makes.
        walls: the letters of cells that nobody enters; or (row, column) of these cells.
        marks: words that figures write for letters, ``{"B": "bin"}``; other letters stand for themselves, but for those
            of the tasks ("S" is the start, "G" the goal, "P" a pit, ...).
    """

    __repr__ = describe_briefly

    rows: tuple[str, ...]
    cells: Int[np.ndarray, "S"]
    moves: tuple[tuple[int, int], ...]
    walls: str | tuple[tuple[int, int], ...]
    marks: Mapping[str, str]

    def __init__(
        self,
        rows: Rows,
        cells: ArrayLike | None = None,
        moves: Sequence[tuple[int, int]] = _MOVES,
        *,
        walls: Walls = "#",
        marks: Mapping[str, str] | None = None,
    ) -> None:
        rows = _read_rows(rows)
        walls = walls if isinstance(walls, str) else tuple(walls)
        blocked = _read_walls(rows, walls)
        numbers = np.flatnonzero(~blocked) if cells is None else np.asarray(cells)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "walls", walls)
        object.__setattr__(self, "cells", _check_cells(numbers, blocked.size))
        object.__setattr__(self, "moves", _check_moves(moves))
        object.__setattr__(self, "marks", dict(marks or {}))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.rows), len(self.rows[0])

    @property
    def blocked(self) -> Bool[np.ndarray, "rows columns"]:
        """A mask of the cells that are walls."""
        return _read_walls(self.rows, self.walls).reshape(self.shape)

    @property
    def num_states(self) -> int:
        """S."""
        return self.cells.size

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states, "row,column" from 0: for ``TabularMDP(..., states=grid.states)``."""
        self._check_own_cells("names")
        return tuple("nowhere" if cell == _NOWHERE else "{},{}".format(*self._place(cell)) for cell in self.cells)

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions, "up" or, of other moves, "+1,-2": for ``TabularMDP(..., actions=grid.actions)``."""
        return tuple(_CALLED.get(move, f"{move[0]:+d},{move[1]:+d}") for move in self.moves)

    def state(self, row: int, column: int) -> int:
        """Return the number of the state in a cell."""
        height, width = self.shape
        if not (0 <= row < height and 0 <= column < width):
            raise ModelError(
                f"there is no cell ({row}, {column}): rows are 0 to {height - 1}, columns 0 to {width - 1}"
            )
        found = np.flatnonzero(self.cells == row * width + column)
        if found.size != 1:
            what = f"{found.size} states" if found.size else "no state, as in a wall"
            raise ModelError(f"cell ({row}, {column}) holds {what}: give one that holds a single state")
        return int(found[0])

    def cell(self, state: int) -> tuple[int, int] | None:
        """Return (row, column) of a state, or None for one that is nowhere."""
        if not 0 <= state < self.num_states:
            raise ModelError(f"there is no state {state}: states are 0 to {self.num_states - 1}")
        return None if self.cells[state] == _NOWHERE else self._place(int(self.cells[state]))

    def find(self, letter: str) -> int:
        """Return the number of the one state whose cell has that letter."""
        found = np.flatnonzero(self.indicator(letter))
        if found.size != 1:
            raise ModelError(f"{found.size} states are in cells marked {letter!r}; find wants one: see indicator")
        return int(found[0])

    def indicator(self, letters: str) -> Float[np.ndarray, "S"]:
        """Return 1 for every state whose cell has one of the letters, 0 for others: a signal."""
        if not isinstance(letters, str) or not letters:
            raise ModelError(f"indicator wants letters of the map, such as 'G'; got {letters!r:.80}")
        missing = sorted(set(letters) - set("".join(self.rows)))
        if missing:
            known = "".join(sorted(set("".join(self.rows))))
            raise ModelError(f"no cell of the map is marked {missing[0]!r}: its letters are {known!r}")
        marked = np.array([mark in letters for mark in "".join(self.rows)], dtype=np.float64)
        return np.where(self.cells == _NOWHERE, 0.0, marked[self.cells])

    @property
    def neighbours(self) -> Int[np.ndarray, "S A"]:
        """The state that each move leads to, without slips: into walls and over the border it stays.

        It is what may follow where moves can slip, so ``bd.models.Tabular(support=grid.neighbours)`` declares it.
        """
        self._check_own_cells("neighbours")
        height, width = self.shape
        state_of = np.full(height * width, _NOWHERE)
        here = self.cells != _NOWHERE
        state_of[self.cells[here]] = np.flatnonzero(here)
        row, column = np.divmod(np.where(here, self.cells, 0), width)
        targets = []
        for down, right in self.moves:
            inside = here & (row + down >= 0) & (row + down < height) & (column + right >= 0) & (column + right < width)
            target = state_of[np.where(inside, (row + down) * width + column + right, 0)]
            targets.append(np.where(inside & (target != _NOWHERE), target, np.arange(self.num_states)))
        return np.stack(targets, axis=1)

    def successors(
        self, slip: float = 0.0, absorbing: str = ""
    ) -> tuple[Int[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
        """Return successor lists for `TabularMDP`: (next_states, probabilities).

        Args:
            slip: with this probability the move is one drawn evenly from all of them.
            absorbing: letters of cells that are never left.
        """
        if not 0 <= slip <= 1:
            raise ModelError(f"slip={slip}: it is a probability, from 0 to 1")
        targets = self.neighbours
        stay = self.indicator(absorbing) > 0 if absorbing else np.zeros(self.num_states, dtype=bool)
        targets = np.where(stay[:, None], np.arange(self.num_states)[:, None], targets)
        if slip == 0:
            return targets[:, :, None], np.ones((*targets.shape, 1))
        S, A = targets.shape
        chances = np.full((A, A), slip / A) + (1 - slip) * np.eye(A)
        return _merge(np.broadcast_to(targets[:, None], (S, A, A)), np.broadcast_to(chances, (S, A, A)))

    def with_end(self) -> "Grid":
        """Return the map with one more state, which is nowhere: where ended episodes of an environment stay."""
        longer = copy(self)
        object.__setattr__(longer, "cells", np.append(self.cells, _NOWHERE))
        return longer

    def _place(self, cell: int | np.integer) -> tuple[int, int]:
        row, column = divmod(int(cell), self.shape[1])
        return row, column

    def _check_own_cells(self, what: str) -> None:
        cells, counts = np.unique(self.cells[self.cells != _NOWHERE], return_counts=True)
        if np.any(counts > 1):
            crowd = int(np.argmax(counts))
            raise ModelError(
                f"{counts[crowd]} states share cell {self._place(cells[crowd])}: a map of such states has no {what}"
            )

    def __str__(self) -> str:
        return "\n".join(self.rows)


def _read_rows(given: Rows) -> tuple[str, ...]:
    """Read rows of letters, or make some of open ground from a shape."""
    sizes = tuple(given)
    if len(sizes) == 2 and all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
        return ("." * int(sizes[1]),) * int(sizes[0])
    rows = tuple(row for row in sizes if isinstance(row, str))
    if isinstance(given, str) or len(rows) != len(sizes) or not rows or not rows[0]:
        raise ModelError(f"a grid wants rows of text, ['S..', '.#G'], or a shape, (8, 8); got {given!r:.80}")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ModelError(f"row {i} of the map, {row!r}, has {len(row)} cells, but row 0 has {len(rows[0])}")
    return rows


def _read_walls(rows: tuple[str, ...], walls: Walls) -> Bool[np.ndarray, "cells"]:
    """Return which cells are walls, by letters or by pairs (row, column)."""
    height, width = len(rows), len(rows[0])
    if isinstance(walls, str):
        return np.array([mark in walls for mark in "".join(rows)])
    blocked = np.zeros((height, width), dtype=bool)
    for pair in walls:
        try:
            row, column = (int(number) for number in pair)
        except (TypeError, ValueError):
            raise ModelError(f"walls are letters, '#', or pairs (row, column); got {pair!r:.80}") from None
        if not (0 <= row < height and 0 <= column < width):
            raise ModelError(f"the wall ({row}, {column}) is outside of the map of shape ({height}, {width})")
        blocked[row, column] = True
    return blocked.ravel()


def _check_cells(cells: np.ndarray, count: int) -> Int[np.ndarray, "S"]:
    if cells.ndim != 1 or cells.size == 0 or not np.issubdtype(cells.dtype, np.integer):
        raise ModelError(f"cells must be a list of whole numbers, one per state; got {cells.dtype} of {cells.shape}")
    wrong = (cells < _NOWHERE) | (cells >= count)
    if wrong.any():
        state = int(np.argmax(wrong))
        raise ModelError(f"cells[{state}] is {cells[state]}: cells are 0 to {count - 1}, row by row, and -1 is nowhere")
    return cells.astype(np.int64)


def _check_moves(moves: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the moves as pairs of whole numbers; raise `ModelError` for others."""
    try:
        pairs = tuple((int(down), int(right)) for down, right in moves)
    except (TypeError, ValueError):
        raise ModelError(
            f"moves must be pairs of whole numbers, (rows down, columns right); got {moves!r:.80}"
        ) from None
    if not pairs:
        raise ModelError("moves is empty: a model needs at least one action, such as (0, 0) to stay")
    return pairs


def _merge(
    targets: Int[np.ndarray, "S A n"], chances: Float[np.ndarray, "S A n"]
) -> tuple[Int[np.ndarray, "S A K"], Float[np.ndarray, "S A K"]]:
    """Add the probabilities of equal targets, in lists as long as the longest."""
    order = np.argsort(targets, axis=-1, kind="stable")
    targets, chances = np.take_along_axis(targets, order, -1), np.take_along_axis(chances, order, -1)
    first = np.concatenate([np.ones_like(targets[..., :1]), np.diff(targets, axis=-1) != 0], axis=-1)
    place = np.cumsum(first, axis=-1) - 1
    states, sums = np.zeros_like(targets), np.zeros_like(chances)
    np.put_along_axis(states, place, targets, -1)
    rows, columns = np.indices(targets.shape)[:2]
    np.add.at(sums, (rows, columns, place), chances)
    width = int(place.max()) + 1
    return states[..., :width], sums[..., :width]
