"""What executed episodes say about the policies that were executed, at every time at once.

The policy changes between episodes and depends on all that was seen, so episodes are not i.i.d. and there is no one
mean. The target is the average of conditional means, (1/T) sum of E[X_t | past]: the value of the uniform mixture
of the executed policies.

Assumes: X_t lies in its known interval; the starts and the transitions of an episode are drawn from the same true model
whatever happened before, so that E[X_t | past] is the value of the policy of episode t. No stationarity of policies, no
independence. Holds by the mixed empirical-Bernstein process in `_boundary.py`, for all T simultaneously: look as
often as you like, stop when you like.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.bounds._boundary import boundary
from bidual.bounds._range import EPS, Range
from bidual.bounds._split import check_delta


@final
@dataclass(frozen=True, eq=False)
class Executed:
    """The sums that the bound needs, for r functionals at once, as parts of their intervals."""

    range: Range
    count: int
    total: Float[np.ndarray, "r"]
    variation: Float[np.ndarray, "r"]  # squared distances to the predictions

    @classmethod
    def start(cls, low: Float[np.ndarray, "r"], high: Float[np.ndarray, "r"]) -> "Executed":
        """Nothing executed yet; functional i lies in [low[i], high[i]] in every episode."""
        return cls(Range.of(low, high), 0, np.zeros(len(low)), np.zeros(len(low)))

    def restarted(self) -> "Executed":
        """Nothing executed yet, with the same intervals."""
        return Executed(self.range, 0, np.zeros_like(self.total), np.zeros_like(self.total))

    def add(self, x: Float[np.ndarray, "r"]) -> "Executed":
        """One more episode."""
        z = self.range.scaled(x)
        error = z - self.total / (self.count + 1)  # the prediction: the past's average, with the middle, 0, once
        return Executed(self.range, self.count + 1, self.total + z, self.variation + error * error)

    def add_batch(self, x: Float[np.ndarray, "k r"]) -> "Executed":
        """Several more episodes, in their order: the same numbers, to the last bit, as one by one."""
        z = self.range.scaled(x)
        totals = np.cumsum(np.concatenate([self.total[None], z]), axis=0)
        seen = self.count + np.arange(1.0, len(x) + 1)
        error = z - totals[:-1] / seen[:, None]
        variation = np.cumsum(np.concatenate([self.variation[None], error * error]), axis=0)
        return Executed(self.range, self.count + len(x), totals[-1], variation[-1])

    @property
    def mean(self) -> Float[np.ndarray, "r"]:
        """The average over the episodes; NaN before the first."""
        if not self.count:
            return np.full_like(self.total, np.nan)
        return self.range.restored(self.total / self.count)

    def interval(self, delta_lower: float, delta_upper: float) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r"]]:
        """Lower and upper bounds on the average of conditional means.

        Each side of each functional holds at all times at once with probability at least 1 - its delta. Bounds at
        different times are about different averages: do not intersect them.
        """
        check_delta("delta_lower", delta_lower)
        check_delta("delta_upper", delta_upper)
        if not self.count:
            return self.range.low.copy(), self.range.high.copy()
        mean = self.total / self.count
        # `count` additions of numbers below 1 round the sum by count^2 eps / 2; that of squares likewise, and the
        # boundary grows by at most 1.5 times what it grows by.
        rounding = 2 * self.count * EPS
        below = boundary(self.variation, delta_lower) / self.count + rounding
        above = boundary(self.variation, delta_upper) / self.count + rounding
        return self.range.outward(mean - below, mean + above)
