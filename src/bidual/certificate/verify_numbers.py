"""Enclosures of roots, quotients, logarithms, exponentials and gamma functions by rationals, for the verify*.py beside.

Everything is rounded outward: a result holds the function at every number between the ends of its argument.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import ONE, NotDecidedError, Span, add, span, times
else:  # alone, beside these files
    from verify import ONE, NotDecidedError, Span, add, span, times

BITS, GUARD = ONE.bit_length() - 1, 64
FINE = ONE << GUARD


def root(a: Span) -> Span:
    return math.isqrt(max(a[0], 0) << BITS), 1 + math.isqrt((a[1] << BITS) - 1) if a[1] > 0 else 0


def over(a: Span, b: Span) -> Span:
    if b[0] <= 0:
        raise NotDecidedError("a divisor is not shown to be positive")
    return min((a[0] << BITS) // x for x in b), max(-((-a[1] << BITS) // x) for x in b)


def artanh(z: int) -> int:
    """Sum z + z^3 / 3 + ... for |z| <= 1 / 3, in units of 1 / FINE: it loses less than 2^10 of them."""
    square, terms, k = z * z // FINE, 0, 1
    while z not in (0, -1):
        terms, z, k = terms + z // k, z * square // FINE, k + 2
    return terms


LN2 = 2 * artanh(FINE // 3)


def ln(a: Span) -> Span:
    def near(x: int) -> int:  # x = m 2^e has the logarithm 2 artanh((m - 1) / (m + 1)) + e ln 2
        e = x.bit_length() - BITS
        m = (x << GUARD) >> e if e > 0 else x << (GUARD - e)
        return (2 * artanh((m - FINE) * FINE // (m + FINE)) + e * LN2) >> GUARD

    if a[0] <= 0:
        raise NotDecidedError("the logarithm of a number that is not shown to be positive")
    return near(a[0]) - 1, near(a[1]) + 2  # what was lost is far less than 2^GUARD units


def exp(a: Span) -> Span:
    if a[1] > ONE << 12:
        raise NotDecidedError("the exponential of a large number")

    def near(x: int, slack: int) -> int:  # of k ln 2 + r it is 2^k (1 + r + r^2 / 2 + ...)
        k, r = divmod(x << GUARD, LN2)
        term, terms, i = FINE, slack, 1
        while term:
            terms, term, i = terms + term, term * r // (FINE * i), i + 1
        return terms << (k - GUARD) if k > GUARD else terms >> (GUARD - k)

    return max(near(a[0], -(1 << 32)), 0), near(a[1], 1 << 32) + 1


def size(a: Span) -> Span:
    """Enclose an absolute value."""
    return max(a[0], -a[1], 0), max(-a[0], a[1])


def minus(a: Span, b: Span) -> Span:
    return a[0] - b[1], a[1] - b[0]


BERNOULLI = [Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66), Fraction(-691, 2730)]


def ln_gamma(x: Fraction) -> Span:
    """Enclose ln Gamma (x) - ln (2 pi) / 2: Stirling's series errs by less than the first term that is left out."""
    product = ONE, ONE
    while x < 256:  # Gamma (x) = Gamma (x + 1) / x
        product, x = times(product, span(x)), x + 1
    *terms, last = [b / (2 * k * (2 * k - 1) * x ** (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    series = span(sum(terms) - x - abs(last))[0], span(sum(terms) - x + abs(last))[1]
    return minus(add([times(span(x - Fraction(1, 2)), ln(span(x))), series]), ln(product))
