"""The effect of a parameter on learning: value and constraints of runs, against the parameter."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.report._canvas import BLUE, DARK, GREEN, VERMILLION, create_figure, set_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = 4  # at most: the objective and the first constraints


@final
@dataclass(frozen=True)
class Trade:
    """One run: its parameter, and the value and constraints of its policy. None and NaN are not drawn.

    Args:
        at: the parameter.
        value: of the objective.
        lower: a bound of it; None where there is none.
        upper: likewise.
        constraints: (value, limit) of every constraint, by name.
    """

    __repr__ = describe_briefly

    at: float
    value: float | None
    lower: float | None = None
    upper: float | None = None
    constraints: dict[str, tuple[float, float]] = field(default_factory=dict)


def tradeoff_figure(runs: Sequence[Trade], parameter: str, sense: str = "maximize", title: str = "") -> "Figure":
    """Draw a panel for the objective and one for every constraint with its limit: a dot per run, a line of the means.

    Args:
        runs: any number at every value of the parameter, in any order.
        parameter: its name.
        sense: "maximize" or "minimize".
        title: instead of one in standard words.
    """
    if not runs:
        raise ProblemError("a figure of runs needs at least one of them")
    names = list(dict.fromkeys(name for run in runs for name in run.constraints))[: _PANELS - 1]
    figure = create_figure(7.6, 1.4 + 2.2 * (1 + len(names)))
    panels = figure.subplots(1 + len(names), 1, sharex=True, squeeze=False)[:, 0]
    x = np.array([run.at for run in runs])
    _draw_bounds(panels[0], runs)
    _draw_dots(panels[0], x, np.array([np.nan if run.value is None else run.value for run in runs]), BLUE)
    panels[0].set_ylabel(f"objective ({sense})")
    for axes, name in zip(panels[1:], names, strict=True):
        pairs = np.array([run.constraints.get(name, (np.nan, np.nan)) for run in runs])
        _draw_dots(axes, x, pairs[:, 0], GREEN)
        at, limits = _average_by_limit(x, pairs[:, 1])
        axes.plot(at, limits, color=VERMILLION, linestyle=":", linewidth=1.6, label="limit")
        axes.set_ylabel(name)
    for axes in panels:
        axes.grid(alpha=0.25)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)
    panels[-1].set_xlabel(parameter)
    set_title(panels[0], title or f"what '{parameter}' is worth", figure.get_figwidth())
    return figure


def _draw_dots(axes: "Axes", x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"], colour: str) -> None:
    at, means = _average_by_limit(x, y)
    if at.size < x.size:
        axes.plot(at, means, color=colour, linewidth=1.6, label="mean of the runs")
    axes.plot(x, y, "o", color=colour, markersize=4.5, alpha=0.75, label="each policy returned")


def _draw_bounds(axes: "Axes", runs: Sequence[Trade]) -> None:
    """Draw bars between the bounds of those runs that have both."""
    both = [(run.at, run.lower, run.upper) for run in runs if run.lower is not None and run.upper is not None]
    if both:
        at, lower, upper = zip(*both, strict=True)
        axes.vlines(at, lower, upper, color=DARK, linewidth=1.0, alpha=0.5, label="certified bounds")


def _average_by_limit(x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of x where y is known, in order, and the mean of y at each."""
    at = np.unique(x[np.isfinite(y)])
    return at, np.array([y[(x == place) & np.isfinite(y)].mean() for place in at])
