"""Sets of rows and signals on arrival in the exact verifier, by hand and to the last unit."""

from fractions import Fraction

import pytest

from bidual.certificate import verify, verify_numbers, verify_sets, verify_signals
from bidual.certificate.verify import ONE

WIDE = ONE >> 50


def widen(monkeypatch, name, width=WIDE):
    """Enclose a function much more loosely than it is."""
    function = getattr(verify_numbers, name)

    def wide(a):
        low, high = function(a)
        return low - width, high + width

    monkeypatch.setattr(verify_sets, name, wide)


def test_rows_have_a_largest_size():
    verify_sets.check_number(verify_sets.MOST)
    with pytest.raises(verify.NotDecidedError, match="would take long"):
        verify_sets.check_number(verify_sets.MOST + 1)


def test_products_and_multiples_are_rounded_outward():
    low, high = verify_sets.log_product(range(2, 5))
    expected = verify_numbers.ln((24 * ONE, 24 * ONE))
    assert abs(low - expected[0]) + abs(high - expected[1]) < 8
    many = [verify_sets.log(factor) for factor in range(2, 600)]
    low, high = verify_sets.log_product(range(2, 600))
    assert max(abs(low - sum(low for low, _ in many)), abs(high - sum(high for _, high in many))) < 3000
    assert verify_sets.scale(Fraction(1, 3), (4, 10)) == (1, 4)
    assert verify_sets.scale(Fraction(1, 3), (3, 9)) == (1, 3)
    assert verify_sets.divergence([0, 0], 2, (0, 0)) is None


def test_a_ball_is_bounded_by_lower_ends(monkeypatch):
    W = [3 * ONE, ONE, 2 * ONE]
    ball = verify_sets.BallLaws([2, 1], ONE // 8)
    right = ball.minimum(W)
    assert ONE < right < 7 * ONE // 3
    assert verify_sets.BallLaws([2, 1, 0], ONE // 8).minimum(W) == right
    assert verify_sets.BallLaws([2, 1], 60 * ONE).minimum(W) == ONE  # nothing but the least, to the last unit
    assert verify_sets.BallLaws([2, 1], None).minimum(W) == ONE
    assert verify_sets.BallLaws([0, 1, 0], ONE // 8).minimum(W) == ONE
    for name in ("ln", "exp"):
        with monkeypatch.context() as patch:
            widen(patch, name)
            assert right - 40 * WIDE < ball.minimum(W) < right - WIDE // 40


def test_what_a_coin_can_be_is_decided_by_lower_ends(monkeypatch):
    most = 30 * ONE, 30 * ONE
    right = verify_sets.coin_least(5, 20, most)
    widen(monkeypatch, "ln")
    assert right >> 41 < right - verify_sets.coin_least(5, 20, most) < right >> 39


def test_a_coin_is_refuted_by_a_unit(monkeypatch):
    """Where both logarithms are 0 the likelihood ratio is, and the largest that is possible may be a unit below it."""
    monkeypatch.setattr(verify_sets, "ln", lambda _: (0, 0))
    half = ONE // 2
    assert verify_sets.coin_least(1, 1, (0, 0)) == 0
    assert verify_sets.coin_least(1, 1, (-1, -1)) == half - (half >> 100)


def test_beyond_what_was_seen_is_all_but_the_gain():
    assert verify_sets.NearLaws([0, 2], ONE // 4).minimum([0, ONE]) == 3 * ONE // 4
    assert verify_sets.NearLaws([2, 0], ONE // 4).minimum([0, ONE]) == 0
    assert verify_sets.NearLaws([2, 0], 0).minimum([ONE, 0]) == ONE


# Signals.


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (-3, 1), (1, 2), (-2, -1)])
def test_averages_leave_their_ends_by_a_billionth_at_most(low, high):
    one = verify_signals.ObservedSignal.of(0, float(low), float(high), False, False)
    room = Fraction(max(abs(low), abs(high)), 10**9)
    for edge, sign in ((low - room, -1), (high + room, 1)):
        assert one.mean(4 * edge, 4, (0, 0)) == verify.span(edge)
        with pytest.raises(ValueError, match="outside its ends"):
            one.mean(4 * edge + sign * Fraction(1, 10**30), 4, (0, 0))
    assert one.mean(Fraction(0), 4, (0, 0)) == (0, 0)  # of episodes that ended


def test_the_ends_of_a_signal_may_meet():
    assert verify_signals.ObservedSignal.of(0, 1.0, 1.0, False, False).low == 1


H, S, A = 4, 2, 3


def tables(**changed):
    """Of two states and three actions: 0, 1, 2, ... at the first step and 100 more at every later one."""
    values = [float(100 * h + place) for h in range(H) for place in range(S * A * S)]
    arrays = {
        "absorbing": ((S,), [False, False]),
        "stage": ((1, 2, S, A), [0.0] * 12),
        "arrival_0": ((H, S, A, S), values),
        "successors": ((S, A, S), [0, 1] * 6),
        **changed,
    }
    return verify_signals.ArrivalSignals({"arrivals": [1], "observed": []}, arrays, (H, S, A))


def test_tables_pay_what_they_hold():
    found, costs = tables(), {1: (2 * ONE, 2 * ONE)}
    for h in range(H):
        for i in range(S * A):
            for s in range(S):
                assert found.least(h, i, s, costs, False) == 2 * (100 * h + S * i + s) * ONE
    assert found.least(0, 5, 1, {0: (ONE, ONE)}, False) == 0
    assert found.least(0, 5, 1, {1: (ONE, 2 * ONE)}, False) == 11 * ONE
    same = tables(arrival_0=((1, S, A, S), [float(place) for place in range(12)]))
    assert same.least(3, 4, 1, costs, False) == 2 * 9 * ONE


@pytest.mark.parametrize("shape", [(2, S, A, S), (H, S, S, A), (3, S, A, S), (H, A, S, S)])
def test_tables_are_of_one_step_or_of_all(shape):
    with pytest.raises(ValueError, match="do not fit"):
        tables(arrival_0=(shape, [0.0] * 48))


def observed(low, high, *, at_end=False, sums=(0.0, 3.0, 1.5, 9.0), counts=((0, 2), (2, 5)), shape=(2, 1, 2, 1)):
    """Two states with one action: 0 leads to 0 or 1, and 1 is never left; its list has no second."""
    arrays = {
        "absorbing": ((2,), [False, True]),
        "stage": ((1, 1, 2, 1), [0.0, 0.0]),
        "steady": ((1,), [True]),
        "successors": ((2, 1, 2), [0, 1, 1, -1]),
        "sums": (shape, list(sums)),
    }
    header = {"arrivals": [], "observed": [[0, low, high, False, at_end]]}
    found = verify_signals.ArrivalSignals(header, arrays, (4, 2, 1))
    found.learn(arrays, [[0, 1], [1]], [list(row) for row in counts], (0, 0))
    return found


def test_a_least_signal_is_rounded_down():
    cost = {0: (ONE, 2 * ONE)}
    assert observed(-1e-80, 3.0).least(0, 0, 0, cost, False) == -2  # of units of 1e-77, twice
    assert observed(-1.0, 3.0).least(0, 0, 1, cost, False) == 3 * ONE // 2


def test_only_what_is_listed_was_seen():
    found = observed(-1.0, 3.0)
    assert found.seen == [{(0, 1): verify.span(1.5), (1, 1): verify.span(0.75)}]
    with pytest.raises(ValueError, match="sums of signals do not fit"):
        observed(-1.0, 3.0, shape=(2, 2, 1, 1))


@pytest.mark.parametrize("sign", [1, -1])
def test_after_the_end_nothing_is_paid_to_the_last_unit(sign):
    costs = {0: (sign * ONE, sign * ONE)}

    def least(low, high, i, s, **options):
        return observed(low, high, **options).least(0, i, s, costs, False)

    assert least(-1.0, 3.0, 0, 0, at_end=True) == 0
    assert least(-1.0, 3.0, 1, 1, at_end=True) == 0
    assert least(-1.0, 3.0, 0, 1, at_end=True) == sign * 3 * ONE // 2
    assert least(0.5, 3.0, 1, 1) == (0 if sign > 0 else -3 * ONE // 4)
    assert least(0.0, 3.0, 1, 1) == sign * 3 * ONE // 4  # which can be 0 as declared
    assert least(-3.0, -0.5, 1, 1, sums=(0.0, -3.0, -1.5, 0.0)) == (-3 * ONE // 4 if sign > 0 else 0)
