"""Means of samples for verify_learned.py, refuted by betting against them.

Let z be a sample in units of its range, which no episode can leave, m a mean in these units, and

    l_t(m) = min(b_t, 3 / 4 (1 - m)), with b_t >= 0 any numbers known before z_t.

The capital prod_t (1 + l_t(m) (m - z_t)) grows with m, for so does every factor, and is a nonnegative martingale where
m is the mean. So it ever reaches 1 / share there with probability at most that share (Ville's inequality); if it does
at some m, every larger mean is refuted too. The b_t are estimates of the best bets, computed in floating-point numbers:
any numbers are bets. Capital is rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import ONE, span, times
else:  # alone, beside these files
    from verify import ONE, span, times

PI = Fraction(314159265358979323846264338328, 10**29)  # a little above pi, so that shares are a little below theirs
CAUTION = Fraction(3, 4)
LENGTHS = [32.0 * 4**k for k in range(6)]  # for which there are bets where the number of episodes was not fixed


class SampleRange(NamedTuple):
    """Ends that no episode can leave, a billionth wider for rounding: the middle, and half of the width."""

    middle: float
    half: float

    @staticmethod
    def of(low: float, high: float) -> SampleRange:
        return SampleRange(low / 2 + high / 2, (high / 2 - low / 2) + max(1e-9 * max(abs(low), abs(high)), 1e-290))

    def to_unit(self, x: float | Fraction) -> Fraction:
        return (Fraction(x) - Fraction(self.middle)) / (2 * Fraction(self.half)) + Fraction(1, 2)


class SampleRound(NamedTuple):
    """Fresh episodes of one policy: a column of samples for every functional."""

    number: int
    uniform: bool  # whether bounds are to hold for every number of episodes at once
    columns: list[list[float]]


def shares(delta: float, number: int, functionals: int) -> tuple[Fraction, Fraction]:
    """Return the shares of delta for the lower and the upper end of a functional in round 1, 2, ..."""
    each = Fraction(delta) * Fraction(3, 8) * 6 / (PI * number) ** 2 / functionals
    return each / 10, each * 9 / 10


def estimate_bets(z: list[float], share: float, lengths: list[float]) -> Iterator[list[float]]:
    """Yield sqrt (2 log (1 / share) / (length variance)) before every sample, with the variance of those before it."""
    total, squares, variance = 0.5, 0.25, 0.25
    for t, x in enumerate(z, 2):
        yield [math.sqrt(-2 * math.log(share) / (length * variance)) for length in lengths]
        total += x
        squares += (x - total / t) ** 2
        variance = squares / t


def refutes(samples: list[float], ends: SampleRange, stated: Fraction, share: Fraction, uniform: bool) -> bool:
    """Decide whether samples refute, at this share, every mean above a stated number."""
    m, z = ends.to_unit(stated), [ends.to_unit(x) for x in samples]
    if not all(0 <= x <= 1 for x in z):
        raise ValueError("a sample is outside the range of its functional")
    if not 0 < m < 1:
        return m >= 1
    (low, high), lengths = span(CAUTION / (1 - m)), LENGTHS if uniform else [float(len(z))]
    floats, capitals = [0.5 + (x - ends.middle) * (0.5 / ends.half) for x in samples], [ONE] * len(lengths)
    for x, bets in zip(z, estimate_bets(floats, float(share), lengths), strict=True):
        stakes = [(min(least, low), min(most, high)) for least, most in map(span, bets)]
        factors = [max(ONE + times(stake, span(m - x))[0], 0) for stake in stakes]
        capitals = [capital * factor // ONE for capital, factor in zip(capitals, factors, strict=True)]
        if sum(capitals) * share >= len(capitals) * ONE:
            return True
    return False
