"""The columns of the master over many-dimensional images, and a step of it: its length, and how far it may go."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bidual.problem.convex import AbstractSmooth


class Mix(NamedTuple):
    """The plans of a column, and their weights."""

    plans: Int[np.ndarray, "p"]
    weights: Float[np.ndarray, "p"]


class NewtonColumns(NamedTuple):
    """The columns, their weights and multipliers. Column 0 is the anchor, which keeps the point inside the domain."""

    points: tuple[Float[np.ndarray, "n"], ...]
    mixes: tuple[Mix, ...]
    weights: Float[np.ndarray, "k"]
    idle: Int[np.ndarray, "k"]  # calls since a column last had weight
    slater: int | None  # a column that keeps every constraint with room; never dropped
    gamma: Float[np.ndarray, "m"]
    x: Float[np.ndarray, "n"]
    reference: Float[np.ndarray, "n"]  # the point of the Hessians
    grams: dict[int, Float[np.ndarray, "k k"]]  # of the rows that are curved


class NewtonStep(NamedTuple):
    """A change of the weights, and its effect in the quadratic model."""

    weights: Float[np.ndarray, "k"]
    point: Float[np.ndarray, "n"]  # the change of x
    gamma: Float[np.ndarray, "m"]
    slope: float
    curve: float
    predicted: float  # gain, including that of repairing violated constraints
    excess: float  # present violation times its price
    reach: float  # most that a column could still gain, to first order
    longest_step: float  # longest feasible multiple


def multiply_points(points: tuple[np.ndarray, ...], vector: Float[np.ndarray, "n"]) -> Float[np.ndarray, "k"]:
    """Return the products of all points with a vector."""
    return np.array([point @ vector for point in points])


def blend(points: tuple[np.ndarray, ...], weights: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n"]:
    """Return the weighted sum of the points."""
    total = np.zeros_like(points[0])
    for i in np.flatnonzero(weights):
        total += weights[i] * points[i]
    return total


def find_longest_step(
    weights: Float[np.ndarray, "k"],
    step: Float[np.ndarray, "k"],
    A: Float[np.ndarray, "m k"],
    b: Float[np.ndarray, "m"],
    lower: Float[np.ndarray, "k"],
) -> float:
    """The longest multiple of the step that keeps the weights and the linearised constraints."""
    down, rise = step < 0, A @ step
    up = rise > 1e-15
    by_weights = float(np.min((weights - lower)[down] / -step[down], initial=1e15))
    by_rows = float(np.min((b - A @ weights)[up] / rise[up], initial=1e15))
    return max(1.0, min(by_weights, by_rows))


def search_line(
    smooth: AbstractSmooth, columns: NewtonColumns, step: NewtonStep, values: Float[np.ndarray, "r"]
) -> tuple[float, Float[np.ndarray, "r"]]:
    """Backtracking by quadratic interpolation on f + price * violation; 0 if nothing helps."""
    price = 2.0 * float(step.gamma.max(initial=0.0)) + 1e-12

    def merit(v: Float[np.ndarray, "r"]) -> float:
        return float(v[0] + price * np.maximum(v[1:], 0.0).sum())

    start, t = merit(values), 1.0
    drop = step.slope - price * float(np.maximum(values[1:], 0.0).sum())
    for _ in range(12):
        new = smooth.values(columns.x + t * step.point)
        now = merit(new)
        if np.isfinite(now) and now <= start + 1e-4 * t * min(drop, 0.0) + 1e-15 * abs(start):
            model = step.slope + 0.5 * step.curve
            beats = t == 1.0 and now < start + model - 0.2 * abs(model)
            return _lengthen(smooth, columns, step, new, merit) if beats else (t, new)
        curve = now - start - t * drop
        best = -drop * t * t / (2 * curve) if np.isfinite(now) and curve > 0 else 0.0
        t = min(max(best, 0.1 * t), 0.5 * t)
    return 0.0, values


def _lengthen(
    smooth: AbstractSmooth,
    columns: NewtonColumns,
    step: NewtonStep,
    new: Float[np.ndarray, "r"],
    merit: Callable[[np.ndarray], float],
) -> tuple[float, Float[np.ndarray, "r"]]:
    """Lengthen the step eightfold while that helps: f may fall faster than its model (the curvature 1/y near 0)."""
    t = 1.0
    while t < step.longest_step:
        longer = min(8 * t, step.longest_step)
        further = smooth.values(columns.x + longer * step.point)
        if not merit(further) < merit(new):
            break
        t, new = longer, further
    return t, new
