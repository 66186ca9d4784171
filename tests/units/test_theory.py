"""The paper's rates: the numbers of its formulas, their growth, and their settings."""

import math

import numpy as np
import pytest

import bidual as bd
from bidual.certificate.theory import LowRank, Regulator

KNR = Regulator(H=10, d=4, B=2.0, Gamma=3.0, delta=0.1, noise=1.5)
CLASS = LowRank(H=10, d=3, actions=5, models=100, B=2.0, Gamma=3.0, delta=0.1)


def test_regulator_by_hand():
    log = math.log(10 * 1000 / (4 * 0.1))
    assert KNR.violation(1000.0) == pytest.approx(1.5 * 2 * 10 * 4 * math.sqrt(1000) * log)
    assert KNR.regret(1000.0) == pytest.approx(3 * 2 * math.sqrt(10_000) + 1.5 * 2 * 10 * 4 * math.sqrt(1000) * log)
    several = 1.5 * 10**1.5 * 4 * math.sqrt(2000) * log
    assert KNR.violation_several(1000.0, 2) == pytest.approx(several)
    assert KNR.regret_several(1000.0, 2) == pytest.approx(3 * 10 * math.sqrt(2000) + several)
    assert KNR.regret_feasibility(1000.0) == pytest.approx(1.5 * 10 * 4 * math.sqrt(1000) * log)


def test_low_rank_by_hand():
    log = math.log(1000 * 10 * 100 / 0.1)
    assert CLASS.violation(1000.0) == pytest.approx(2 * math.sqrt(1000 * 10 * 5 * 9) * log)
    assert CLASS.regret(1000.0) == pytest.approx(3 * 2 * math.sqrt(10_000) + 2 * math.sqrt(1000 * 10 * 5 * 9) * log)
    several = 10 * math.sqrt(5 * 2 * 27 * 1000) * log
    assert CLASS.violation_several(1000.0, 2) == pytest.approx(several)
    assert CLASS.regret_several(1000.0, 2) == pytest.approx(3 * 10 * math.sqrt(2 * 3 * 1000) + several)
    assert CLASS.regret_feasibility(1000.0) == pytest.approx(math.sqrt(10 * 5 * 9 * 1000) * log)


def test_what_is_not_given_is_one_and_delta_a_twentieth():
    assert Regulator(H=10, d=4) == Regulator(H=10, d=4, B=1.0, Gamma=1.0, delta=0.05, noise=1.0, constant=1.0)
    known = LowRank(H=10, d=3, actions=5, models=100)
    assert known == LowRank(H=10, d=3, actions=5, models=100, B=1.0, Gamma=1.0, delta=0.05, constant=1.0)


@pytest.mark.parametrize("rates", [KNR, CLASS], ids=["regulator", "low rank"])
@pytest.mark.parametrize("name", ["regret", "violation", "regret_feasibility"])
def test_they_grow_like_the_root_of_the_episodes_up_to_a_logarithm(rates, name):
    T = np.array([1e4, 1e8])
    grown = getattr(rates, name)(T)
    slope = math.log(grown[1] / grown[0]) / math.log(1e4)
    assert 0.5 < slope < 0.6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Regulator(H=0, d=4), "H must be a positive number; got 0"),
        (lambda: Regulator(H=5, d=4, Gamma=-1.0), "Gamma must be a positive number; got -1.0"),
        (lambda: Regulator(H=5, d=4, delta=1.5), "delta must be a probability between 0 and 1; got 1.5"),
        (lambda: Regulator(H=5, d=4, delta=1.0), "delta must be a probability between 0 and 1; got 1.0"),
        (lambda: LowRank(H=5, d=4, actions=2, models=0), "models must be a positive number; got 0"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(bd.ProblemError, match=message):
        make()
