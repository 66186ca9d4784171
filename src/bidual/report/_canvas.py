"""The common parts of figures: a canvas without pyplot, colours for colour-blind readers, a headline.

Figures are drawn on a canvas of their own: no window, no display, no global state.
"""

import io
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.archive import put_bytes
from bidual._base.brief import shorten
from bidual._base.names import Names
from bidual.learning.learned import Learned
from bidual.solving.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette.
BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
ACTIONS = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", VERMILLION, "#F0E442", "#000000")
DARK, SHADE = "0.15", "0.9"
_MOST_NAMES, _LONGEST_NAME = 60, 32


def create_figure(width: float, height: float) -> "Figure":
    """Create an empty figure, sizes in inches, that leaves room for its own labels."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write the figure in the format that the file name ends in; readers find the old one or the new one, whole."""
    target, drawn = Path(path), io.BytesIO()
    target = target if target.suffix else target.with_name(f"{target.name}.png")
    figure.savefig(drawn, format=target.suffix[1:], dpi=150, bbox_inches="tight", pad_inches=0.08)
    put_bytes(target, drawn.getvalue())


def set_title(axes: "Axes", title: str, width: float) -> None:
    """Write the title over the axes, in as many lines as the figure's width in inches asks for."""
    axes.set_title("\n".join(textwrap.wrap(title, width=int(12 * width))), fontsize=11)


def write_headline(solution: Solution | Learned, what: str) -> str:
    """Return a title: the content `what` of the figure, the task, and the outcome of its solve."""
    name = f"{solution.task}: " if solution.task else ""
    ending = {
        "infeasible": "infeasible, the least violation found",
        "undecided": "undecided, not shown to be feasible",
    }.get(solution.status, f"{solution.status}, {solution.sense} {solution.value:.4f}")
    return f"{name}{what} ({ending})"


def tick_whole_numbers(axes: "Axes", which: str) -> None:
    """Put ticks of the axis "x" or "y" at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def tick_states(axes: "Axes", names: Names, count: int) -> None:
    """Put names of states at the vertical axis, where they have some and all find room; else numbers."""
    if names.states is None or count > _MOST_NAMES:
        axes.set_ylabel("state")
        tick_whole_numbers(axes, "y")
        return
    labels = [shorten(name, _LONGEST_NAME) for name in names.states]
    axes.set_yticks(range(count), labels=labels, fontsize=9 if count <= 20 else 6)
