"""The pictures of docs/problems.md: six ready problems on the rover's map, drawn anew.

python examples/problems.py [folder]
"""

import sys
from functools import cache
from pathlib import Path

import cvxpy as cp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import bidual as bd

task = bd.tasks.find("rover").with_settings({})
mdp, grid = task.mdp, task.grid
assert grid is not None
cells = np.array(list("".join(grid.rows)))
goal, pits = cells == "G", cells == "P"
north, south = np.eye(64)[7], np.eye(64)[56]  # corners: top right, bottom left

UP, RIGHT, DOWN, LEFT = range(4)
demonstrations = [
    [(cell, RIGHT) for cell in range(7)] + [(cell, DOWN) for cell in range(7, 63, 8)] + [(63, UP)] * 16,
    [(cell, DOWN) for cell in range(0, 32, 8)]
    + [(cell, RIGHT) for cell in range(32, 39)]
    + [(cell, DOWN) for cell in range(39, 63, 8)]
    + [(63, UP)] * 16,
]

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PLANE = {"north": north, "south": south}


def constrained() -> Figure:
    """What the limit on pits is worth."""
    limit = cp.Parameter(name="limit", value=1.0)
    problem = bd.problems.constrained(mdp, goal, {"pits": (pits, limit)})
    least = bd.solve(bd.problems.constrained(mdp, pits, maximise=False), mdp).value
    limits, solved = np.linspace(least + 1e-6, 1.2, 13), []
    for limit.value in limits:
        solved.append(bd.solve(problem, mdp))
    return bd.report.curve_figure(
        limits=limits,
        lower=[solution.lower for solution in solved],
        upper=[solution.upper for solution in solved],
        prices=[solution.constraint("pits").price for solution in solved],
        achievable=(least, 30.0),
        constraint="pits",
        title="constrained: most steps at the goal with few steps in pits",
    )


def multi_objective() -> Figure:
    """Close to a wish, and fair enough."""
    wish = (14.0, 12.0)
    problem = bd.problems.multi_objective(mdp, lambda y: cp.norm(y - np.array(wish)), lambda y: y[0] - y[1], **PLANE)
    figure, axes = _plane("multi_objective: near a wish, with north at most south")
    axes.fill([0, 24, 24], [0, 24, 0], color="0.5", alpha=0.25, label="excluded by h2", linewidth=0)
    for radius in (4, 6, 8):
        axes.add_patch(Circle(wish, radius, fill=False, edgecolor=GREEN, linestyle=":"))
    axes.plot(*wish, "*", color=GREEN, markersize=13, label="the wish; dotted: equal h1")
    _policy(axes, bd.solve(problem, mdp))
    return figure


def apprenticeship() -> Figure:
    """Visits of the apprentice, and the two ways that were shown."""
    problem = bd.problems.apprenticeship(mdp, demonstrations, limits={"pits": (pits, 1.0)})
    figure = bd.report.visits_figure(bd.solve(problem, mdp, gap=1e-3), grid, "apprenticeship: two ways shown (lines)")
    for episode, shift in zip(demonstrations, (0.38, -0.38), strict=True):  # beside the numbers
        row, column = np.divmod([state for state, _ in episode], 8)
        figure.axes[0].plot(column + shift, row, color=VERMILLION, linewidth=2)
    return figure


def feasibility() -> Figure:
    """The policy that is nearest to a set out of reach."""
    centre, radius = (16.0, 14.0), 4.0
    problem = bd.problems.feasibility(mdp, bd.problems.ball(centre, radius), **PLANE)
    figure, axes = _plane("feasibility: as near to the ball as possible")
    axes.add_patch(Circle(centre, radius, color=GREEN, alpha=0.35, label="the set"))
    y = _policy(axes, bd.solve(problem, mdp))
    foot = centre + radius * (y - centre) / np.linalg.norm(y - centre)
    axes.plot(*np.stack([y, foot], axis=1), color=VERMILLION, linewidth=1.5)
    return figure


def max_entropy() -> Figure:
    """Visits, as even as they can be."""
    solution = bd.solve(bd.problems.max_entropy(mdp, limits={"pits": (pits, 2.0)}), mdp, gap=1e-3)
    even = np.exp(solution.value)
    return bd.report.visits_figure(solution, grid, f"max_entropy: as if {even:.0f} of 64 cells were visited evenly")


def fair() -> Figure:
    """The worst off group, against the largest sum."""
    groups = {"north": north, "south": south, "goal": goal}
    equal = bd.solve(bd.problems.fair(mdp, groups), mdp)
    largest = bd.solve(bd.problems.constrained(mdp, sum(groups.values())), mdp)
    figure = Figure(figsize=(6.0, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for shift, solution, label, colour in ((-0.2, largest, "largest sum", "0.6"), (0.2, equal, "fair", BLUE)):
        totals = [float(solution.visits.sum(axis=0) @ signal) for signal in groups.values()]
        bars = axes.bar(np.arange(3) + shift, totals, 0.38, color=colour, label=label)
        axes.bar_label(bars, fmt="%.1f", fontsize=9)
    axes.set_xticks(range(3), labels=list(groups))
    axes.set_ylabel("expected steps there")
    axes.margins(y=0.12)
    axes.legend(frameon=False)
    axes.set_title("fair: the place that is visited least, as much as possible", fontsize=11)
    return figure


def _plane(title: str) -> tuple[Figure, Axes]:
    """What policies can reach: expected steps in the two corners."""
    figure = Figure(figsize=(5.6, 4.6), layout="constrained")
    axes = figure.add_subplot()
    axes.fill(*_reachable().T, color=BLUE, alpha=0.2, label="what policies reach", linewidth=0)
    axes.set_xlim(-0.5, 24)
    axes.set_ylim(-0.5, 24)
    axes.set_aspect("equal")
    axes.set_xlabel("north: expected steps there")
    axes.set_ylabel("south: expected steps there")
    axes.set_title(title, fontsize=11)
    return figure, axes


@cache
def _reachable() -> np.ndarray:
    """Corners of the set of all (north, south): the farthest points, one direction after another."""
    corners = []
    for angle in np.linspace(0, 2 * np.pi, 36, endpoint=False):
        ahead = np.cos(angle) * north + np.sin(angle) * south
        visits = bd.solve(bd.problems.constrained(mdp, ahead), mdp).visits.sum(axis=0)
        corners.append((visits @ north, visits @ south))
    return np.array(corners)


def _policy(axes: Axes, solution: bd.Solution) -> np.ndarray:
    visits = solution.visits.sum(axis=0)
    y = np.array([visits @ north, visits @ south])
    axes.plot(*y, "o", color=VERMILLION, markersize=8, label="the policy")
    axes.legend(framealpha=1.0, edgecolor="1.0", loc="upper right", fontsize=9)
    return y


PICTURES = (constrained, multi_objective, apprenticeship, feasibility, max_entropy, fair)

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "images"
    for picture in PICTURES:
        path = folder / f"problems-{picture.__name__.replace('_', '-')}.png"
        picture().savefig(path, dpi=80, bbox_inches="tight", pad_inches=0.08, pil_kwargs={"optimize": True})
        print(path)
