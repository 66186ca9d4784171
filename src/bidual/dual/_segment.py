"""The master of one inequality in closed form, and where the dual function of two plans peaks.

Two plans suffice. Plans are points (g, f). The best mixture is where the lower edge of their convex hull crosses g = 0;
the edge that does so has a plan on either side, and its slope is the multiplier. The values and slopes of the dual
function at the multipliers of these two plans make a cubic, whose maximum lies between them.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual.problem.convex import AffineProgram


class Segment(NamedTuple):
    """A mixture of plan `low`, which keeps the limit, and `high`, which does not; equal if one plan is best alone."""

    low: int
    high: int
    share: float  # of the plan `high`
    gamma: float

    def weights(self, k: int) -> Float[np.ndarray, "k"]:
        """Return the mixture as weights of k plans."""
        weights = np.zeros(k)
        weights[self.low] = 1 - self.share
        weights[self.high] += self.share
        return weights


def find_best_segment(f: Float[np.ndarray, "k"], g: Float[np.ndarray, "k"]) -> Segment | None:
    """Compute the best mixture with g <= 0; None where no plan keeps the limit."""
    lows, highs = np.flatnonzero(g <= 0), np.flatnonzero(g > 0)
    if lows.size == 0:
        return None
    f_low, g_low, f_high, g_high = f[lows], g[lows], f[highs], g[highs]
    low = int(np.argmin(f_low))
    for _ in range(len(f)):  # every turn but the last finds a better `low`
        slopes = (f_low[low] - f_high) / (g_high - g_low[low])
        high = int(np.argmax(slopes)) if slopes.size else -1
        if high < 0 or slopes[high] <= 0:
            break
        lagrangian = f_low + slopes[high] * g_low
        best = int(np.argmin(lagrangian))
        if lagrangian[best] >= lagrangian[low]:
            share = -g_low[low] / (g_high[high] - g_low[low])
            return Segment(int(lows[low]), int(highs[high]), float(share), float(slopes[high]))
        low = best
    alone = int(lows[np.argmin(f_low)])
    return Segment(alone, alone, 0.0, 0.0)


def has_one_row(program: AffineProgram) -> bool:
    """Check whether a program has one inequality and nothing else."""
    return program.limits.size == 1 and not program.equality[0]


def find_segment(program: AffineProgram, f: Float[np.ndarray, "k"], g: Float[np.ndarray, "k"]) -> Segment | None:
    """Compute the best mixture within the limit; None where no plan keeps it."""
    # Values that are 0 up to rounding keep the limit.
    return find_best_segment(f, np.where(np.abs(g) <= program.resolution[0], 0.0, g))


def place_between(gammas: tuple[float, float], f: tuple[float, float], g: tuple[float, float]) -> float | None:
    """Return where between two multipliers, as a share of the way, the cubic through both plans has its maximum.

    Args:
        gammas: of a plan that breaks the limit, and of one that keeps it.
        f: the objective of each.
        g: by how much each breaks the limit.
    """
    way = gammas[1] - gammas[0]
    if not (way > 0 and g[0] > 0 > g[1]):  # NaN too
        return None
    rise = float(f[1] + gammas[1] * g[1] - f[0] - gammas[0] * g[0])
    return _maximise_cubic(float(g[0]) * way, float(g[1]) * way, rise)


def _maximise_cubic(slope_1: float, slope_2: float, rise: float) -> float:
    """Maximise over [0, 1] a cubic with these slopes at the ends, and this rise between them."""
    # Its slope is slope_1 + b t + c t^2: positive at 0 and negative at 1, so it has one root between them.
    c = 3 * (slope_1 + slope_2) - 6 * rise
    b = slope_2 - slope_1 - c
    q = -0.5 * (b + math.copysign(math.sqrt(max(b * b - 4 * slope_1 * c, 0.0)), b))
    roots = [slope_1 / q if q else math.inf, q / c if c else math.inf]
    return next((t for t in roots if 0 < t < 1), 0.5)
