"""A policy as a picture: its actions, as arrows on a map or by state and step, and its expected visits."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bidual._base.brief import shorten
from bidual._base.errors import PolicyError
from bidual.learning.learned import Learned
from bidual.report._arrows import classify_cells, draw_arrows
from bidual.report._canvas import ACTIONS, create_figure, set_title, tick_states, tick_whole_numbers, write_headline
from bidual.report._maps import (
    draw_heat,
    empty_cells,
    fit_map,
    format_short,
    has_room,
    map_figure,
    mark_of,
    sum_by_cell,
)
from bidual.solving.solution import Solution
from bidual.world.mdp import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_STATES, _MOST_STEPS = 60, 120
_CERTAIN = 1 - 1e-9  # the probability above which an action is not drawn by chance but for rounding


def policy_figure(solution: Solution, grid: Grid | None = None, title: str = "", step: int | None = None) -> "Figure":
    """Draw the actions of the policy at the states it visits.

    On a map, an arrow in a cell is the share of the actions taken there that go its way, each state and step weighted
    by its expected visits; a dot is staying. Two arrows mean that the policy acts differently at different steps, or,
    in another colour, that it draws its action at random. Cells that are never visited and states that no action
    leaves have none. Without a map: the likeliest action by state and step.

    Args:
        solution: the result of `solve`.
        grid: the map, of a task or one's own, `bd.Grid`.
        title: instead of the task's name and how its solve ended.
        step: only this step, on a map; all of them by default.
    """
    H, S, A = solution.policy.shape
    if step is not None and not 0 <= step < H:
        raise PolicyError(f"there is no step {step}; the steps are 0 to {H - 1}")
    if grid is None:
        if not can_draw_policy(solution, grid):
            raise PolicyError(
                f"a policy of {H} steps, {S} states and {A} actions is unreadable without a map: at most "
                f"{_MOST_STEPS} steps, {_MOST_STATES} states and {len(ACTIONS)} actions can be told apart; give grid="
            )
        figure, axes = _draw_by_step(solution)
    else:
        figure, axes = _draw_on_map(solution, fit_map(grid, S, A), step)
    when = "" if step is None or grid is None else f" at step {step}"
    set_title(axes, title or write_headline(solution, f"what the policy does{when}"), figure.get_figwidth())
    return figure


def can_draw_policy(solution: Solution, grid: Grid | None) -> bool:
    """Return whether `policy_figure` has something readable to draw."""
    H, S, A = solution.policy.shape
    return grid is not None or (H <= _MOST_STEPS and S <= _MOST_STATES and len(ACTIONS) >= A)


def _draw_on_map(solution: Solution, grid: Grid, step: int | None) -> "tuple[Figure, Axes]":
    """Draw the actions on the map as arrows, over the visits."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    steps = slice(None) if step is None else slice(step, step + 1)
    visits, table = solution.visits[steps], solution.policy.table[steps]
    figure, axes = map_figure(grid)
    pale = ListedColormap(colormaps["Blues"](np.linspace(0, 0.5, 256)))
    count = sum_by_cell(grid, visits.sum(axis=0))
    label = "expected steps in the cell" if step is None else f"probability of being there at step {step}"
    draw_heat(figure, axes, grid, count, pale, label)
    # Nothing is drawn where no action leads away: an arrow would mean nothing.
    shares, drawn = _compute_shares(grid, visits * ~solution.evidence.mdp.absorbing, table)
    draw_arrows(figure, axes, grid, shares, classify_cells(count, drawn))
    return figure, axes


def _compute_shares(
    grid: Grid, visits: Float[np.ndarray, "steps S"], table: Float[np.ndarray, "steps S A"]
) -> tuple[Float[np.ndarray, "rows columns A"], Float[np.ndarray, "rows columns"]]:
    """Return, by cell, the share of each action and the share of actions drawn at random; 0 where there are none."""
    weights = np.einsum("hs,hsa->sa", visits, table)
    taken = np.stack([sum_by_cell(grid, column) for column in weights.T], axis=-1)
    drawn = sum_by_cell(grid, np.where(table.max(axis=2) < _CERTAIN, visits, 0.0).sum(axis=0))
    total = taken.sum(axis=-1)
    safe = np.where(total > 0, total, 1.0)
    return taken / safe[..., None], drawn / safe


def _draw_by_step(solution: Solution) -> "tuple[Figure, Axes]":
    """Draw the likeliest action of every state and step as a table of colours."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    table, visits, names = solution.policy.table, solution.visits, solution.policy.names
    H, S, A = table.shape
    likeliest, chance = table.argmax(axis=2), np.where(visits > 0, table.max(axis=2), 0.0)
    colours = np.array([to_rgb(colour) for colour in ACTIONS[:A]])
    figure = create_figure(min(max(0.36 * H, 5.6), 12.0), min(max(0.3 * S, 2.6), 9.0) + 1.2)
    axes = figure.add_subplot()
    image = np.concatenate([colours[likeliest], chance[..., None]], axis=2)
    axes.imshow(image.swapaxes(0, 1), aspect="auto", interpolation="nearest")
    axes.set_xlabel("step")
    tick_whole_numbers(axes, "x")
    tick_states(axes, names, S)
    if H <= 30:
        _write_chances(axes, chance)
    labels = [f"action {a}" if names.actions is None else shorten(names.action(a), 24) for a in range(A)]
    handles = [Patch(color=ACTIONS[a], label=label) for a, label in enumerate(labels)]
    handles += [Patch(facecolor="white", edgecolor="0.5", label="never there")]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), frameon=False, fontsize=9)
    return figure, axes


def _write_chances(axes: "Axes", chance: Float[np.ndarray, "H S"]) -> None:
    """Write the probability of the likeliest action, in per cent, where that does not round to 100."""
    for h, s in np.argwhere((chance > 0) & (chance < 0.995)):
        percent = f"{100 * chance[h, s]:.0f}%"
        axes.text(h, s, percent, ha="center", va="center", fontsize=7, weight="bold", color="black")


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def visits_figure(solution: Solution | Learned, grid: Grid | None = None, title: str = "") -> "Figure":
    """Draw expected visits: on the map where there is one, else by state and step. Learned policies: in their model."""
    figure, axes = _draw_visits_by_step(solution) if grid is None else _draw_visits_on_map(solution, grid)
    whose = "policy" if isinstance(solution, Solution) else "learned policy"
    set_title(axes, title or write_headline(solution, f"where the {whose} goes"), figure.get_figwidth())
    return figure


def _draw_visits_by_step(solution: Solution | Learned) -> "tuple[Figure, Axes]":
    """Draw the probability of every state at every step."""
    visits = solution.visits
    figure = create_figure(6.4, 4.4)
    axes = figure.add_subplot()
    image = axes.imshow(visits.T, aspect="auto", cmap="viridis", vmin=0, interpolation="nearest")
    axes.set_xlabel("step")
    tick_whole_numbers(axes, "x")
    tick_states(axes, solution.policy.names, visits.shape[1])
    figure.colorbar(image, ax=axes, label="probability of being there")
    return figure, axes


def _draw_visits_on_map(solution: Solution | Learned, grid: Grid) -> "tuple[Figure, Axes]":
    """Draw the expected steps in every cell."""
    _, states, actions = solution.policy.shape
    grid = fit_map(grid, states, actions)
    figure, axes = map_figure(grid)
    count = sum_by_cell(grid, solution.visits.sum(axis=0))
    empty = empty_cells(grid)
    label = "expected steps in the cell" + (", in the learned model" if isinstance(solution, Learned) else "")
    draw_heat(figure, axes, grid, count, "viridis", label)
    for (i, j), number in np.ndenumerate(count):
        colour = "white" if np.sqrt(number) < 0.5 * np.sqrt(count.max()) and not empty[i, j] else "black"
        text: dict[str, Any] = {"ha": "center", "va": "center", "color": colour}
        numbered = has_room(grid) and not empty[i, j]
        if numbered:
            axes.text(j, i + 0.2, format_short(float(number)), fontsize=7, **text)
        axes.text(j, i - 0.18 if numbered else i, mark_of(grid, i, j), fontsize=8, weight="bold", **text)
    return figure, axes
