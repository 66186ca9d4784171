"""Convex functions of the exact verifier: values against plain formulas, linear functions below them and touching."""

import math
from fractions import Fraction

import numpy as np
import pytest

from bidual.certificate import verify_functions
from bidual.certificate.verify import ONE, NotDecidedError, span, times
from bidual.certificate.verify_functions import FUNCTIONS, clip, huber, largest_shares, least, lowest_place, shares
from bidual.certificate.verify_numbers import exp, ln, minus

EXACT = 1e-12  # of formulas in double precision, relative to numbers of ordinary size


def xlogy(x, y):
    return 0.0 if x == 0 else x * math.log(y)


def first(values, k):
    """The sum of the k largest, with a share of the next."""
    ordered = sorted(values, reverse=True)
    return sum(ordered[: int(k)]) + (k - int(k)) * (ordered[int(k)] if int(k) < len(ordered) else 0.0)


def share_of(values, k):
    """A subgradient of it, where all values differ."""
    order, found = np.argsort(values)[::-1], np.zeros(len(values))
    found[order[: int(k)]] = 1.0
    if int(k) < len(values):
        found[order[int(k)]] = k - int(k)
    return found


def unit(i, n, x=1.0):
    return x * np.eye(n)[i]


# The value, a subgradient, and points.
WHERE = {"any": ([0.7, -1.3, 0.2], [-2.0, 0.5, 0.1], [3.0, 4.0, -0.5]), "one": ([-1.7], [0.3], [2.5])}
FORMULAS = {
    "norm": (np.linalg.norm, lambda x, _: x / np.linalg.norm(x), WHERE["any"], None),
    "norm1": (lambda x: np.abs(x).sum(), lambda x, _: np.sign(x), WHERE["any"], None),
    "norm_inf": (
        lambda x: np.abs(x).max(),
        lambda x, _: unit(np.argmax(np.abs(x)), 3, np.sign(x[np.argmax(np.abs(x))])),
        WHERE["any"],
        None,
    ),
    "quad": (
        lambda x: (x[:-1] @ x[:-1]) / x[-1],
        lambda x, _: np.append(2 * x[:-1] / x[-1], -(x[:-1] @ x[:-1]) / x[-1] ** 2),
        ([0.7, -1.3, 0.2], [-2.0, 0.5, 3.0]),
        None,
    ),
    "exp": (lambda x: math.exp(x[0]), lambda x, _: np.exp(x), WHERE["one"], None),
    "log": (lambda x: -math.log(x[0]), lambda x, _: -1 / x, ([0.3], [2.5]), None),
    "entropy": (lambda x: xlogy(x[0], x[0]), lambda x, _: 1 + np.log(x), ([0.3], [2.5]), None),
    "rel_entr": (
        lambda x: xlogy(x[0], x[0] / x[1]),
        lambda x, _: np.array([1 + math.log(x[0] / x[1]), -x[0] / x[1]]),
        ([0.3, 2.0], [2.5, 0.4]),
        None,
    ),
    "kl_div": (
        lambda x: xlogy(x[0], x[0] / x[1]) - x[0] + x[1],
        lambda x, _: np.array([math.log(x[0] / x[1]), 1 - x[0] / x[1]]),
        ([0.3, 2.0], [2.5, 0.4]),
        None,
    ),
    "logistic": (lambda x: math.log1p(math.exp(x[0])), lambda x, _: 1 / (1 + np.exp(-x)), WHERE["one"], None),
    "log_sum_exp": (
        lambda x: math.log(np.exp(x).sum()),
        lambda x, _: np.exp(x) / np.exp(x).sum(),
        WHERE["any"],
        None,
    ),
    "huber": (
        lambda x: x[0] ** 2 if abs(x[0]) <= 0.75 else 1.5 * abs(x[0]) - 0.75**2,
        lambda x, _: np.clip(2 * x, -1.5, 1.5),
        ([-1.7], [0.3], [2.5], [-0.75]),
        Fraction(3, 4),
    ),
    "max": (np.max, lambda x, _: unit(np.argmax(x), 3), WHERE["any"], None),
    "sum_largest": (lambda x: first(x, 1.5), lambda x, _: share_of(x, 1.5), WHERE["any"], Fraction(3, 2)),
}


def test_every_function_is_tried():
    assert set(FORMULAS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", FORMULAS)
def test_values_are_enclosed(name):
    value, _, points, p = FORMULAS[name]
    for x in points:
        spans = [span(a) for a in x]
        low, high = FUNCTIONS[name].value(spans, p)
        assert 0 <= high - low < 1 << 60
        assert low / ONE == pytest.approx(value(np.array(x)), rel=EXACT, abs=EXACT)
        wide = [(low - ONE // 64, high + ONE // 64) for low, high in spans]
        low, high = (end / ONE for end in FUNCTIONS[name].value(wide, p))
        corners = [value(np.array(x) + (2 * np.array(t) - 1) / 64) for t in np.ndindex(*(2,) * len(x))]
        room = EXACT * max(1.0, abs(low), abs(high))  # of the corners' own rounding
        assert low - room <= min(corners) <= max(corners) <= high + room


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("w", [Fraction(1), Fraction(5, 2), Fraction(1, 3)])
def test_linear_functions_touch_from_below(name, w):
    """With a subgradient as the slopes, w phi(x) - s . x + sup is 0 at x; it is never negative elsewhere."""
    value, gradient, points, p = FORMULAS[name]
    for x in map(np.array, points):
        asked = [Fraction(float(g)) * w for g in gradient(x, p)]
        slopes, supremum = FUNCTIONS[name].conjugate(w, asked, p)
        assert [float(s) for s in slopes] == pytest.approx([float(s) for s in asked], rel=EXACT, abs=EXACT)
        room = float(w) * value(x) - np.array(slopes, dtype=float) @ x + float(supremum)
        assert abs(room) <= 1e-14 * 30


def candidates(name, rng):
    n = len(FORMULAS[name][2][0])
    for size in (1e-6, 1e-2, 1.0, 30.0):
        for _ in range(25):
            x = size * rng.normal(size=n)
            if name in ("log", "entropy", "rel_entr", "kl_div"):
                x = np.abs(x) + 1e-9
            if name == "quad":
                x[-1] = abs(x[-1]) + 1e-9
            yield x


@pytest.mark.parametrize("name", FORMULAS)
def test_any_slopes_give_a_function_below(name):
    value, _, points, p = FORMULAS[name]
    rng = np.random.default_rng(1)
    n, points = len(points[0]), list(candidates(name, rng))
    for w in (Fraction(1), Fraction(7, 4)):
        for size in (0.1, 1.0, 4.0):
            for _ in range(3):
                asked = [Fraction(float(x)) for x in size * rng.normal(size=n)]
                try:
                    slopes, supremum = FUNCTIONS[name].conjugate(w, asked, p)
                except NotDecidedError:
                    assert name == "log"
                    assert asked[0] >= 0
                    continue
                for x in points:
                    s = np.array(slopes, dtype=float)
                    room = float(w) * value(x) - s @ x + float(supremum)
                    assert room >= -1e-13 * (1 + float(w) * abs(value(x)) + np.abs(s) @ np.abs(x) + abs(supremum))


# Slopes that a rounding left outside of the domain.


def test_slopes_are_moved_into_the_domain_and_no_others_are():
    third, w = Fraction(1, 3), Fraction(2)
    assert clip([Fraction(-3), third, Fraction(3)], -w, w) == [-2, third, 2]
    assert clip([Fraction(-3)], 0, w) == [0]
    assert verify_functions.shrink([Fraction(1), third], w, w) == [1, third]
    assert verify_functions.shrink([Fraction(4), Fraction(-8)], 8, w) == [1, -2]
    assert shares([Fraction(-1), Fraction(1), Fraction(3)], w) == [0, Fraction(1, 2), Fraction(3, 2)]
    assert shares([Fraction(-1), Fraction(0)], w) == [1, 1]
    assert largest_shares([Fraction(1, 2), Fraction(-1), Fraction(5)], w, Fraction(3, 2)) == [  # 3 in all
        Fraction(1, 2) + Fraction(3, 2) * Fraction(1, 7),
        Fraction(2, 7),
        2,
    ]
    assert largest_shares([w, w], w, Fraction(3)) == [2, 2]  # more than there are
    assert largest_shares([w, w, w], w, Fraction(1)) == [Fraction(2, 3)] * 3
    assert largest_shares([w, Fraction(0)], w, Fraction(1)) == [2, 0]
    half = FUNCTIONS["norm"].conjugate(w, [Fraction(12), Fraction(-16)], None)[0]
    assert sum(x * x for x in half) <= 4
    assert [float(x) for x in half] == [1.2, -1.6]
    assert FUNCTIONS["norm"].conjugate(Fraction(20), [Fraction(12), Fraction(-16)], None)[0] == [12, -16]
    assert FUNCTIONS["norm"].conjugate(third, [Fraction(1, 2)], None)[0][0] <= third
    assert FUNCTIONS["norm_inf"].conjugate(w, [Fraction(4), Fraction(-4)], None)[0] == [1, -1]
    assert FUNCTIONS["exp"].conjugate(w, [Fraction(-1)], None) == ([0], 0)
    assert FUNCTIONS["logistic"].conjugate(w, [Fraction(-1)], None)[0] == [0]
    assert FUNCTIONS["logistic"].conjugate(w, [Fraction(3)], None)[0] == [2]
    assert FUNCTIONS["huber"].conjugate(w, [Fraction(9)], Fraction(1, 2)) == ([2], Fraction(1, 2))
    assert FUNCTIONS["huber"].conjugate(w, [Fraction(-9)], Fraction(1, 2)) == ([-2], Fraction(1, 2))
    for s in (Fraction(0), Fraction(1)):
        with pytest.raises(NotDecidedError, match="wrong sign"):
            FUNCTIONS["log"].conjugate(w, [s], None)


def test_suprema_are_rounded_up():
    """At most a few units of 2^-256 above the truth, and never below."""
    for s in (Fraction(1, 3), Fraction(5, 7), Fraction(3)):
        low, high = verify_functions.ln(span(s))
        found = verify_functions.x_ln_x(s, Fraction(1))
        assert s * low <= found * ONE
        assert s * high <= found * ONE + 1 <= s * high + 20
        assert verify_functions.logarithm(Fraction(1), -s) + 1 >= Fraction(-high, ONE)
    assert verify_functions.x_ln_x(Fraction(0), Fraction(1)) == 0
    assert verify_functions.upper((3, 5)) == Fraction(5, ONE)


# Domains.


def test_entropies_are_enclosed_on_their_domain():
    entropy, third = verify_functions.entropy, ONE // 3
    assert entropy((0, 0)) == (0, 0)
    low, high = entropy((0, third))
    assert (low, high) == (times((third, third), ln((third, third)))[0], 0)
    assert entropy((1, ONE))[0] < -third  # the least is -1 / e
    assert low / ONE == pytest.approx(-math.log(3) / 3, rel=EXACT)
    assert entropy((0, 1))[1] == 0
    low, high = entropy((ONE, ONE))
    assert low <= 0 <= high < 4
    for a in ((-1, ONE), (0, third + 1), (-1, 0)):
        with pytest.raises(NotDecidedError, match="an entropy"):
            entropy(a)
    relative = verify_functions.relative_entropy
    assert relative([(0, 0), (0, ONE)]) == relative([(0, 0), (0, 0)]) == (0, 0)
    for x in ([(0, 0), (-1, ONE)], [(1, ONE), (0, ONE)]):
        with pytest.raises(NotDecidedError):
            relative(x)


def test_huber_functions_rise_with_the_size():
    one = Fraction(1)
    assert huber((-3 * ONE, 2 * ONE), one) == (0, 5 * ONE)
    assert huber((ONE, ONE), one) == (ONE, ONE)
    assert huber((1, 1), one) == (0, 1)  # rounded outward
    assert huber((-2 * ONE, -2 * ONE), one) == (3 * ONE, 3 * ONE)
    assert huber((ONE // 2, 3 * ONE), one) == (ONE // 4, 5 * ONE)


def test_the_sum_of_the_largest_takes_a_share_of_the_next():
    values = [(ONE, ONE), (3 * ONE, 4 * ONE), (-ONE, -ONE)]
    assert FUNCTIONS["sum_largest"].value(values, Fraction(3, 2)) == (7 * ONE // 2, 9 * ONE // 2)
    assert FUNCTIONS["sum_largest"].value(values, 1) == (3 * ONE, 4 * ONE)
    assert FUNCTIONS["sum_largest"].value(values, 5) == (3 * ONE, 4 * ONE)
    assert FUNCTIONS["sum_largest"].value([(1, 1)], Fraction(1, 2)) == (0, 1)  # rounded outward
    assert FUNCTIONS["max"].value(values, None) == (3 * ONE, 4 * ONE)


# The least between ends.


def ends(*pairs):
    return [tuple(None if x is None else int(x * ONE) for x in pair) for pair in pairs]


NOTHING = (None, None)


def test_where_a_function_is_least():
    assert lowest_place("norm", ends((1, 2), (-2, -1), (-1, 1), NOTHING, (None, -3), (2, None))) == [
        x * ONE for x in (1, 1, 0, 0, 3, 2)
    ]
    assert lowest_place("quad", ends((1, 2), (3, 4))) == [ONE, 4 * ONE]
    assert lowest_place("quad", ends((1, 2), (-4, -3), (5, 6))) == [ONE, 3 * ONE, 6 * ONE]
    assert lowest_place("quad", ends((1, 2), (3, None))) == [ONE, None]
    assert lowest_place("kl_div", ends((0, 1), (2, 3))) == [ONE, 2 * ONE]
    assert lowest_place("kl_div", ends((4, 5), (2, 3))) == [4 * ONE, 3 * ONE]
    for touching in (((0, 2), (2, 3)), ((3, 5), (2, 3)), ((1, 5), (2, 3)), (NOTHING, (2, 3)), ((0, 1), NOTHING)):
        assert lowest_place("kl_div", ends(*touching)) == [None]
    assert lowest_place("max", ends((1, 2), NOTHING, (0, 1))) == [ONE, 0]
    assert lowest_place("log_sum_exp", ends(NOTHING, (0, 1))) == [0]
    assert lowest_place("log", ends((1, 2))) == [2 * ONE]
    assert lowest_place("exp", ends((1, 2))) == lowest_place("sum_largest", ends((1, 2))) == [ONE]


def test_a_function_is_bounded_where_its_arguments_are():
    assert least("norm1", ends((1, 2), (-4, -3)), None) == 4 * ONE
    assert least("norm1", ends((1, 2), NOTHING), None) == ONE
    assert least("log", ends((-2, -1)), None) is None  # outside of its domain
    assert least("exp", [NOTHING], None) == 0
    assert least("exp", ends((1, 2)), None) == exp((ONE, ONE))[0]
    assert least("exp", ends((5000, 6000)), None) == 0  # too large to be computed
    assert least("max", [NOTHING], None) is None
    assert least("sum_largest", ends((1, 2), (None, 2)), 1) is None
    assert least("quad", ends((1, 2), (-3, -1)), None) == 0
    for name in ("kl_div", "logistic", "huber", "norm", "norm_inf"):
        assert least(name, [NOTHING, NOTHING], Fraction(1)) == 0
    assert least("rel_entr", ends((1, 2), (-1, 0)), None) is None
    assert least("rel_entr", ends((1, 2), (1, None)), None) is None


def test_the_least_relative_entropy():
    e = math.exp(-1)
    for x, y, u in (
        (NOTHING, 2, 2 * e),
        ((0.1, 0.2), 2, 0.2),
        ((1, 3), 2, 1.0),
        ((0.5, 1), 2, 2 * e),
        ((-1, 0), 2, 0.0),
        ((None, 0.2), 2, 0.2),
        ((1, None), 2, 1.0),
        ((-1, -0.5), 2, 0.0),
    ):
        found = least("rel_entr", ends(x, (0.5, y)), None)
        assert found is not None
        assert found / ONE == pytest.approx(xlogy(u, u / y), rel=EXACT, abs=1e-60)
    two = (2 * ONE, 2 * ONE)
    lowest = minus(times(two, ln(two)), times(two, ln((ONE, ONE))))[0]
    assert least("rel_entr", ends((-1, 0), (0.5, 2)), None) == 0
    assert least("entropy", ends((2, 3)), None) == lowest
    assert least("entropy", ends((2, 3)), None) / ONE == pytest.approx(2 * math.log(2), rel=EXACT)
    assert least("rel_entr", ends((1, 2), (1, 1 / ONE)), None) is not None
