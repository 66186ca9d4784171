"""The progress of learning: the bound on all policies, the value reached, and the largest possible violation.

All numbers are bounds that hold at once with the solution's probability. Lines belong to the mixture of the policies
run so far, the mark at the right end to the policy that is returned, which had fresh episodes of its own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bidual.learning.learned import Learned
from bidual.learning.outputs import Regret
from bidual.learning.summary import Interval
from bidual.report._canvas import BLUE, DARK, GREEN, ORANGE, VERMILLION, create_figure, set_title, write_headline
from bidual.report._paid import episode_values_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEAST_SHARE = 0.12  # of the height, for the gap that is left at the end: early bounds may lie far off
_LINE: dict[str, Any] = {"linewidth": 1.8, "marker": "o", "markersize": 3.5}
_MARK: dict[str, Any] = {"color": DARK, "marker": "D", "markersize": 4, "capsize": 5, "elinewidth": 1.4, "zorder": 4}


def learning_figure(solution: Learned, optimum: float | None = None, title: str = "") -> "Figure":
    """Draw bounds on the objective over the episodes and, where there are constraints, on the violation below them.

    For controls, without bounds, the values of every episode: objective and constraints against their limits.

    Args:
        solution: the result of `learn`.
        optimum: the true optimum, where it is known, as a thin line.
        title: instead of the task's name and how learning ended.
    """
    if solution.values_per_episode is not None:
        return episode_values_figure(solution, solution.values_per_episode, optimum, title)
    limited = bool(solution.constraints)
    figure = create_figure(7.6, 4.6 if limited else 3.2)
    panels = figure.subplots(2 if limited else 1, 1, sharex=True, squeeze=False, height_ratios=[3, 2][: 1 + limited])
    top, bottom = panels[0, 0], panels[-1, 0]
    episodes = np.array([progress.episodes for progress in solution.history])
    _draw_objective(top, solution, episodes, optimum)
    if limited:
        _draw_violation(bottom, solution, episodes)
    for axes in panels[:, 0]:
        axes.grid(alpha=0.25)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)
    _draw_episodes(bottom, episodes, solution.delta)
    set_title(top, title or write_headline(solution, "what the episodes show"), figure.get_figwidth())
    return figure


def _draw_objective(axes: "Axes", solution: Learned, episodes: np.ndarray, optimum: float | None) -> None:
    """Draw the bounds on the objective, the policy's interval and the optimum where it is known."""
    maximises = solution.sense == "maximize"
    bound = _to_numbers(
        [*(progress.bound for progress in solution.history), solution.upper if maximises else solution.lower]
    )
    reached = _to_numbers([progress.reached for progress in solution.history])
    unbeaten, own = (VERMILLION, BLUE) if maximises else (BLUE, VERMILLION)  # upper and lower, as in bounds_figure
    side = "above" if maximises else "below"
    # At the right end: the bound that is returned, to which fresh episodes may have added.
    ends = np.append(episodes, _place_mark(episodes))
    _draw_line(axes, ends, bound, unbeaten, f"no feasible policy\nis {side} this")
    _draw_line(axes, episodes, reached, own, f"the mixture of the policies\nrun so far is {side} this")
    axes.fill_between(episodes, reached, bound[:-1], color=own, alpha=0.08, linewidth=0)
    interval = solution.outputs[0].objective
    _mark_policy(axes, episodes, interval, _describe_policy(solution))
    if optimum is not None:
        axes.axhline(optimum, color=DARK, linewidth=0.9, linestyle=(0, (6, 3)), label="the true optimum")
    _magnify_end(axes, solution, bound, reached, [interval.value, interval.lower, interval.upper, optimum])
    axes.set_ylabel(f"objective ({solution.sense})")


def _draw_violation(axes: "Axes", solution: Learned, episodes: np.ndarray) -> None:
    violation = _to_numbers([progress.violation for progress in solution.history])
    _draw_line(axes, episodes, violation, GREEN, "of that mixture, at most")
    worst = max(constraint.violation_upper for constraint in solution.constraints)
    if np.isfinite(worst):
        _mark_policy(axes, episodes, Interval(worst, None, None), "of the policy returned,\nat most")
    axes.axhline(0.0, color=DARK, linewidth=0.9, linestyle=":", label="every limit is kept")
    axes.set_ylabel("violation")


def _draw_line(axes: "Axes", episodes: np.ndarray, numbers: np.ndarray, colour: str, label: str) -> None:
    # A leading underscore keeps a line without any number out of the legend.
    known = "" if np.isfinite(numbers).any() else "_"
    axes.plot(episodes, numbers, color=colour, label=f"{known}{label}", **_LINE)


def _mark_policy(axes: "Axes", episodes: np.ndarray, interval: Interval, label: str) -> None:
    """Draw a diamond with a bar as far as the interval is known, to the right of the lines."""
    value, lower, upper = interval.value, interval.lower, interval.upper
    reach = [[0.0 if lower is None else value - lower], [0.0 if upper is None else upper - value]]
    bar = None if lower is None and upper is None else np.maximum(reach, 0.0)  # of several rounds: the mean may be out
    axes.errorbar([_place_mark(episodes)], [value], yerr=bar, linestyle="none", label=label, **_MARK)


def _describe_policy(solution: Learned) -> str:
    count = solution.outputs[0].episodes
    return f"the policy returned,\non {count} fresh episodes" if count else "the policy returned,\nin the learned model"


def _place_mark(episodes: np.ndarray) -> float:
    """Return the position of the policy's mark on the logarithmic axis: a little after the last episode."""
    return float(episodes[-1]) * (float(episodes[-1]) / float(episodes[0])) ** 0.05 * 1.05


def _magnify_end(
    axes: "Axes", solution: Learned, bound: np.ndarray, reached: np.ndarray, end: Sequence[float | None]
) -> None:
    """Magnify the end where early bounds were so far off that nothing else would be visible."""
    last = _to_numbers([bound[-1], *(reached[-1:] if np.isnan(bound[-1]) else []), *end])
    last, everything = last[np.isfinite(last)], np.concatenate([bound, reached, last])
    everything = everything[np.isfinite(everything)]
    room = max(float(np.ptp(last)), 1e-6 * max(1.0, float(np.abs(last).max()))) / _LEAST_SHARE
    low, high = float(everything.min()), float(everything.max())
    if solution.sense == "maximize":
        low = max(low, float(last.max()) - room)
    else:
        high = min(high, float(last.min()) + room)
    margin = 0.05 * (high - low) or 0.5
    axes.set_ylim(low - margin, high + margin)


def _draw_episodes(axes: "Axes", episodes: np.ndarray, delta: float) -> None:
    """Draw the axis of episodes, logarithmic with a tick at some reports."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    ticks = episodes[::-1][:: 1 + len(episodes) // 9][::-1]
    if len(ticks) > 1 and ticks[-1] < 1.5 * ticks[-2]:
        ticks = np.delete(ticks, -2)  # their numbers would run into each other
    axes.set_xticks(ticks.tolist(), labels=[f"{count}" for count in ticks])
    axes.set_xlabel(f"episodes (all bounds hold at once with probability {1 - delta:g})")


def _to_numbers(values: Sequence[float | None]) -> Float[np.ndarray, "n"]:
    """Return the values with NaN, which is not drawn, for unknown ones."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)


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
    figure = create_figure(7.6, 4.2)
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
