"""Where a policy goes: expected visits as a picture.

Figures are drawn on a canvas of their own, without pyplot: no window, no display, no global state.
"""

import os
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bidual.solution import Solution
from bidual.tasks import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = {
    "S": "start",
    "G": "goal",
    "P": "pit",
    "W": "wall",
    "X": "box",
    "C": "cliff",
    "D": "stand",
    "H": "hole",
    "T": "gold",
}


def visits_figure(solution: Solution, grid: Grid | None = None, title: str = "") -> "Figure":
    """Expected visits: on the map where there is one, else by state and step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    axes = figure.add_subplot()
    if grid is None:
        _draw_by_step(figure, axes, solution.visits)
    else:
        _draw_on_map(figure, axes, solution.visits, grid)
    axes.set_title(title or _title(solution), fontsize=10)
    return figure


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write the figure in the format that the file name ends in."""
    figure.savefig(path, dpi=150)


def _title(solution: Solution) -> str:
    name = f"{solution.task}: " if solution.task else ""
    return f"{name}visits of the policy found ({solution.status}, {solution.sense} {solution.value:.4f})"


def _draw_by_step(figure: "Figure", axes: "Axes", visits: Float[np.ndarray, "H S"]) -> None:
    image = axes.imshow(visits.T, aspect="auto", cmap="viridis", vmin=0, interpolation="nearest")
    axes.set_xlabel("step")
    axes.set_ylabel("state")
    figure.colorbar(image, ax=axes, label="probability of being there")


def _draw_on_map(figure: "Figure", axes: "Axes", visits: Float[np.ndarray, "H S"], grid: Grid) -> None:
    height, width = len(grid.rows), len(grid.rows[0])
    here = grid.cells >= 0
    count = np.bincount(grid.cells[here], weights=visits.sum(axis=0)[here], minlength=height * width)
    count = count.reshape(height, width)
    # Walls, and cells that end the episode: no state lies there, so there is no number of steps to show.
    empty = np.bincount(grid.cells[here], minlength=height * width).reshape(height, width) == 0
    # A square root keeps rarely visited cells apart from those never visited.
    image = axes.imshow(np.ma.masked_array(np.sqrt(count), empty), cmap="viridis", vmin=0)
    axes.set_facecolor("0.75")
    half = 0.6 * np.sqrt(count.max())
    for (i, j), number in np.ndenumerate(count):
        mark = grid.rows[i][j]
        if mark == "W":
            continue
        colour = "white" if np.sqrt(number) < half and not empty[i, j] else "black"
        if mark in _MARKS:
            axes.text(
                j,
                i if empty[i, j] else i - 0.18,
                _MARKS[mark],
                ha="center",
                va="center",
                color=colour,
                fontsize=8,
                weight="bold",
            )
        if not empty[i, j]:
            axes.text(j, i + 0.2, _short(float(number)), ha="center", va="center", color=colour, fontsize=7)
    axes.set_xticks([])
    axes.set_yticks([])
    bar = figure.colorbar(image, ax=axes, label="expected steps in the cell")
    ticks = np.linspace(0, np.sqrt(count.max()), 5)
    bar.set_ticks(list(ticks), labels=[_short(tick**2) for tick in ticks])


def _short(number: float) -> str:
    return "0" if number < 5e-4 else f"{number:.2g}" if number < 10 else f"{number:.0f}"
