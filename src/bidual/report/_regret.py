"""The cost of learning: regret and violation of the executed policies, and their growth."""

from typing import TYPE_CHECKING

import numpy as np

from bidual.learning.outputs import Regret
from bidual.report._canvas import BLUE, DARK, GREEN, ORANGE, VERMILLION, new_figure, set_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"regret": BLUE, "violation": GREEN, "positive regret": VERMILLION, "positive violation": ORANGE}


def regret_figure(regret: Regret, title: str = "what learning cost", *, first: int | None = None) -> "Figure":
    """Draw sums over the episodes on logarithmic axes, with their fitted slopes and the square root as a guide.

    Args:
        regret: of a solution, from ``solution.regret(mdp)``.
        title: over the figure.
        first: the episode from which slopes are fitted; by default a twentieth of all.
    """
    last = int(regret.episodes[-1])
    first = max(1, last // 20) if first is None else first
    slopes = regret.slopes(first) if last > 1 else {}
    figure = new_figure(7.6, 4.2)
    axes = figure.subplots()
    for name, sums in regret.series.items():
        visible = np.where(sums > 0, sums, np.nan)
        if np.isfinite(visible).any():
            slope = f", slope {slopes[name]:.2f}" if name in slopes else ""
            axes.plot(regret.episodes, visible, color=_COLOURS[name], linewidth=1.8, label=f"{name}{slope}")
    largest = max((float(sums.max()) for sums in regret.series.values()), default=1.0)
    guide = max(largest, 1e-9) * np.sqrt(regret.episodes / last)
    axes.plot(regret.episodes, guide, color=DARK, linewidth=0.9, linestyle=(0, (6, 3)), label="square root")
    axes.set(xscale="log", yscale="log", xlabel="episodes", ylabel="sum over the episodes so far")
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)
    set_title(axes, title, figure.get_figwidth())
    return figure
