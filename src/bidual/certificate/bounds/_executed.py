"""Time-uniform bounds on the executed policies from their episodes.

The policy changes between episodes and depends on all past data, so episodes are not i.i.d. and there is no one mean.
The target is the average of conditional means, (1/T) sum of E[X_t | past]: the value of the uniform mixture
of the executed policies.

Assumes: X_t lies in its known interval; the starts and the transitions of an episode are drawn from the same true model
whatever happened before, so that E[X_t | past] is the value of the policy of episode t. No stationarity of policies, no
independence. Holds by the mixed empirical-Bernstein process below, for all T simultaneously: look as
often as you like, stop when you like.

The process is about how far a sum can stray from its conditional means, at all times at once.

Numbers X_1, X_2, ... in an interval of width 1, adapted; predictions m_t in it, known before X_t;
S_t = sum of X_i - E[X_i | past], V_t = sum of (X_i - m_i)^2, psi(l) = -log(1 - l) - l. For every l in [0, 1)

    exp(l S_t - psi(l) V_t)

is a nonnegative supermartingale that starts at 1 (Howard, Ramdas, McAuliffe & Sekhon 2021, Theorem 4, by Fan's
inequality). So is any fixed mixture over l, and by Ville's inequality the mixture never reaches 1 / delta with
probability at least 1 - delta. The boundary is the S at which it would.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.certificate.bounds._range import EPS, Range
from bidual.certificate.bounds._split import check_delta

# The best l is about sqrt(2 log(1 / delta) / V), and near 1 where V is small. The grid is geometric in l / (1 - l),
# from 8 down to 6e-5: V up to 1e9. Weights fall slowly, because small V comes first. For deltas of 1e-5 to 0.05 and V
# from 1 to 1e7 the boundary is then 1.1 to 1.5 times that of the best l in hindsight, which is not admissible.
_ODDS = 8 * 0.5 ** np.arange(18)
_WEIGHTS = 1 / np.arange(2, 20)
LAMBDAS = _ODDS / (1 + _ODDS)
LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
PSI = -np.log1p(-LAMBDAS) - LAMBDAS
STEPS = 6
for _array in (LAMBDAS, LOG_WEIGHTS, PSI):
    _array.flags.writeable = False


def compute_boundary(variation: Float[np.ndarray, "r"], delta: float) -> Float[np.ndarray, "r"]:
    """Compute the S at which the mixture reaches 1 / delta, for every V in `variation`; never below it.

    The logarithm of the mixture is convex and increasing in S. Newton's method from the right therefore stays on the
    right, and every iterate is a valid boundary: six steps are for sharpness only. It begins where one term of the
    mixture reaches 1 / delta on its own.
    """
    level = -math.log(delta)
    constant = LOG_WEIGHTS - PSI * variation[:, None]
    S = np.min((level - constant) / LAMBDAS, axis=1)
    for _ in range(STEPS):
        exponent = LAMBDAS * S[:, None] + constant
        peak = np.max(exponent, axis=1)
        terms = np.exp(exponent - peak[:, None])
        total = np.sum(terms, axis=1)
        S = S - (peak + np.log(total) - level) * total / (terms @ LAMBDAS)
    return S * (1 + 1e-12)  # exponents that matter are of the size of `level`: rounding moves S by 1e-14 of itself


@final
@dataclass(frozen=True, eq=False)
class Executed:
    """The sums of the bound, for r functionals at once, as parts of their intervals."""

    range: Range
    count: int
    total: Float[np.ndarray, "r"]
    variation: Float[np.ndarray, "r"]  # squared distances to the predictions

    @classmethod
    def start(cls, low: Float[np.ndarray, "r"], high: Float[np.ndarray, "r"]) -> "Executed":
        """Return the state before the first episode; functional i lies in [low[i], high[i]] in every episode."""
        return cls(Range.of(low, high), 0, np.zeros(len(low)), np.zeros(len(low)))

    def restart(self) -> "Executed":
        """Return the state before the first episode, with the same intervals."""
        return Executed(self.range, 0, np.zeros_like(self.total), np.zeros_like(self.total))

    def add(self, x: Float[np.ndarray, "r"]) -> "Executed":
        """Add one episode."""
        z = self.range.to_unit(x)
        error = z - self.total / (self.count + 1)  # the prediction: the past's average, with the middle, 0, once
        return Executed(self.range, self.count + 1, self.total + z, self.variation + error * error)

    def add_batch(self, x: Float[np.ndarray, "k r"]) -> "Executed":
        """Add several episodes, in their order: the same numbers, to the last bit, as one by one."""
        z = self.range.to_unit(x)
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
        return self.range.from_unit(self.total / self.count)

    def interval(self, delta_lower: float, delta_upper: float) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r"]]:
        """Return lower and upper bounds on the average of conditional means.

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
        below = compute_boundary(self.variation, delta_lower) / self.count + rounding
        above = compute_boundary(self.variation, delta_upper) / self.count + rounding
        return self.range.outward(mean - below, mean + above)
