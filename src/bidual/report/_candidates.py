"""The elimination of candidates in a finite class of laws: those of every step that may still be true, over episodes.

The scale is linear up to the first bounds, so that it can begin before the first episode, and logarithmic after them.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from bidual._base.errors import ProblemError
from bidual.learning.learned import Learned
from bidual.report._canvas import DARK, create_figure, set_title, write_headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LISTED = 8  # steps that the legend lists one by one; of more it lists the first, the last and some between
_SOME = 5
_DARKEST, _LIGHTEST = 0.0, 0.85  # of the colour map: lighter lines are invisible on white


def candidates_figure(solution: Learned, title: str = "") -> "Figure":
    """Draw the candidates left at every step against episodes, both on logarithmic scales.

    Args:
        solution: the result of `learn` with a class of laws, `bd.models.LowRank`.
        title: instead of the task's name and how learning ended.
    """
    history = [progress for progress in solution.history if progress.candidates is not None]
    if solution.candidates is None or not history:
        raise ProblemError(
            "this solution was learned without a class of laws, so there are no candidates to draw: give learn a "
            "model such as bd.models.LowRank(phis, mus)"
        )
    episodes = np.array([0, *(progress.episodes for progress in history)])
    left = np.array(
        [solution.candidates.of, *(progress.candidates.left for progress in history if progress.candidates is not None)]
    )
    figure = create_figure(7.6, 3.4)
    axes = figure.subplots()
    _draw_steps(axes, episodes, left)
    _draw_scales(axes, episodes, left)
    set_title(axes, title or write_headline(solution, "candidates left"), figure.get_figwidth())
    return figure


def _draw_steps(axes: "Axes", episodes: Int[np.ndarray, "n"], left: Int[np.ndarray, "n H"]) -> None:
    """Draw a line for every step, from dark to light; earlier steps are wider, to be visible beneath later ones."""
    from matplotlib import colormaps

    count = left.shape[1]
    shades = colormaps["viridis"](np.linspace(_DARKEST, _LIGHTEST, count))
    labelled = set(np.linspace(0, count - 1, count if count <= _LISTED else _SOME).round().astype(int).tolist())
    for h, shade in enumerate(shades):
        label = f"step {h + 1}" if h in labelled else None
        width = 1.3 + 2.0 * (1 - (h + 1) / count)
        axes.plot(episodes, left[:, h], color=shade, linewidth=width, marker="o", markersize=width + 2.2, label=label)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)


def _draw_scales(axes: "Axes", episodes: Int[np.ndarray, "n"], left: Int[np.ndarray, "n H"]) -> None:
    """Draw both logarithmic scales, with ticks at the reports."""
    from matplotlib.ticker import NullLocator, ScalarFormatter

    axes.set_xscale("symlog", linthresh=float(episodes[1]), linscale=0.45)
    axes.xaxis.set_minor_locator(NullLocator())
    ticks = episodes[::-1][:: 1 + len(episodes) // 10][::-1]
    if len(ticks) > 2 and ticks[-1] < 1.5 * ticks[-2]:
        ticks = np.delete(ticks, -2)  # their numbers would run into each other
    axes.set_xticks(ticks.tolist(), labels=[f"{count}" for count in ticks])
    axes.set_xlabel("episodes")
    largest = int(left.max())
    axes.set_yscale("log")
    axes.set_ylim(0.8, 1.4 * max(largest, 2))
    tens = [10**k for k in range(len(str(largest))) if 10**k < 0.6 * largest]
    axes.set_yticks([*tens, largest])
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("laws that may be true")
    axes.axhline(1, color=DARK, linewidth=0.9, linestyle=":")
    axes.grid(alpha=0.25)
