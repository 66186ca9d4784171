"""The master problem with one inequality, in closed form: two plans suffice.

Plans are points (g, f). The best mixture is where the lower edge of their convex hull crosses g = 0; the edge that
does so has a plan on either side, and its slope is the multiplier.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Segment(NamedTuple):
    """Plan `low` keeps the limit and plan `high` does not; both are the same where one plan is best alone."""

    low: int
    high: int
    share: float  # of the plan `high`
    gamma: float

    def weights(self, k: int) -> Float[np.ndarray, "k"]:
        """As weights of k plans."""
        weights = np.zeros(k)
        weights[self.low] = 1 - self.share
        weights[self.high] += self.share
        return weights


def best_segment(f: Float[np.ndarray, "k"], g: Float[np.ndarray, "k"]) -> Segment | None:
    """The best mixture with g <= 0; None where no plan keeps the limit."""
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
