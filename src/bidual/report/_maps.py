"""A map as the background of a figure: a heat map over its cells, grey walls, and marks as text."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.errors import PolicyError
from bidual.report._canvas import create_figure
from bidual.world.mdp import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_MARKS = {
    "S": "start",
    "G": "goal",
    "P": "pit",
    "W": "",
    "X": "box",
    "C": "cliff",
    "D": "stand",
    "H": "hole",
    "T": "gold",
    "F": "",  # ice of Gymnasium's lake
}
_GROUND = ". "
_ROOMY = 0.45  # inches of a cell that holds a word or a number in small print


def choose_cell_size(grid: Grid) -> float:
    """Return the inches of a cell: a figure of about 5 inches, larger for large maps but never more than 12."""
    longest = max(grid.shape)
    return min(max(5.0 / longest, 0.28), 0.85, 12.0 / longest)


def has_room(grid: Grid) -> bool:
    """Return whether a cell has room for text and numbers."""
    return choose_cell_size(grid) >= _ROOMY


def map_figure(grid: Grid) -> "tuple[Figure, Axes]":
    """Create an empty figure in proportion to the map."""
    height, width = grid.shape
    figure = create_figure(
        max(width * choose_cell_size(grid), 3.4) + 1.4, max(height * choose_cell_size(grid), 1.0) + 1.0
    )
    figure.set_layout_engine("compressed")  # cells are square: no gaps beside them
    axes = figure.add_subplot()
    axes.set_xticks([])
    axes.set_yticks([])
    return figure, axes


def fit_map(grid: Grid, states: int, actions: int) -> Grid:
    """Return the map, with a state for ended episodes if the policy has one; raise where it is of other states."""
    if grid.cells.size + 1 == states:
        grid = grid.with_end()
    if grid.cells.size != states or len(grid.moves) != actions:
        raise PolicyError(
            f"the map is of {grid.cells.size} states and {len(grid.moves)} actions, the policy of {states} states and "
            f"{actions} actions; draw it on the map of its own states"
        )
    return grid


def sum_by_cell(grid: Grid, weights: Float[np.ndarray, "S"]) -> Float[np.ndarray, "rows columns"]:
    """Add up the weights of the states in their cells; states without a cell are left out."""
    height, width = grid.shape
    here = grid.cells >= 0
    return np.bincount(grid.cells[here], weights=weights[here], minlength=height * width).reshape(height, width)


def empty_cells(grid: Grid) -> Bool[np.ndarray, "rows columns"]:
    """Find walls and cells that end the episode: no state lies there, so they have no number of steps."""
    return sum_by_cell(grid, np.ones(grid.cells.size)) == 0


def draw_heat(
    figure: "Figure",
    axes: "Axes",
    grid: Grid,
    count: Float[np.ndarray, "rows columns"],
    colours: "str | Colormap",
    label: str = "expected steps in the cell",
) -> None:
    """Colour each cell by its count, cells without states grey, with a scale beside or, on a flat map, below."""
    # A square root keeps rarely visited cells apart from those never visited.
    root = np.sqrt(count)
    image = axes.imshow(np.ma.masked_array(root, empty_cells(grid)), cmap=colours, vmin=0, interpolation="nearest")
    axes.set_facecolor("0.75")
    flat = grid.shape[0] * choose_cell_size(grid) < 2.5
    place: dict[str, Any] = {"orientation": "horizontal", "aspect": 40} if flat else {}
    bar = figure.colorbar(image, ax=axes, label=label, **place)
    ticks = _round_numbers(float(count.max()))
    bar.set_ticks([np.sqrt(tick) for tick in ticks], labels=[f"{tick:g}" for tick in ticks])


def _round_numbers(most: float) -> list[float]:
    """List 0 and the numbers 1, 2, 5 times a power of ten, far enough apart on a square root scale up to `most`."""
    powers = 10.0 ** np.arange(-4, 7)
    return [0.0] + [number for number in np.outer(powers, [1, 2, 5]).ravel() if most / 20 <= number <= most]


def mark_of(grid: Grid, row: int, column: int) -> str:
    """Return the mark of a cell: a word where there is room, else its letter; none for open ground and walls."""
    letter = grid.rows[row][column]
    word = grid.marks.get(letter, _MARKS.get(letter, letter))
    if letter in _GROUND or not word or grid.blocked[row, column]:
        return ""
    return word if has_room(grid) else letter


def format_short(number: float) -> str:
    """Format an expected number of steps with two digits; empty for next to none."""
    return "" if number < 5e-4 else f"{number:.2g}" if number < 10 else f"{number:.0f}"
