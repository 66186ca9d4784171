"""The expected visits of a policy as a picture."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bidual.learning.learned import Learned
from bidual.report._canvas import headline, new_figure, set_title, whole_numbers
from bidual.report._maps import cell_totals, check_map, draw_heat, empty_cells, map_figure, mark_of, roomy, short
from bidual.solving.solution import Solution
from bidual.tasks import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def visits_figure(solution: Solution | Learned, grid: Grid | None = None, title: str = "") -> "Figure":
    """Draw expected visits: on the map where there is one, else by state and step. Learned policies: in their model."""
    figure, axes = _by_step(solution.visits) if grid is None else _on_map(solution, grid)
    whose = "policy" if isinstance(solution, Solution) else "learned policy"
    set_title(axes, title or headline(solution, f"where the {whose} goes"), figure.get_figwidth())
    return figure


def _by_step(visits: Float[np.ndarray, "H S"]) -> "tuple[Figure, Axes]":
    figure = new_figure(6.4, 4.4)
    axes = figure.add_subplot()
    image = axes.imshow(visits.T, aspect="auto", cmap="viridis", vmin=0, interpolation="nearest")
    axes.set_xlabel("step")
    axes.set_ylabel("state")
    whole_numbers(axes, "x")
    whole_numbers(axes, "y")
    figure.colorbar(image, ax=axes, label="probability of being there")
    return figure, axes


def _on_map(solution: Solution | Learned, grid: Grid) -> "tuple[Figure, Axes]":
    _, states, actions = solution.policy.shape
    check_map(grid, states, actions)
    figure, axes = map_figure(grid)
    count = cell_totals(grid, solution.visits.sum(axis=0))
    empty = empty_cells(grid)
    label = "expected steps in the cell" + (", in the learned model" if isinstance(solution, Learned) else "")
    draw_heat(figure, axes, grid, count, "viridis", label)
    for (i, j), number in np.ndenumerate(count):
        colour = "white" if np.sqrt(number) < 0.5 * np.sqrt(count.max()) and not empty[i, j] else "black"
        text: dict[str, Any] = {"ha": "center", "va": "center", "color": colour}
        numbered = roomy(grid) and not empty[i, j]
        if numbered:
            axes.text(j, i + 0.2, short(float(number)), fontsize=7, **text)
        axes.text(j, i - 0.18 if numbered else i, mark_of(grid, i, j), fontsize=8, weight="bold", **text)
    return figure, axes
