"""The certificate of a policy over finitely many states from its episodes, by hand."""

from dataclasses import replace

import numpy as np
import pytest

import bidual as bd
from bidual.certificate import EstimateRows, Record, Round, Spans, _sampled
from bidual.certificate._estimates import estimate_round, list_image_rows
from bidual.certificate._optimistic import bound_least_over_set
from bidual.certificate._sampled import SampledEvidence, certify_sampled
from bidual.certificate.bounds._range import MARGIN
from bidual.certificate.rounding import EPS
from bidual.world.policies import MarkovPolicy
from tests.learning import beginning
from tests.units.test_estimates import DELTA, ROUND, SEEN, SPANS, curved, program, rows_of

__all__ = ["curved"]  # a fixture
H, S, A = 2, 2, 1
KNOWN = beginning(bd.features.signals(c=np.array([[0.0], [1.0]])), (H, S, A))  # nothing yet: any state may follow
POLICY = MarkovPolicy(np.ones((H, S, A)))
MEANS = np.array([[0.5], [0.5]])


def sampled(**parts):
    given = {"linear": SPANS, "corners": None, "rounds": (ROUND,), "embedding": None, "record": None}
    fixed = {"program": program(), "knowledge": KNOWN, "policy": POLICY, "split": DELTA}
    return SampledEvidence(**{**fixed, **given, **parts})


def test_the_certificate_is_that_of_its_rounds():
    rounds = ROUND, Round(2, SEEN[:7], None, None)
    found = certify_sampled(sampled(rounds=rounds), rows_of(program()))
    first, second = (estimate_round(program(), SPANS, None, DELTA, one) for one in rounds)
    both = first.combine(second)
    assert (found.value, found.upper) == (both.mean[0], both.upper[0])
    assert found.g.tolist() == both.mean[1:].tolist()
    assert found.violations.tolist() == [max(both.mean[1], 0.0), abs(both.mean[2])]
    assert found.violations_upper.tolist() == both.over(np.array([False, True])).tolist()
    assert (found.embedding.shape, found.visits.shape) == ((0, 0), (0, 0))
    assert (found.lower, found.conflict) == (None, None)


def test_without_episodes_there_is_a_guess_or_nothing():
    guess = certify_sampled(sampled(rounds=(), embedding=np.array([[0.5], [0.25]])), rows_of(program()))
    assert (guess.value, guess.g.tolist(), guess.upper) == (1.0, [0.0, 0.25], np.inf)
    nothing = certify_sampled(sampled(rounds=()), rows_of(program()))
    assert np.isnan(nothing.value)
    assert nothing.g.shape == (2,)


def test_a_round_counts_once():
    with pytest.raises(bd.CertificateError, match="two rounds of evaluation have the same number"):
        certify_sampled(sampled(rounds=(ROUND, ROUND)), rows_of(program()))


def test_samples_of_all_that_is_linear_and_of_nothing_else():
    rows = rows_of(program())
    two = EstimateRows(rows.numbers[:2], rows.rows[:2], rows.constants[:2], rows.magnitudes[:2], 1)
    with pytest.raises(bd.CertificateError, match="functional 2 is not linear"):
        certify_sampled(sampled(), two)
    some = Spans(SPANS.numbers[:2], SPANS.low[:2], SPANS.high[:2])
    with pytest.raises(bd.CertificateError, match="no samples of functional 2"):
        certify_sampled(sampled(linear=some, rounds=()), rows)


def ends_of(place):
    """What an episode may pay, and the rounding of its constant."""
    rows = rows_of(program())
    row, magnitude, constant = rows.rows[place], rows.magnitudes[place], float(rows.constants[place])
    laws, pieces = KNOWN.all_supported_laws, KNOWN.pieces
    least, most = (bound_least_over_set(laws, pieces, theta, magnitude, rows.terms) for theta in (row, -row))
    low, high = constant + least.value - least.error, constant - most.value + most.error
    return low, high, 8 * EPS * abs(constant)


def test_what_an_episode_may_pay():
    for place, (low, high) in enumerate([(0.25, 2.25), (-1.0, 1.0), (-0.5, 2.5)]):
        found = ends_of(place)
        assert found[0] == pytest.approx(low, abs=1e-13)
        assert found[1] == pytest.approx(high, abs=1e-13)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("end", ["low", "high"])
def test_ranges_hold_all_that_an_episode_may_pay(place, end):
    """To the very last bit."""
    low, high, room = ends_of(place)
    edge, outward = (low + room, -np.inf) if end == "low" else (high - room, np.inf)
    rows = rows_of(program())
    for share, fails in ((edge, False), (np.nextafter(edge, -outward), True)):
        ends = np.array(getattr(SPANS, end))
        ends[place] = share
        evidence = sampled(linear=SPANS._replace(**{end: ends}), rounds=())
        if not fails:
            certify_sampled(evidence, rows)
            continue
        with pytest.raises(bd.CertificateError, match=f"functional {place} is stated to lie in .* too narrow"):
            certify_sampled(evidence, rows)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("side", [0, 1])
def test_samples_are_of_this_problem(place, side):
    """Beyond what an episode may pay they are none, to the last bit of a billionth of it."""
    low, high, room = ends_of(place)
    low, high = low - room, high + room
    margin = MARGIN * max(abs(low), abs(high))
    edge, outward = (high + margin, np.inf) if side else (low - margin, -np.inf)
    wide = Spans(SPANS.numbers, SPANS.low - 1.0, SPANS.high + 1.0)
    for number, fails in ((edge, False), (np.nextafter(edge, outward), True)):
        values = SEEN.copy()
        values[3, place] = number
        rounds = (ROUND, replace(ROUND, number=2, values=values))
        evidence = sampled(linear=wide, rounds=rounds)
        if not fails:
            certify_sampled(evidence, rows_of(program()))
            continue
        with pytest.raises(bd.CertificateError, match=f"functional {place} is .* but no episode leaves"):
            certify_sampled(evidence, rows_of(program()))


@pytest.mark.parametrize(("step", "row", "slope", "constant"), [(0, 1, 2.0, 1.0), (1, 2, 3.0, 0.5)])
@pytest.mark.parametrize(("sign", "peak"), [(-1.0, 1.0), (1.0, 1.0), (1.0, 4.0)])
def test_two_accounts_of_the_same_episodes_agree(step, row, slope, constant, sign, peak):
    """Up to eight roundings of all that a row may sum, for each of 20 episodes, 2 numbers and 1 term."""
    room = 8 * (20 + 2 + 1) * EPS * (slope * peak + constant)
    known = beginning(bd.features.signals(c=np.array([[0.0], [peak]])), (H, S, A))
    even = Round(1, np.tile([peak + 0.25, peak - 1.0, 1.5 * peak - 0.5], (20, 1)), None, None)  # half of it, twice
    wide = Spans(SPANS.numbers, SPANS.low - 20.0, SPANS.high + 20.0)
    for share, fails in ((0.98, False), (1.02, True)):
        moved = peak * MEANS
        moved[step] += sign * share * room / slope
        evidence = sampled(knowledge=known, linear=wide, rounds=(replace(even, embedding=moved),))
        if not fails:
            certify_sampled(evidence, rows_of(program()))
            continue
        with pytest.raises(bd.CertificateError, match=f"two accounts .* disagree: functional {row} is"):
            certify_sampled(evidence, rows_of(program()))


CURVED = beginning(bd.features.signals(a=np.ones((1, 1))), (2, 1, 1))
NONE = Spans(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


def curved_evidence(curved, **parts):
    """One state that pays 1 in both steps; nothing is linear."""
    k = curved.image.size
    embedding = np.ones((2, 1))
    image = np.tile(np.einsum("rhd,hd->r", list_image_rows(curved).rows, embedding), (4, 1)) + curved.image.offset
    spans = Spans(np.arange(k), image[0] - 1.0, image[0] + 1.0)
    given = {"program": curved, "knowledge": CURVED, "policy": MarkovPolicy(np.ones((2, 1, 1))), "linear": NONE}
    seen = Round(1, np.zeros((4, 0)), image, embedding)
    return sampled(**{**given, "corners": spans, "rounds": (seen,), **parts})


def no_rows(curved):
    rows = list_image_rows(curved)
    return EstimateRows(rows.numbers[:0], rows.rows[:0], rows.constants[:0], rows.magnitudes[:0], 1)


def test_numbers_of_corners_have_ranges_samples_and_means_too(curved):
    good = curved_evidence(curved)
    assert np.isfinite(certify_sampled(good, no_rows(curved)).upper)
    k, (seen,) = curved.image.size, good.rounds
    for place in range(k):
        unit, what = np.eye(k)[place], f"number {place} is"
        narrow = good.corners._replace(high=good.corners.high - 1.5 * unit)
        with pytest.raises(bd.CertificateError, match=f"{what} stated to lie in"):
            certify_sampled(replace(good, corners=narrow), no_rows(curved))
        with pytest.raises(bd.CertificateError, match=f"{what} .* but no episode leaves"):
            certify_sampled(replace(good, rounds=(replace(seen, image=seen.image + 0.5 * unit),)), no_rows(curved))
        with pytest.raises(bd.CertificateError, match=f"disagree: {what}"):
            certify_sampled(replace(good, rounds=(replace(seen, image=seen.image + 5e-12 * unit),)), no_rows(curved))
    without = replace(good, rounds=(replace(seen, image=None),), corners=None)
    assert certify_sampled(without, no_rows(curved)).upper == np.inf


def test_corners_are_of_functions_of_a_few_numbers(curved, monkeypatch):
    with pytest.raises(bd.CertificateError, match="corners bound functions of a few numbers"):
        certify_sampled(sampled(corners=SPANS), rows_of(program()))
    good = curved_evidence(curved)
    monkeypatch.setattr(_sampled, "MOST_NUMBERS", curved.image.size - 1)
    with pytest.raises(bd.CertificateError, match="corners bound functions of a few numbers"):
        certify_sampled(good, no_rows(curved))


@pytest.mark.parametrize(
    ("weight", "bound", "lower", "conflict"),
    [
        (1.0, -2.5, -2.5, None),
        (1.0, None, None, None),
        (1.0, -np.inf, None, None),
        (0.0, 0.5, None, 0.5),
        (0.0, 0.0, None, None),
        (0.0, -0.5, None, None),
    ],
)
def test_the_bound_on_all_policies_is_that_of_the_record(monkeypatch, weight, bound, lower, conflict):
    record = Record(np.zeros(2), weight)
    monkeypatch.setattr(_sampled, "lower_bound", lambda *_: bound)
    found = certify_sampled(sampled(record=record), rows_of(program()))
    assert (found.lower, found.conflict) == (lower, conflict)
    for changed in ("certifies", "record", "consistent"):
        evidence = sampled(record=record)
        with monkeypatch.context() as patch:
            if changed == "certifies":
                patch.setattr(type(KNOWN), "certifies", False)
            elif changed == "record":
                evidence = sampled(record=None)
            else:
                patch.setattr(type(KNOWN.counts), "signals_consistent", False)
            found = certify_sampled(evidence, rows_of(program()))
        assert (found.lower, found.conflict) == (None, None)


def test_resolutions_are_of_the_record(monkeypatch):
    monkeypatch.setattr(_sampled, "lower_bound", lambda *_: 0.0)
    free = certify_sampled(sampled(), rows_of(program()))
    priced = certify_sampled(sampled(record=Record(np.array([2.0, -3.0]), 1.0)), rows_of(program()))
    sizes = np.maximum(np.abs(SPANS.low), np.abs(SPANS.high))
    assert free.resolution.lower == pytest.approx(1e-12 * sizes[0])
    assert priced.resolution.lower == pytest.approx(1e-12 * sizes @ [1.0, 2.0, 3.0])
