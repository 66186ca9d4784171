"""The laws that the counts of one row leave possible, for verify_laws.py: what P . W is at least under any of them.

Let a row have n samples, c_k of successor k, K possible successors, q = c / n, and let D = ln (claims / d). With
probability 1 - d all of these hold for all rows at once, the first two at all times by Ville's inequality:

* ball: n KL(q || P) <= D + ln (largest likelihood / mixture likelihood), with a Dirichlet (1/K, ..., 1/K) mixture;
* box: the same of every successor alone, against a coin with a Beta (1/2, 1/2) mixture;
* bernstein: |q_k - P_k| <= sqrt (2 q_k (1 - q_k) L / (n - 1)) + 7 L / 3 (n - 1) with L = D + ln 4 n (n + 1) (Maurer and
  Pontil, Theorem 4; the n-th of all n has the share 1 / n (n + 1));
* l1: |q - P|_1 <= sqrt (2 (ln (2^K - 2) + ln n (n + 1) + D) / n) (Weissman et al., likewise).

Claims are rows, or their entries for the sets in the middle. Radii are logarithms of rationals, and are enclosed. Every
minimum is a sum in integers but that of the ball: for W = m + d with d >= 0 and any y > 0 (Jensen's inequality)

    P . W >= m + (exp (sum_k q_k ln (1 + y d_k) - r) - 1) / y.

A good y is found in floating-point numbers. What it proves is enclosed, so that any y proves something true.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import ONE, NotDecidedError, Span, add, span
    from bidual.certificate.verify_numbers import exp, ln, ln_gamma, minus, root
else:  # alone, beside these files
    from verify import ONE, NotDecidedError, Span, add, span
    from verify_numbers import exp, ln, ln_gamma, minus, root

MOST = 10**8  # samples of a row, for which a minute is needed


def check_number(n: int) -> None:
    if n > MOST:
        raise NotDecidedError(f"a row with {n} samples would take long")


def log(x: int | Fraction) -> Span:
    return ln(span(Fraction(x)))


def log_product(factors: range) -> Span:
    return add(log(math.prod(factors[i : i + 256])) for i in range(0, len(factors), 256))


def scale(c: int | Fraction, x: Span) -> Span:
    """Multiply by a number that is not negative."""
    return c.numerator * x[0] // c.denominator, -(-c.numerator * x[1] // c.denominator)


def up(x: Fraction) -> int:
    """Round up to a number of units."""
    return -(-x.numerator * ONE // x.denominator)


def divergence(counts: list[int], K: int, share: Span) -> int | None:
    """Bound KL(counts / n || P) from above, where `share` encloses D; None where nothing was seen."""
    n, seen = sum(counts), [c for c in counts if c]
    if not n:
        return None
    above = [share, log_product(range(1, n + 1)), scale(n, log(K)), *(scale(c, log(c)) for c in seen)]
    below = [scale(n, log(n)), *(log_product(range(1, 1 + c * K, K)) for c in seen)]
    return -(-minus(add(above), add(below))[1] // n)


@final
class BallLaws(NamedTuple):
    """All P with KL(counts / n || P) <= radius; all laws where it is None."""

    counts: list[int]
    radius: int | None

    def minimum(self, W: list[int]) -> int:
        """Bound by a dual point y."""
        least, n, r = min(W), sum(self.counts), self.radius
        seen = [(c, w - least) for c, w in zip(self.counts, W, strict=False) if c]
        if r is None or not any(d for _, d in seen):
            return least
        p, q = find_dual(seen, n, r / ONE).as_integer_ratio()
        mean = sum(c * ln((ONE + d * p // q, ONE + d * p // q))[0] for c, d in seen) // n
        return least + max(0, (exp((mean - r, mean - r))[0] - ONE) * q // p)


def find_dual(seen: list[tuple[int, int]], n: int, r: float) -> float:
    """Return a good y: where q . log u + log (q . 1 / u) is r, for u = 1 + y d."""
    most = max(d for _, d in seen) / ONE
    weights, low, high = [(c / n, d / ONE / most) for c, d in seen], -25.0, 30.0
    for _ in range(50):
        y = math.exp((low + high) / 2)
        reached = sum(q * math.log1p(y * d) for q, d in weights) + math.log(sum(q / (1 + y * d) for q, d in weights))
        low, high = (low, (low + high) / 2) if reached > r else ((low + high) / 2, high)
    return math.exp(low) / most


@final
class BoxLaws(NamedTuple):
    """All P between ends; those of all successors that are not listed, together, are the last."""

    ends: list[Span]

    def minimum(self, W: list[int]) -> int:
        """Give every successor its lower end, and what is left to the cheapest."""
        order = sorted(zip(W, self.ends, strict=False))
        left, total = ONE - sum(low for low, _ in self.ends), sum(w * low for w, (low, _) in order)
        for w, (low, high) in order:
            given = min(left, high - low)
            left, total = left - given, total + w * given
        return total // ONE


def level(c: int | Fraction, misses: int | Fraction, share: Span) -> Span:
    """Enclose L, where the likelihood ratio says - c ln p - misses ln (1 - p) <= L of a coin."""
    n, half = int(c + misses), Fraction(1, 2)
    check_number(n)
    if c != int(c):
        above = add([share, log_product(range(1, n + 1)), scale(2, ln_gamma(half))])
        return minus(above, add([ln_gamma(c + half), ln_gamma(misses + half)]))
    above = add([share, scale(n, log(2)), log_product(range(1, n + 1))])
    return minus(above, add([log_product(range(1, 2 * int(c), 2)), log_product(range(1, 2 * int(misses), 2))]))


def coin_least(c: int | Fraction, misses: int | Fraction, most: Span) -> int:
    """Return a number below every p with - c ln p - misses ln (1 - p) <= L, and very near the least."""
    if not c:
        return 0
    x, end, L = -most[1] / ONE / float(c), float(c / (c + misses)), most[1] / ONE
    for _ in range(60):  # Newton's method from below, for ln p
        p = math.exp(x)
        if p < end:
            x += max(-c * x - misses * math.log1p(-p) - L, 0.0) / (c - misses * p / (1 - p))
    p = min(max(up(Fraction(min(math.exp(x), end))), 2), ONE - 1)
    for shift in (0, 0, 100, 80, 60, 40, 20):  # the same in enclosures, and then a little below
        q = p - max(p >> shift, 1) if shift else p
        excess = minus((0, 0), add([scale(c, ln((q, q))), scale(misses, ln((ONE - q, ONE - q))), most]))
        slope = Fraction(c * ONE, q) - Fraction(misses * ONE, ONE - q)
        if shift and excess[0] > 0:
            return q
        if not shift and slope > 0:
            p = min(max(p + math.floor(excess[1] / slope), 2), ONE - 1)
    return 0


def coin(c: int | Fraction, misses: int | Fraction, share: Span) -> Span:
    """Enclose the p of a coin that showed one side c times, and the other `misses` times."""
    most = level(c, misses, share)
    return coin_least(c, misses, most), ONE - coin_least(misses, c, most)


def bernstein(c: int, misses: int, share: Span) -> Span:
    n = c + misses
    if n < 2:
        return 0, ONE
    q, L = Fraction(c, n), Fraction(add([share, log(4 * n * (n + 1))])[1], ONE)
    width = root(span(2 * q * (1 - q) * L / (n - 1)))[1] + up(7 * L / (3 * (n - 1)))
    return max(-up(-q) - width, 0), min(up(q) + width, ONE)


@final
class NearLaws(NamedTuple):
    """All P within a distance of counts / n in L1; `gain`, half of it, is what others can lose."""

    counts: list[int]
    gain: int

    def minimum(self, W: list[int]) -> int:
        """Sum over the layers of W: beyond the j cheapest is at least 1 - gain - q_1 - ... - q_j."""
        order, total, seen = sorted(zip(W, [*self.counts, 0], strict=False)), min(W) * ONE, 0
        for (w, c), (dearer, _) in pairwise(order):
            seen += c
            beyond = ONE - self.gain - up(Fraction(seen, sum(self.counts))) if any(self.counts) else 0
            total += (dearer - w) * max(beyond, 0)
        return total // ONE


def l1_gain(n: int, K: int, share: Span) -> int:
    """Bound half of the distance from above."""
    if not n:
        return ONE
    logarithms = Fraction(add([share, log(2 ** max(K, 2) - 2), log(n * (n + 1))])[1], ONE)
    return min(-(-root(span(2 * logarithms / n))[1] // 2), ONE)


Row = BallLaws | BoxLaws | NearLaws  # W has one number more than there are counts where successors are not listed


def read_row(kind: str, counts: list[int], K: int, share: Span) -> Row:
    """Return the set of a row of counts with K possible successors, of which the listed ones come first."""
    n, others = sum(counts), K - len(counts)
    check_number(n)
    if kind == "ball":
        return BallLaws(counts, divergence(counts, K, share))
    if kind == "l1":
        return NearLaws(counts, l1_gain(n, K, share))
    limits = {"box": coin, "bernstein": bernstein}[kind]
    ends = {c: limits(c, n - c, share) for c in {0, *counts}}
    return BoxLaws([*(ends[c] for c in counts), *([(0, min(others * ends[0][1], ONE))] if others else [])])
