"""Convex functions for verify_convex.py: an enclosure of every value, and linear functions below it.

For a convex phi, a weight w > 0 and slopes s,

    w phi(x) >= s . x - sup_x (s . x - w phi(x)),

and the supremum is known in closed form: 0 for a norm where the dual norm of s is at most w (decided in rational
numbers), |s|^2 / 4 w for squares, s ln (s / w) - s for the exponential, and so on. Slopes outside the domain of the
supremum are moved into it: any slopes prove something.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING or __package__:
    from bidual.certificate.verify import ONE, NotDecidedError, Span, add, span, times
    from bidual.certificate.verify_numbers import exp, ln, minus, over, root, size
else:  # alone, beside these files
    from verify import ONE, NotDecidedError, Span, add, span, times
    from verify_numbers import exp, ln, minus, over, root, size


class ConvexFunction(NamedTuple):
    """phi(x; p): an enclosure of the value; for a weight and slopes, slopes near them, and the supremum for those."""

    value: Any
    conjugate: Any


def clip(s: list[Fraction], low: Fraction | int, high: Fraction) -> list[Fraction]:
    return [min(max(x, Fraction(low)), high) for x in s]


def shrink(s: list[Fraction], size: Fraction | int, w: Fraction) -> list[Fraction]:
    return s if size <= w else [x * w / size for x in s]


def shares(s: list[Fraction], w: Fraction) -> list[Fraction]:
    """Return numbers of at least 0 that sum to w."""
    s = [max(x, Fraction(0)) for x in s]
    return [x * w / sum(s) for x in s] if any(s) else [w / len(s)] * len(s)


def largest_shares(s: list[Fraction], w: Fraction, k: Fraction | int) -> list[Fraction]:
    """Return numbers between 0 and w that sum to k w."""
    s, n, k = clip(s, 0, w), len(s), min(k, len(s))
    if sum(s) >= k * w:
        return shrink(s, sum(s), k * w)
    room = (k * w - sum(s)) / (n * w - sum(s))
    return [x + (w - x) * room for x in s]


def upper(a: Span) -> Fraction:
    return Fraction(a[1], ONE)


def x_ln_x(s: Fraction | int, w: Fraction) -> Fraction:
    """Bound s ln(s / w) from above."""
    return upper(times(span(s), ln(span(s / w)))) if s else Fraction(0)


def entropy(a: Span) -> Span:
    """Enclose x ln x, which falls on [0, 1 / e]."""
    if a[0] < 0 or (a[0] == 0 and a[1] > ONE // 3):
        raise NotDecidedError("an entropy of a number that is not shown to be in its domain")
    if a[0] > 0 or a[1] == 0:
        return times(a, ln(a)) if a[0] > 0 else (0, 0)
    return times((a[1], a[1]), ln((a[1], a[1])))[0], 0


def relative_entropy(x: list[Span]) -> Span:
    """Enclose x ln(x / y), 0 at x = 0."""
    return (0, 0) if x[0] == (0, 0) and x[1][0] >= 0 else minus(entropy(x[0]), times(x[0], ln(x[1])))


def squares(x: list[Span]) -> Span:
    return add(times(size(a), size(a)) for a in x)


def logarithm(w: Fraction, s: Fraction) -> Fraction:
    if s >= 0:
        raise NotDecidedError("a slope of a logarithm has the wrong sign")
    return -w + upper(times(span(w), ln(span(-w / s))))


def huber(a: Span, M: Fraction) -> Span:
    ends = [(min(x, span(M)[0]), x - min(x, span(M)[0])) for x in size(a)]
    values = [add([times((i, i), (i, i)), times(span(2 * M), (o, o))]) for i, o in ends]
    return values[0][0], values[1][1]


def norm_slopes(s: list[Fraction], w: Fraction) -> list[Fraction]:
    square = sum(x * x for x in s)
    return s if square <= w * w else shrink(s, upper(root(span(square))), w)


def top(x: list[int], k: Fraction | int) -> list[Any]:
    return [min(max(k - i, 0), 1) * a for i, a in enumerate(sorted(x, reverse=True))]


FUNCTIONS = {
    "norm": ConvexFunction(lambda x, _: root(squares(x)), lambda w, s, _: (norm_slopes(s, w), 0)),
    "norm1": ConvexFunction(lambda x, _: add(map(size, x)), lambda w, s, _: (clip(s, -w, w), 0)),
    "norm_inf": ConvexFunction(
        lambda x, _: tuple(map(max, zip(*map(size, x), strict=True))),
        lambda w, s, _: (shrink(s, sum(map(abs, s)), w), 0),
    ),
    "quad": ConvexFunction(
        lambda x, _: over(squares(x[:-1]), x[-1]),
        lambda w, s, _: ([*s[:-1], -sum(x * x for x in s[:-1]) / (4 * w)], 0),
    ),
    "exp": ConvexFunction(
        lambda x, _: exp(x[0]), lambda w, s, _: ([max(s[0], 0)], x_ln_x(max(s[0], 0), w) - max(s[0], 0))
    ),
    "log": ConvexFunction(lambda x, _: minus((0, 0), ln(x[0])), lambda w, s, _: (s, logarithm(w, s[0]))),
    "entropy": ConvexFunction(lambda x, _: entropy(x[0]), lambda w, s, _: (s, w * upper(exp(span(s[0] / w - 1))))),
    "rel_entr": ConvexFunction(
        lambda x, _: relative_entropy(x),
        lambda w, s, _: ([s[0], -w * upper(exp(span(s[0] / w - 1)))], 0),
    ),
    "kl_div": ConvexFunction(
        lambda x, _: add([relative_entropy(x), minus(x[1], x[0])]),
        lambda w, s, _: ([s[0], w - w * upper(exp(span(s[0] / w)))], 0),
    ),
    "logistic": ConvexFunction(
        lambda x, _: ln(add([(ONE, ONE), exp(x[0])])),
        lambda w, s, _: (clip(s, 0, w), sum(x_ln_x(x, w) for x in (*clip(s, 0, w), w - clip(s, 0, w)[0]))),
    ),
    "log_sum_exp": ConvexFunction(
        lambda x, _: ln(add(map(exp, x))), lambda w, s, _: (shares(s, w), sum(x_ln_x(x, w) for x in shares(s, w)))
    ),
    "huber": ConvexFunction(
        lambda x, M: huber(x[0], M),
        lambda w, s, M: (clip(s, -2 * M * w, 2 * M * w), clip(s, -2 * M * w, 2 * M * w)[0] ** 2 / (4 * w)),
    ),
    "max": ConvexFunction(lambda x, _: tuple(map(max, zip(*x, strict=True))), lambda w, s, _: (shares(s, w), 0)),
    "sum_largest": ConvexFunction(
        lambda x, k: (math.floor(sum(top([a for a, _ in x], k))), math.ceil(sum(top([a for _, a in x], k)))),
        lambda w, s, k: (largest_shares(s, w, Fraction(k)), 0),
    ),
}
Ends = tuple[int | None, int | None]  # None: not known
SIZES = ("norm", "norm1", "norm_inf", "quad", "huber")  # they rise with the sizes of their arguments
NEVER_NEGATIVE = (*SIZES, "exp", "kl_div", "logistic")


def least(function: str, x: list[Ends], p: Any) -> int | None:  # noqa: ANN401
    """Bound a function over arguments between ends from below; None where nothing is known."""
    floor = 0 if function in NEVER_NEGATIVE else None
    if function in ("entropy", "rel_entr"):
        y = x[1][1] if function == "rel_entr" else ONE  # it falls with y
        return least_relative(x[0], y) if y is not None and y > 0 else None
    place = lowest_place(function, x)
    if not place or any(end is None for end in place):
        return floor
    try:
        found = FUNCTIONS[function].value([(end, end) for end in place], p)[0]
    except NotDecidedError:  # outside its domain, say
        return floor
    return found if floor is None else max(found, floor)


def lowest_place(function: str, x: list[Ends]) -> list[int | None]:
    """Return the arguments between ends at which a function is least, None for what is not known."""
    lows, highs = [low for low, _ in x], [high for _, high in x]
    if function in SIZES:
        sizes = list[int | None](max(low or 0, -(high or 0), 0) for low, high in x)
        return sizes if function != "quad" else [*sizes[:-1], highs[-1]]
    if function == "kl_div":  # 0 where both arguments can be the same
        (a, b), (c, d) = x
        return [b, c] if b is not None and c is not None and b < c else [a, d] if a and d and a > d else [None]
    if function in ("max", "log_sum_exp"):
        return [low for low in lows if low is not None]
    return highs if function == "log" else lows


def least_relative(x: Ends, y: int) -> int:
    """Bound u ln(u / y) for u between ends from below: it falls until u = y / e, and rises from there."""
    low, high = times((y, y), exp((-ONE, -ONE)))
    u = x[1] if x[1] is not None and x[1] < low else x[0] if x[0] is not None and x[0] > high else None
    if u is None:
        return -high
    u = max(u, 0)
    return minus(entropy((u, u)), times((u, u), ln((y, y))))[0]
