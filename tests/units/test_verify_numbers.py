"""Numbers of the exact verifier, to the last unit of 2^-256: by whole numbers, rationals and digits of `decimal`."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from bidual.certificate.verify import ONE, NotDecidedError, span, times
from bidual.certificate.verify_numbers import FINE, artanh, exp, ln, ln_gamma, minus, over, root, size

HALF = ONE // 2


def units(function):
    """Return the whole part of a number of 120 digits, in units of 2^-256, and the digits after it."""
    with localcontext() as context:
        context.prec = 200
        x = function() * Decimal(ONE)
        whole = math.floor(x)
        return whole, x - whole


def precise_ln(x):
    x = Fraction(x)
    with localcontext() as context:
        context.prec = 200
        return Decimal(x.numerator).ln() - Decimal(x.denominator).ln()


def test_roots_are_the_nearest_whole_numbers_of_units():
    assert root((0, 0)) == root((-5, 0)) == (0, 0)
    assert root((1, 1)) == root((1, 1)) == (1 << 128, 1 << 128)
    assert root((ONE, 4 * ONE)) == (ONE, 2 * ONE)
    low, high = root((2 * ONE, 2 * ONE))
    assert low**2 < 2 * ONE * ONE < high**2
    assert high - low == 1
    assert root((-ONE, 9 * ONE)) == (0, 3 * ONE)


def test_quotients_are_rounded_outward():
    assert over((ONE, 3 * ONE), (2 * ONE, 4 * ONE)) == (ONE // 4, 3 * HALF)
    assert over((-3 * ONE, -ONE), (2 * ONE, 4 * ONE)) == (-3 * HALF, -ONE // 4)
    assert over((-ONE, ONE), (2 * ONE, 4 * ONE)) == (-HALF, HALF)
    assert over((1, 1), (3 * ONE, 3 * ONE)) == (0, 1)
    assert over((-1, -1), (3 * ONE, 3 * ONE)) == (-1, 0)
    assert over((1, 1), (1, ONE)) == (1, ONE)
    for divisor in ((0, ONE), (-1, ONE)):
        with pytest.raises(NotDecidedError, match="a divisor"):
            over((ONE, ONE), divisor)


def test_a_series_loses_less_than_it_says():
    assert artanh(0) == 0
    for z in (1, -1, FINE // 3, -FINE // 3, FINE // 1000):
        x = Fraction(z, FINE)
        lost = float(sum(x ** (2 * k + 1) / (2 * k + 1) for k in range(110)) * FINE - artanh(z))  # the rest is tiny
        assert -2 < lost < 1 << 10


@pytest.mark.parametrize(
    "x", [Fraction(1, ONE), Fraction(1, 3), Fraction(1, 2), Fraction(5, 7), 2, 3, Fraction(7, 5), 10**30]
)
def test_logarithms_keep_a_unit_for_what_is_lost(x):
    at = math.floor(x * ONE)
    whole, rest = units(lambda: precise_ln(Fraction(at, ONE)))
    assert Decimal("1e-10") < rest < 1 - Decimal("1e-10")  # far from where rounding decides
    assert ln((at, at)) == (whole - 1, whole + 2)
    assert ln((at, at + 5 * ONE))[0] == whole - 1
    assert ln((1, at))[1] == whole + 2


def test_logarithms_of_one_and_of_nothing():
    low, high = ln((ONE, ONE))
    assert low <= 0 <= high
    assert high - low == 3
    for x in (0, -1):
        with pytest.raises(NotDecidedError, match="the logarithm"):
            ln((x, ONE))


@pytest.mark.parametrize("x", [-3.5, -0.25, 0.75, 10.0, 30.0])
def test_exponentials_are_rounded_outward(x):
    at = int(x * ONE)
    whole, rest = units(lambda: Decimal(x).exp())
    low, high = exp((at, at))
    slack = 2 ** max(0, math.floor(x / math.log(2)) - 32)  # of a unit, for up to 2^32 of the series
    assert Decimal(slack) * Decimal("1e-9") < rest or slack > 1
    assert whole - slack <= low <= whole
    assert whole + 1 <= high <= whole + 1 + slack
    assert exp((at - ONE, at))[1] == high
    assert exp((at, at + ONE))[0] == low


def test_an_exponential_keeps_what_its_series_loses():
    at, k = 100 * ONE, math.floor(100 / math.log(2))
    low, high = exp((at, at))
    whole, _ = units(lambda: Decimal(100).exp())
    assert high - low == (1 << (32 + 1 + k - 64)) + 1
    assert low < whole < high
    assert abs((low + high) // 2 - whole) < 1 << (k - 64 + 16)
    assert exp((-10_000 * ONE, -10_000 * ONE)) == (0, 1)
    assert exp((0, 0)) == (ONE - 1, ONE + 1)
    exact = math.floor(64 * math.log(2) * 2**40) + 1, 64  # just beyond e^x = 2^64, where the series is not shifted
    low, high = exp((exact[0] << 216,) * 2)
    assert high - low == (1 << 33) + 1


def test_an_exponential_has_a_largest_argument():
    exp((0, ONE << 12))
    with pytest.raises(NotDecidedError, match="large number"):
        exp((0, (ONE << 12) + 1))


def test_sizes_and_differences():
    assert [size(a) for a in ((-3, -2), (-1, 2), (-2, 1), (1, 2))] == [(2, 3), (0, 2), (0, 2), (1, 2)]
    assert minus((1, 2), (10, 20)) == (-19, -8)


TERMS = (Fraction(1, 12), Fraction(-1, 360), Fraction(1, 1260), Fraction(-1, 1680), Fraction(1, 1188))
LEFT_OUT = Fraction(691, 360360)  # DLMF 5.11.1: of the sixth term, which bounds what is left out


def series(x, sign):
    """Five terms of Stirling's series less x, and the sixth with a sign."""
    odd = [x ** (2 * k + 1) for k in range(6)]
    return sum(c / p for c, p in zip(TERMS, odd[:5], strict=True)) + sign * LEFT_OUT / odd[5] - x


def stirling(x, sign):
    """ln Gamma (x) - ln (2 pi) / 2 by five terms, and the sixth with a sign."""
    rational = series(x, sign)
    with localcontext() as context:
        context.prec = 200
        rest = Decimal(rational.numerator) / Decimal(rational.denominator)
        middle = x - Fraction(1, 2)
        return Decimal(middle.numerator) / Decimal(middle.denominator) * precise_ln(x) + rest


@pytest.mark.parametrize("x", [Fraction(256), Fraction(1001, 3), Fraction(255), Fraction(507, 2), Fraction(3, 2)])
def test_gamma_functions_end_where_stirlings_series_does(x):
    low, high = ln_gamma(x)
    steps = [x + j for j in range(max(0, math.ceil(256 - x)))]
    last = x + len(steps)
    for end, sign in ((low, -1), (high, 1)):

        def expected(sign=sign):
            with localcontext() as context:
                context.prec = 200
                return stirling(last, sign) - sum(map(precise_ln, steps))

        assert abs(end - units(expected)[0]) < 1 << 14  # of products of up to 256 factors, where the sixth is 2^150


def test_a_gamma_function_is_rounded_outward():
    x, one = Fraction(1001, 3), ln((ONE, ONE))  # the logarithm of an empty product
    first = times(span(x - Fraction(1, 2)), ln(span(x)))
    low, high = math.floor(series(x, -1) * ONE), math.ceil(series(x, 1) * ONE)
    assert ln_gamma(x) == (first[0] + low - one[1], first[1] + high - one[0])
