"""Bets of the exact verifier by hand."""

import math
from fractions import Fraction

import pytest

from bidual.certificate import verify_bets
from bidual.certificate.verify_bets import SampleRange

UNIT = SampleRange(0.5, 0.5)
HALF = Fraction(1, 2)


def test_ranges_are_a_billionth_wider():
    assert SampleRange.of(-1.0, 3.0) == (1.0, 2.0 + 3e-9)
    assert SampleRange.of(-3.0, 1.0) == (-1.0, 2.0 + 3e-9)
    assert SampleRange.of(0.0, 0.0) == (0.0, 1e-290)
    wide = SampleRange(1.0, 2.0)
    assert [wide.to_unit(x) for x in (-1.0, 1.0, Fraction(2), 3.0)] == [0, HALF, Fraction(3, 4), 1]


def test_shares_are_a_little_below_those_of_pi():
    low, high = verify_bets.shares(0.5, 3, 2)
    each = 0.5 * 3 / 8 * 6 / (3 * math.pi) ** 2 / 2
    assert float(low) == pytest.approx(each / 10, rel=1e-14)
    assert float(high) == pytest.approx(each * 9 / 10, rel=1e-14)
    assert Fraction("3.14159265358979323846264338327") < verify_bets.PI < Fraction("3.1415926535897932384626433833")


def test_capital_that_is_all_of_the_share_refutes():
    """A bet of 3/2 at a mean of a half makes 7/4 of the sample 0; of the sample 1 it leaves a quarter."""
    share = Fraction(4, 7)
    assert verify_bets.refutes([0.0], UNIT, HALF, share, uniform=False)
    assert not verify_bets.refutes([0.0], UNIT, HALF, share - Fraction(1, 10**30), uniform=False)
    assert not verify_bets.refutes([1.0, 0.0], UNIT, HALF, share, uniform=False)
    assert verify_bets.refutes([0.0, 0.0, 1.0], UNIT, HALF, HALF, uniform=False)  # after the second


def test_bets_are_of_samples_in_the_range_and_rounded_down():
    """At 19/20 they make 1 + 0.453 m and 1 + 0.573 m of two samples 0, together 20/19 at m = 0.0507."""
    for m, refuted in ((Fraction(50, 1000), False), (Fraction(51, 1000), True)):
        assert verify_bets.refutes([0.0, 0.0], UNIT, m, Fraction(19, 20), uniform=False) is refuted
        assert verify_bets.refutes([3.0, 3.0], SampleRange(3.5, 0.5), 3 + m, Fraction(19, 20), uniform=False) is refuted
    third, share = Fraction(1, 3), Fraction(8, 11)  # a bet of 9/8 makes 11/8, less a unit for the rounding of a third
    assert not verify_bets.refutes([0.0], UNIT, third, share, uniform=False)
    assert verify_bets.refutes([0.0], UNIT, third, share + Fraction(1, 10**70), uniform=False)


def test_means_outside_the_range_are_decided_without_bets():
    for m, refuted in ((Fraction(1), True), (Fraction(2), True), (Fraction(0), False), (Fraction(-1), False)):
        assert verify_bets.refutes([0.5], UNIT, m, HALF, uniform=False) is refuted
    for sample in (-1e-9, 1 + 1e-9):
        with pytest.raises(ValueError, match="outside the range"):
            verify_bets.refutes([0.5, sample], UNIT, HALF, HALF, uniform=False)
    assert not verify_bets.refutes([0.0, 1.0], UNIT, Fraction(1, 100), Fraction(1, 100), uniform=False)


def test_bets_are_of_the_variance_so_far():
    found = list(verify_bets.estimate_bets([1.0, 0.0, 0.5], 0.25, [2.0, 8.0]))
    first = 0.25 + 0.25**2  # about the means 3/4 and 1/2
    for bets, variance in zip(found, (0.25, first / 2, (first + 0.25) / 3), strict=True):
        expected = [math.sqrt(2 * math.log(4) / (length * variance)) for length in (2.0, 8.0)]
        assert bets == pytest.approx(expected, rel=1e-14)
