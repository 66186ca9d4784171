"""The behaviour of a learned controller: a few episodes, as paths in the plane or as state variables over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.types import Episode
from bidual.report._canvas import ACTIONS, DARK, SHADE, VERMILLION, create_figure, set_title
from bidual.tasks import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = tuple(colour for colour in ACTIONS if colour not in (VERMILLION, "#F0E442"))  # yellow is hard to see
_ANGLE = "angle"  # the name of the one that is 0 upright
_PLANE, _PANEL = 4.2, 1.7  # inches: the side of a plane, the height of a panel


def control_figure(episodes: Sequence[Episode], picture: Picture, title: str = "") -> "Figure":
    """Draw episodes of one policy, each in its colour.

    Args:
        episodes: of vectors and controls, as `ControlEnvironment.collect` gives them.
        picture: how an observation is drawn.
        title: over all panels.
    """
    runs = [extract_run(episode, picture) for episode in episodes]
    if not runs:
        raise ProblemError("a figure of episodes needs at least one episode")
    return _draw_in_plane(runs, picture, title) if picture.plane is not None else _draw_over_time(runs, picture, title)


Run = tuple[Float[np.ndarray, "steps n"], Float[np.ndarray, "length m"]]


def extract_run(episode: Episode, picture: Picture) -> Run:
    """Return observations and controls up to the end of an episode."""
    s, u = episode.observations, episode.controls
    if s is None or u is None:
        raise ProblemError("the episode has numbered states: this figure is of vectors under controls")
    if (s.shape[1], u.shape[1]) != (len(picture.names), len(picture.controls)):
        raise ProblemError(
            f"the picture names {len(picture.names)} numbers and {len(picture.controls)} controls, the episode has "
            f"{s.shape[1]} and {u.shape[1]}: draw it with the picture of its own task"
        )
    length = len(u) if episode.length is None else episode.length
    return s[: length + 1], u[:length]


def _draw_over_time(runs: list[Run], picture: Picture, title: str) -> "Figure":
    """Draw every variable and control over time, a panel each."""
    names = _name_variables(picture)
    count = len(names) + len(picture.controls)
    figure = create_figure(7.6, 0.8 + _PANEL * count)
    panels = list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
    for axes, name in zip(panels, names, strict=False):
        for s, _, colour in _draw_coloured(runs):
            axes.plot(picture.seconds * np.arange(len(s)), _read(s, name, picture), color=colour, linewidth=1.5)
        axes.set_ylabel(name)
        if name in _find_angles(picture):
            _count_in_pi(axes)
        if picture.angle is not None and name == _ANGLE:
            _mark_upright(axes)
        else:
            axes.axhline(0.0, color=DARK, linewidth=0.7, linestyle=":")
    _label_panels(figure, panels, runs, picture, title)
    return figure


def _draw_in_plane(runs: list[Run], picture: Picture, title: str) -> "Figure":
    """Draw the paths in the plane, and the controls beside it."""
    figure = create_figure(1.9 * _PLANE, 0.5 + _PLANE)
    grid = figure.add_gridspec(len(picture.controls), 2, width_ratios=[3, 2])
    plane = figure.add_subplot(grid[:, 0])
    panels = [figure.add_subplot(grid[i, 1]) for i in range(len(picture.controls))]
    _draw_plane(plane, runs, picture)
    for axes in panels[:-1]:
        axes.tick_params(labelbottom=False)
    _label_panels(figure, panels, runs, picture, title)
    return figure


def _draw_plane(axes: "Axes", runs: list[Run], picture: Picture) -> None:
    assert picture.plane is not None  # or nothing is drawn here
    first, second = picture.plane
    for s, _, colour in _draw_coloured(runs):
        axes.plot(s[:, first], s[:, second], color=colour, linewidth=1.5, marker=".", markersize=3.5)
    axes.set_aspect("equal", adjustable="datalim")
    draw_place(axes, runs[0][0][0], picture)


def draw_place(axes: "Axes", start: Float[np.ndarray, "n"], picture: Picture) -> None:
    """Draw start, goal and obstacles in the plane of a picture."""
    from matplotlib.patches import Circle

    assert picture.plane is not None  # or there is no such place
    first, second = picture.plane
    for x, y, radius in picture.discs:
        axes.add_patch(Circle((x, y), radius, facecolor=SHADE, edgecolor=VERMILLION, linewidth=1.2, hatch="///"))
        axes.annotate("keep out", (x, y), ha="center", va="center", fontsize=9, bbox={"color": "white", "pad": 1.5})
    axes.plot(start[first], start[second], color=DARK, marker="o", markersize=7, linestyle="none", label="start")
    if picture.goal is not None:
        axes.plot(*picture.goal, color=DARK, marker="*", markersize=13, linestyle="none", label="goal")
    axes.set_xlabel(picture.names[first])
    axes.set_ylabel(picture.names[second])
    axes.grid(alpha=0.25)
    axes.legend(loc="best", frameon=False, fontsize=9)


def _label_panels(figure: "Figure", panels: "Sequence[Axes]", runs: list[Run], picture: Picture, title: str) -> None:
    """Label the panels: controls in the last ones, time below, the title above."""
    for i, (axes, name) in enumerate(zip(panels[-len(picture.controls) :], picture.controls, strict=True)):
        for _, u, colour in _draw_coloured(runs):
            axes.stairs(u[:, i], picture.seconds * np.arange(len(u) + 1), color=colour, linewidth=1.3, baseline=None)
        axes.axhline(0.0, color=DARK, linewidth=0.7, linestyle=":")
        axes.set_ylabel(name)
    for axes in panels:
        axes.grid(alpha=0.25)
    panels[-1].set_xlabel("seconds" if picture.seconds != 1.0 else "steps")
    if title and picture.plane is None:
        set_title(panels[0], title, figure.get_figwidth())
    elif title:
        figure.suptitle(title, fontsize=11)


def _draw_coloured(runs: list[Run]) -> list[tuple[Float[np.ndarray, "steps n"], Float[np.ndarray, "length m"], str]]:
    return [(s, u, _COLOURS[i % len(_COLOURS)]) for i, (s, u) in enumerate(runs)]


def _find_angles(picture: Picture) -> dict[str, tuple[int, int]]:
    """Return the positions of cosine and sine of every angle, by its name."""
    upright = {} if picture.angle is None else {_ANGLE: picture.angle}
    return upright | {name: (cosine, sine) for name, cosine, sine in picture.turns}


def _name_variables(picture: Picture) -> list[str]:
    """Return the names of the drawn variables, with angles instead of their cosines and sines."""
    angles = _find_angles(picture)
    hidden = {place for pair in angles.values() for place in pair}
    return [*angles, *(name for i, name in enumerate(picture.names) if i not in hidden)]


def _read(s: Float[np.ndarray, "steps n"], name: str, picture: Picture) -> Float[np.ndarray, "steps"]:
    pair = _find_angles(picture).get(name)
    if pair is None:
        return s[:, picture.names.index(name)]
    cosine, sine = pair
    angle = np.unwrap(np.arctan2(s[:, sine], s[:, cosine]))
    # Hanging is pi and -pi alike: all episodes shall begin on the same side.
    return angle + 2 * np.pi if angle[0] < -np.pi + 1e-6 else angle


def _count_in_pi(axes: "Axes") -> None:
    """Count in half turns between two numbers, as many as leave room for at most five ticks."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(MultipleLocator(np.pi * max(1, np.ceil((high - low) / (5 * np.pi)))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_in_pi(value)))


def _mark_upright(axes: "Axes") -> None:
    """Draw lines at the upright angles."""
    low, high = axes.get_ylim()
    for turn in range(int(np.ceil(low / (2 * np.pi))), int(np.floor(high / (2 * np.pi))) + 1):
        axes.axhline(2 * np.pi * turn, color=VERMILLION, linewidth=0.9, linestyle=(0, (6, 3)))
    axes.set_ylabel("angle (dashed: upright)")


def _format_in_pi(value: float) -> str:
    whole = round(value / np.pi)
    return {0: "0", 1: "π", -1: "-π"}.get(whole, f"{whole}π")
