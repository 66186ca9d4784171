"""Bounds on one mean from fresh samples, by betting against it.

Waudby-Smith & Ramdas (2024, "Estimating means of bounded random variables by betting"). Whoever believes that the mean
of X in [0, 1] is m offers fair bets: the capital

    K_t(m) = product over i <= t of 1 + l_i(m) (m - X_i),     0 <= l_i(m) < 1 / (1 - m) chosen before X_i,

is a nonnegative martingale when m is the mean, and reaches 1 / delta at some time with probability at most delta
(Ville). It grows when m is too large. The upper bound is the smallest m whose capital has reached 1 / delta.

Assumes: samples are i.i.d. (or: every X_i has the same mean given the past) in [low, high], of a policy that was fixed
before they were drawn. Their number n was fixed as well, for the best bets depend on it; with `uniform` they do not,
so that there is one capital for all n, and by Ville's inequality the bounds of every n hold at once.
"""

import math

import numpy as np
from jaxtyping import Float

from bidual.certificate.bounds._range import EPS, Range
from bidual.certificate.bounds._split import check_delta

# No bet risks more than this part c of the capital. Excess of the upper bound over the average, times 1e4 (delta 0.05,
# samples in units of their interval, 200 repetitions). `last` uses the capital after the last sample only; CP is
# Clopper-Pearson, for samples that are 0 or 1; MP is Maurer & Pontil (2009).
#
#      n   law             c = 0.5   c = 0.75   c = 0.9   0.5 and 0.9   0.75 last    CP     MP
#    200   Bernoulli 0.3       702        705       705           704         848   576   1311
#    200   Bernoulli 0.01      312        242       245           262         284   210    613
#    200   sd 0.15             229        224       224           226         263          719
#    200   sd 0.015             93         68        60            69          68          461
#   2000   Bernoulli 0.3       217        217       217           217         256   173    321
#   2000   Bernoulli 0.01       55         60        61            57          78    45    103
#   2000   sd 0.15              69         69        69            69          82          134
#   2000   sd 0.015             11          9         8             9          10           52
#
# Averaging the capital of two bets costs about what it gains, so there is one. The best moment is free by Ville.
CAUTION = 0.75
HALVINGS = 33  # to 1e-10 of the interval
LENGTHS = tuple(32.0 * 4**k for k in range(6))  # up to 32768; the last bets are good for longer, only a little smaller


def upper(samples: Float[np.ndarray, "n"], low: float, high: float, delta: float, *, uniform: bool = False) -> float:
    """Return an upper bound on the mean, with probability at least 1 - delta; `high` without samples."""
    check_delta("delta", delta)
    span = Range.of(np.array([low]), np.array([high]))
    bound = np.array([_find_smallest_refuted(0.5 + span.to_unit(samples[:, None])[:, 0], delta, uniform) - 0.5])
    return float(span.outward(bound, bound)[1][0])


def lower(samples: Float[np.ndarray, "n"], low: float, high: float, delta: float, *, uniform: bool = False) -> float:
    """Return a lower bound on the mean, with probability at least 1 - delta, from an upper bound on its negative."""
    check_delta("delta", delta)
    span = Range.of(np.array([low]), np.array([high]))
    bound = np.array([0.5 - _find_smallest_refuted(0.5 - span.to_unit(samples[:, None])[:, 0], delta, uniform)])
    return float(span.outward(bound, bound)[0][0])


def interval(
    samples: Float[np.ndarray, "n"], low: float, high: float, delta: float, *, uniform: bool = False
) -> tuple[float, float]:
    """Return both bounds, with delta / 2 each.

    Samples that drift may refute every mean, from one side early and from the other side late. The ends are
    then given in order, which is the wider reading.
    """
    check_delta("delta", delta)
    ends = [side(samples, low, high, delta / 2, uniform=uniform) for side in (lower, upper)]
    return min(ends), max(ends)


def _find_smallest_refuted(z: Float[np.ndarray, "n"], delta: float, uniform: bool) -> float:
    """Compute the smallest m in [0, 1] whose capital reaches 1 / delta, from above; 1 if there is none.

    Halving is right because every factor, and so the capital at every time, is non-decreasing in m. With a bet l that
    does not depend on m, 1 + l (m - z) has the slope l >= 0. With the bet c / (1 - m) it is 1 + c (m - z) / (1 - m), of
    slope c (1 - z) / (1 - m)^2 >= 0. The smaller of the two bets changes from one to the other once, continuously.
    """
    if not len(z):
        return 1.0
    bets = _compute_bets(z, delta, uniform)
    inside, refuted = 0.0, 1.0
    for _ in range(HALVINGS):
        m = (inside + refuted) / 2
        if _compute_log_capital(z, bets, m) >= -math.log(delta):
            refuted = m
        else:
            inside = m
    return refuted


def _compute_log_capital(z: Float[np.ndarray, "n"], bets: Float[np.ndarray, "k n"], m: float) -> float:
    """Compute the logarithm of the largest capital over time, less the rounding of `n` additions.

    The capital is the average over the kinds of bets: a mean of martingales is one, and grows with m like each.
    """
    gains = np.log1p(np.minimum(bets, CAUTION / (1 - m)) * (m - z))
    capital = np.logaddexp.reduce(np.cumsum(gains, axis=1), axis=0) - math.log(len(bets))
    size, kinds = np.max(np.sum(np.abs(gains), axis=1)), len(bets)
    return float(np.max(capital) - (len(z) + 8) * EPS * size - 8 * EPS * (kinds - 1) * (1 + size))


def _compute_bets(z: Float[np.ndarray, "n"], delta: float, uniform: bool) -> Float[np.ndarray, "k n"]:
    """Compute sqrt(2 log(1/delta) / (n variance)), the best bets for n samples, with the variance of the past ones.

    The estimates begin with one imagined sample: the mean 1/2, the variance 1/4. Where bounds are to hold for every
    number of samples at once, there is one kind of bets for each of `LENGTHS` in the place of n.
    """
    n = len(z)
    seen = np.arange(2.0, n + 2)
    errors = z - (0.5 + np.cumsum(z)) / seen
    variance = (0.25 + np.cumsum(errors**2)) / seen
    lengths = np.array(LENGTHS if uniform else [n], dtype=np.float64)
    return np.sqrt(-2 * math.log(delta) / (lengths[:, None] * np.concatenate([[0.25], variance[:-1]])))
