"""The progress of learning without bounds: values of every episode against the limits, and the returned policy.

Nonlinear functions have no value for single episodes: their line is the value of all episodes so far together. Bars are
intervals that hold at once with the solution's probability; bars longer than the panel are cut off.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bidual.learning.learned import EpisodeValues, Learned
from bidual.learning.summary import Interval
from bidual.report._canvas import (
    BLUE,
    DARK,
    GREEN,
    VERMILLION,
    create_figure,
    set_title,
    tick_whole_numbers,
    write_headline,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = 4  # at most: the objective and the first constraints
_DOTTED = 60  # episodes up to which dots are of full size
_MARK: dict[str, Any] = {"color": DARK, "marker": "D", "markersize": 4, "capsize": 5, "elinewidth": 1.4, "zorder": 4}


def episode_values_figure(
    solution: Learned, episode_values: EpisodeValues, optimum: float | None, title: str
) -> "Figure":
    """Draw a panel for the objective and one for every constraint, over the episodes."""
    names = list(episode_values.values)[:_PANELS]
    figure = create_figure(7.6, 1.2 + 1.9 * len(names))
    ratios = [3, *([2] * (len(names) - 1))]
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
    for axes, name, colour in zip(panels, names, (BLUE, *([GREEN] * (_PANELS - 1))), strict=False):
        _draw(axes, episode_values.values[name], colour, together=name in episode_values.averaged)
        interval = _find_interval(solution, name)
        _mark_policy(axes, solution, interval)
        level = _draw_level(axes, solution, name, optimum)
        _focus_axis(axes, episode_values.values[name], interval, level)
        axes.set_ylabel(f"objective ({solution.sense})" if name == "objective" else name)
        axes.grid(alpha=0.25)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=9)
    panels[-1].set_xlabel("episode")
    tick_whole_numbers(panels[-1], "x")
    set_title(panels[0], title or write_headline(solution, "what the episodes paid"), figure.get_figwidth())
    return figure


def _draw(axes: "Axes", values: Float[np.ndarray, "n"], colour: str, *, together: bool) -> None:
    """Draw the values of episodes with a running mean, or of all so far."""
    episodes = np.arange(1, len(values) + 1)
    if together:
        axes.plot(episodes, values, color=colour, linewidth=1.8, label="all episodes so far\ntogether")
        return
    size = 4.5 if len(values) <= _DOTTED else 2.0
    axes.plot(episodes, values, ".", color=colour, markersize=size + 1, alpha=0.7, label="each episode")
    # Of the last half, because the first episodes are run at random.
    sums = np.concatenate([[0.0], np.cumsum(values)])
    halves = (sums[episodes] - sums[episodes // 2]) / (episodes - episodes // 2)
    axes.plot(episodes, halves, color=colour, linewidth=1.6, label="mean of the last half\nof the episodes so far")


def _find_interval(solution: Learned, name: str) -> Interval | None:
    """Return the interval of the returned policy; None for an entry of a vector constraint, which has none."""
    own = solution.outputs[0]
    return own.objective if name == "objective" else own.constraints.get(name.removesuffix(" (constraint)"))


def _mark_policy(axes: "Axes", solution: Learned, interval: Interval | None) -> None:
    """Draw a diamond with a bar as far as the interval is known, to the right of the episodes."""
    if interval is None:
        return
    value, lower, upper = interval.value, interval.lower, interval.upper
    reach = [[0.0 if lower is None else value - lower], [0.0 if upper is None else upper - value]]
    bar = None if lower is None and upper is None else np.maximum(reach, 0.0)
    count = solution.outputs[0].episodes
    label = (
        f"the policy returned,\non {count} fresh episodes" if count else "the policy returned,\nin the learned model"
    )
    place = 1.0 + 1.04 * solution.episodes
    axes.errorbar([place], [value], yerr=bar, linestyle="none", label=label, **_MARK)


def _draw_level(axes: "Axes", solution: Learned, name: str, optimum: float | None) -> float | None:
    """Draw the limit or, where it is known, the optimum."""
    limits = {one.name: float(one.limit) for one in solution.constraints if one.values.size == 1}
    level = optimum if name == "objective" else limits.get(name.removesuffix(" (constraint)"))
    if level is None:
        return None
    style: dict[str, Any] = {"color": DARK, "linestyle": (0, (6, 3)), "label": "the true optimum"}
    if name != "objective":
        style = {"color": VERMILLION, "linestyle": ":", "label": "limit"}
    axes.axhline(level, linewidth=1.2, **style)
    return level


def _focus_axis(axes: "Axes", values: Float[np.ndarray, "n"], interval: Interval | None, level: float | None) -> None:
    """Fit the axis to all but the first tenth of the episodes, the policy and the level.

    A random episode may be so far off that nothing else would be visible, and so may the ends of an interval. Episodes
    beyond an edge are marked there.
    """
    late = values[max(1, len(values) // 10) :] if len(values) > 1 else values
    visible = [*late.tolist(), *([] if interval is None else [interval.value]), *([] if level is None else [level])]
    finite = np.array(visible)[np.isfinite(visible)]
    if not finite.size:
        return
    margin = 0.08 * float(np.ptp(finite)) or 0.5
    low, high = float(finite.min()) - margin, float(finite.max()) + margin
    axes.set_ylim(low, high)
    for beyond, edge, marker in ((values > high, high, "^"), (values < low, low, "v")):
        places = 1 + np.flatnonzero(beyond)
        if places.size:
            axes.plot(places, np.full(places.size, edge), marker, color=DARK, markersize=6, clip_on=False, zorder=5)
