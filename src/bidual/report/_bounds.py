"""The progress of a solve: its bounds and their gap, plan by plan.

The lines are the solver's own numbers, as in the progress line. The marks at the end are the certificate's:
only they have been derived a second time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from bidual.report._canvas import (
    BLUE,
    DARK,
    GREEN,
    SHADE,
    VERMILLION,
    create_figure,
    set_title,
    tick_whole_numbers,
    write_headline,
)
from bidual.solving.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DOTTED = 40  # plans up to which each has a dot of its own
_ROUNDING = 2.0**-52


def bounds_figure(solution: Solution, title: str = "") -> "Figure":
    """Draw lower and upper bound over the plans, in the user's sense, and below them the gap.

    While no feasible policy is known there is no gap: those plans are shaded, and the largest violation is drawn in
    its place.
    """
    figure = create_figure(8.4, 5.0)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    plans = np.array([state.plans for state in solution.history])
    searching = _find_searching(solution)
    _draw_bounds(top, solution, plans)
    _draw_gap(bottom, solution, plans, searching)
    for axes in (top, bottom):
        _shade(axes, plans, searching)
        axes.grid(alpha=0.25)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)
    bottom.set_xlim(plans[0] - 0.5, plans[-1] + 0.5)
    bottom.set_xlabel("plans made")
    tick_whole_numbers(bottom, "x")
    set_title(top, title or write_headline(solution, "bounds on the optimum"), figure.get_figwidth())
    return figure


def _find_searching(solution: Solution) -> Bool[np.ndarray, "n"]:
    """Return the plans after which no feasible policy was known: the policy's own side has no bound."""
    own = [state.lower if solution.sense == "maximize" else state.upper for state in solution.history]
    return np.array([bound is None for bound in own])


def _draw_bounds(axes: "Axes", solution: Solution, plans: np.ndarray) -> None:
    """Draw lower and upper bounds over the plans."""
    lower = _to_numbers([state.lower for state in solution.history])
    upper = _to_numbers([state.upper for state in solution.history])
    reached, unbeaten = "reached by a feasible policy", "no feasible policy is {}"
    maximises = solution.sense == "maximize"
    labels = (unbeaten.format("above"), reached) if maximises else (reached, unbeaten.format("below"))
    style = _choose_style(plans)
    for side, bound, colour, meaning in (
        ("upper", upper, VERMILLION, labels[0]),
        ("lower", lower, BLUE, labels[1]),
    ):
        # A leading underscore keeps a line without any number out of the legend.
        known = "" if np.isfinite(bound).any() else "_"
        axes.plot(plans, bound, color=colour, label=f"{known}{side} bound:\n{meaning}", **style)
    axes.fill_between(plans, lower, upper, step="post", color=BLUE, alpha=0.08, linewidth=0)
    ends = _to_numbers([solution.lower, solution.upper])
    if not np.isnan(ends).all():
        _mark_end(axes, int(plans[-1]), ends, "certified at the end")
    _focus_axis(axes, lower, upper, ends)
    axes.set_ylabel("objective")


def _focus_axis(axes: "Axes", lower: np.ndarray, upper: np.ndarray, ends: np.ndarray) -> None:
    """Fit the axis without the first tenth of the plans: their bounds can be so far off that they hide the rest."""
    late = len(lower) // 10
    visible = np.concatenate([lower[late:], upper[late:], ends])
    visible = visible[np.isfinite(visible)]
    if visible.size:
        size = max(1.0, abs(float(visible[0])))
        # Bounds that differ by rounding are one bound: do not magnify what lies between them.
        margin = 0.06 * (np.ptp(visible) if np.ptp(visible) > 1e-7 * size else size)
        axes.set_ylim(visible.min() - margin, visible.max() + margin)


def _draw_gap(axes: "Axes", solution: Solution, plans: np.ndarray, searching: np.ndarray) -> None:
    """Draw the gap, and the violation while no policy is feasible, on a logarithmic axis."""
    axes.set_yscale("log")
    gap = _to_numbers([state.gap for state in solution.history])
    violation = np.where(searching, [state.violation for state in solution.history], np.nan)
    if not searching.all():
        axes.plot(
            plans,
            _raise_to_rounding(gap, solution.value),
            color=DARK,
            label="gap between the bounds",
            **_choose_style(plans),
        )
        axes.axhline(_compute_goal(solution), color="0.45", linestyle=":", linewidth=1.2, label="gap asked for")
    if searching.any():
        violation = _raise_to_rounding(violation, 1.0)
        axes.plot(plans, violation, color=GREEN, linestyle="--", label="largest violation", **_choose_style(plans))
    if solution.gap is not None:
        _mark_end(axes, int(plans[-1]), _raise_to_rounding(np.array([solution.gap]), solution.value), "certified gap")
    elif solution.conflict is not None:
        # Some constraint is violated by at least its own amount, so the largest violation is at least the smallest.
        least = np.array([min(solution.conflict.least.values())])
        _mark_end(axes, int(plans[-1]), least, "certified: every policy\nviolates at least this much")
    axes.set_ylabel("violation" if searching.all() else "gap, violation" if searching.any() else "gap")


def _compute_goal(solution: Solution) -> float:
    return solution.goal.gap * (abs(solution.value) if solution.goal.relative else 1.0)


def _raise_to_rounding(numbers: np.ndarray, size: float) -> np.ndarray:
    """Raise numbers no larger than rounding to its size: a logarithmic axis has no zero."""
    return np.maximum(numbers, _ROUNDING * max(1.0, abs(size)))


def _mark_end(axes: "Axes", plan: int, values: np.ndarray, label: str) -> None:
    mark: dict[str, Any] = {"marker": "D", "markersize": 6, "markerfacecolor": "white", "markeredgecolor": "black"}
    axes.plot(np.full(len(values), plan), values, linestyle="none", label=label, zorder=4, clip_on=False, **mark)


def _shade(axes: "Axes", plans: np.ndarray, searching: np.ndarray) -> None:
    """Shade the plans without a feasible policy; they come first, if at all."""
    if searching.any():
        end = plans[-1] + 0.5 if searching.all() else plans[~searching][0]
        axes.axvspan(plans[0] - 0.5, end, color=SHADE, zorder=0, label="no feasible policy known")


def _choose_style(plans: np.ndarray) -> dict[str, Any]:
    dots = {"marker": "o", "markersize": 3.5} if len(plans) <= _DOTTED else {}
    return {"drawstyle": "steps-post", "linewidth": 1.6, **dots}


def _to_numbers(values: Sequence[float | None]) -> Float[np.ndarray, "n"]:
    """Return the values with NaN, which is not drawn, for unknown ones."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
