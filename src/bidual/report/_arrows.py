"""Arrows on a map: direction, frequency and randomness of the actions."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from bidual.report._canvas import DARK, VERMILLION
from bidual.report._maps import choose_cell_size, mark_of
from bidual.world.mdp import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEAST_SHARE = 0.01  # an arrow for less would be as short as its own head
_RANDOM = 0.01  # share of actions drawn at random from which a cell has another colour
_RARE = 5e-4  # expected steps below which a cell is drawn faintly, and its visits without a number
_KINDS = (
    (DARK, "one action per step and state"),
    (VERMILLION, "action drawn at random"),
    ("0.72", f"less than {_RARE} steps there"),
)
_LONGEST, _SHORTEST = 0.44, 0.14  # lengths in cells


def draw_arrows(
    figure: "Figure",
    axes: "Axes",
    grid: Grid,
    shares: Float[np.ndarray, "rows columns A"],
    kinds: Int[np.ndarray, "rows columns"],
) -> None:
    """Draw an arrow per direction in each cell: larger and darker for a larger share, coloured by the cell's kind."""
    from matplotlib.colors import to_rgb

    directions, ways = _group_by_direction(grid, shares)
    colours = np.array([to_rgb(colour) for colour, _ in _KINDS])[kinds]
    moves = directions.any(axis=1)
    _draw_moves(axes, directions[moves], ways[..., moves], colours)
    _draw_stays(axes, ways[..., ~moves].sum(axis=-1), choose_cell_size(grid), colours)
    busy = shares.max(axis=-1) > 0
    _draw_marks(axes, grid, busy)
    _draw_key(figure, axes, sorted(set(kinds[busy].tolist())))


def classify_cells(
    count: Float[np.ndarray, "rows columns"], drawn: Float[np.ndarray, "rows columns"]
) -> Int[np.ndarray, "rows columns"]:
    """Classify cells by their expected steps and their share of actions drawn at random, for the colour of arrows."""
    return np.where(count < _RARE, 2, np.where(drawn >= _RANDOM, 1, 0))


def _group_by_direction(
    grid: Grid, shares: Float[np.ndarray, "rows columns A"]
) -> tuple[Float[np.ndarray, "directions 2"], Float[np.ndarray, "rows columns directions"]]:
    """Return unit vectors (row, column) and the share of each: actions with the same direction share an arrow."""
    moves = np.array(grid.moves, dtype=float).reshape(-1, 2)
    length = np.linalg.norm(moves, axis=1, keepdims=True)
    units = moves / np.where(length > 0, length, 1.0)
    directions, which = np.unique(units.round(12), axis=0, return_inverse=True)
    return directions, shares @ np.eye(len(directions))[which.ravel()]


def _draw_moves(axes: "Axes", directions: np.ndarray, ways: np.ndarray, colours: np.ndarray) -> None:
    i, j, d = np.nonzero(ways >= _LEAST_SHARE)
    share = ways[i, j, d]
    length = _SHORTEST + (_LONGEST - _SHORTEST) * share
    down, right = length * directions[d].T
    shape: dict[str, Any] = {"width": 0.055, "headwidth": 3.6, "headlength": 3.2, "headaxislength": 2.9, "minlength": 0}
    shape["minshaft"] = _LONGEST / (0.055 * 3.2)  # a shorter arrow is a smaller copy of the longest
    rgba = np.column_stack([colours[i, j], _choose_opacity(share)])
    axes.quiver(j, i, right, down, angles="xy", scale_units="xy", scale=1, units="xy", color=rgba, zorder=3, **shape)


def _draw_stays(axes: "Axes", share: np.ndarray, cell: float, colours: np.ndarray) -> None:
    i, j = np.nonzero(share >= _LEAST_SHARE)
    rgba = np.column_stack([colours[i, j], _choose_opacity(share[i, j])])
    axes.scatter(j, i, s=(72 * cell * 0.3) ** 2 * share[i, j], color=rgba, linewidths=0, zorder=3)


def _choose_opacity(share: np.ndarray) -> np.ndarray:
    return 0.35 + 0.65 * np.minimum(share, 1.0)


def _draw_marks(axes: "Axes", grid: Grid, busy: np.ndarray) -> None:
    """Write marks in the middle of a cell or, beside arrows, in its corner."""
    for i, j in np.ndindex(busy.shape):
        text = mark_of(grid, i, j)
        if busy[i, j]:
            axes.text(j - 0.46, i - 0.46, text, ha="left", va="top", fontsize=6.5, color=DARK)
        else:
            axes.text(j, i, text, ha="center", va="center", fontsize=8, weight="bold", color=DARK)


def _draw_key(figure: "Figure", axes: "Axes", kinds: list[int]) -> None:
    from matplotlib.lines import Line2D

    axes.set_xlabel("an arrow's length: the share of the actions taken in the cell that go its way", fontsize=9)
    arrow: dict[str, Any] = {"linestyle": "none", "marker": r"$\rightarrow$", "markersize": 14}
    handles = [Line2D([], [], color=_KINDS[kind][0], label=_KINDS[kind][1], **arrow) for kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8, columnspacing=1)
