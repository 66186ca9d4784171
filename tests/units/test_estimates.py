"""Estimates from episodes, and the certificate of a policy of controls, by hand."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate import ControlEvidence, Record, Round, Spans, _controlled, bounds, certify_controlled
from bidual.certificate import _estimates as estimates
from bidual.certificate._estimates import EstimateRows, Estimates, bound_over_box, estimate_round, list_image_rows
from bidual.certificate.bounds import Split
from bidual.certificate.bounds._range import MARGIN
from bidual.certificate.rounding import EPS
from bidual.models.regression._linear_laws import LinearLaws
from bidual.problem.convex import AffineProgram
from bidual.problem.features import Observed, Pieces
from bidual.solving.search import bind

DELTA = Split(0.1)
RNG = np.random.default_rng(0)


def exactly(expected):
    return pytest.approx(expected, rel=1e-9, abs=0.0)


def program(equality=(False, True)):
    """f pays 1 for the signal of either step, g 2 of the first - 1 and 3 of the second - 0.5."""
    return AffineProgram(
        objective=np.ones((2, 1)),
        offset=0.25,
        rows=np.array([[[2.0], [0.0]], [[0.0], [3.0]]]),
        limits=np.array([1.0, 0.5]),
        equality=np.array(equality),
        units=np.ones(2),
        resolution=np.zeros(2),
    )


def rows_of(one):
    rows, constants = one.functionals()
    return EstimateRows(np.arange(len(rows)), rows, constants, np.abs(rows), 1)


LOW, HIGH = np.array([0.25, -1.0, -0.5]), np.array([2.25, 1.0, 2.5])  # signals are in [0, 1]
SPANS = Spans(np.arange(3), LOW - 1e-7, HIGH + 1e-7)
SEEN = LOW + (HIGH - LOW) * RNG.random((20, 3))
ROUND = Round(1, SEEN, None, None)


def test_rounds_are_extended_with_their_means_by_size():
    first = Round(1, np.zeros((1, 2)), np.ones((1, 3)), np.full((2, 1), 8.0), policy="p")
    both = first.extend(Round(1, np.ones((3, 2)), np.zeros((3, 3)), np.full((2, 1), 4.0)))
    assert both.values.tolist() == [[0, 0], [1, 1], [1, 1], [1, 1]]
    assert both.image is not None
    assert both.image.shape == (4, 3)
    assert both.embedding is not None
    assert both.embedding.tolist() == [[5.0], [5.0]]
    assert both.policy == "p"
    for missing in (replace(first, image=None), replace(first, embedding=None)):
        for one in (first.extend(missing), missing.extend(first)):
            assert (one.image is None) == (missing.image is None)
            assert (one.embedding is None) == (missing.embedding is None)


def test_two_estimates_give_the_better_bounds():
    one = Estimates(np.array([2.0]), np.array([0.0]), np.array([2.0]), 30, (ROUND,))
    other = Estimates(np.array([6.0]), np.array([-1.0]), np.array([1.5]), 10, (ROUND,))
    both = one.combine(other)
    assert (both.mean.tolist(), both.lower.tolist(), both.upper.tolist()) == ([3.0], [0.0], [1.5])
    assert (both.episodes, len(both.rounds)) == (40, 2)
    nothing = Estimates.unbounded(np.array([9.0]), 0)
    assert nothing.combine(one) is one
    better = Estimates(np.array([1.0]), np.array([0.5]), np.array([1.0]), 1)
    assert (one.combine(better).lower.tolist(), better.combine(one).lower.tolist()) == ([0.5], [0.5])
    assert (nothing.lower.tolist(), nothing.upper.tolist()) == ([-np.inf], [np.inf])


def test_other_bounds_narrow_and_contradictions_are_named():
    one = Estimates(np.array([1.0, 1.0]), np.array([0.0, 0.0]), np.array([2.0, 2.0]), 30)
    found = one.narrow(np.array([9.0, -9.0]), np.array([1.0, -1.0]), np.array([3.0, 1.0]))
    assert (found.mean.tolist(), found.lower.tolist(), found.upper.tolist()) == ([2, 0], [1, 0], [2, 1])
    one.narrow(one.mean, np.array([2.0, 0.0]), np.array([3.0, 0.0]))  # ends may meet
    for low, high, what in (([2.1, 0.0], [3.0, 1.0], "the objective"), ([0.0, -2.0], [1.0, -0.1], "row 1")):
        with pytest.raises(bd.EnvError, match=f"{what} .* is between 0 and 2, but the candidates .* allow"):
            one.narrow(one.mean, np.array(low), np.array(high))


def test_violations_of_equalities_are_bounded_from_both_sides():
    one = Estimates(np.zeros(5), np.array([0.0, -3, -3, -3, 1]), np.array([0.0, 2, 2, -1, 2]), 1)
    assert one.over(np.array([False, True, False, False])).tolist() == [2.0, 3.0, 0.0, 2.0]
    assert one.over(np.array([True, True, True, True])).tolist() == [3.0, 3.0, 3.0, 2.0]


@pytest.mark.parametrize("uniform", [False, True])
def test_a_round_is_an_interval_for_every_functional(uniform):
    seen = replace(ROUND, number=2, uniform=uniform)
    found = estimate_round(program(), SPANS, None, DELTA, seen)
    low, high = DELTA.evaluation(2, 3)
    for i, samples in enumerate(SEEN.T):
        ends = float(SPANS.low[i]), float(SPANS.high[i])
        assert found.mean[i] == samples.mean()
        assert found.lower[i] == bounds.lower(samples, *ends, low, uniform=uniform)
        assert found.upper[i] == bounds.upper(samples, *ends, high, uniform=uniform)
    assert found.episodes == 20
    some = Spans(np.array([1]), SPANS.low[1:2], SPANS.high[1:2])
    part = estimate_round(program(), some, None, DELTA, replace(ROUND, values=SEEN[:, 1:2]))
    alone = bounds.upper(SEEN[:, 1], -1 - 1e-7, 1 + 1e-7, DELTA.evaluation(1, 1)[1])
    assert part.upper.tolist() == [np.inf, alone, np.inf]


@pytest.fixture(scope="module")
def curved():
    """|(y0, y1)| with the square of y0 at most 4, over two numbers: what is paid in all, and twice that."""
    mdp = bd.TabularMDP(np.ones((1, 1, 1)), 0, 2)
    x = mdp.embedding(a=np.ones((1, 1)))
    y = cp.sum(x.a)
    problem = bd.Problem(cp.Minimize(cp.norm(cp.hstack([y - 1.0, -2 * y]))), {"square": cp.square(y) <= 4})
    found = bind(problem, mdp)[0].curved
    assert found is not None
    return found


def test_curved_functions_are_worst_at_a_corner(curved, monkeypatch):
    """A billionth is added for the evaluation, of the value or of 1."""
    k = curved.image.size
    ends = [(-1.0, 3.0)] * k
    values = [np.append(*curved.functions.values(np.full(k, y), np.zeros(0))) for y in (-1.0, 3.0)]
    _, found = bound_over_box(curved, ends)
    assert np.all(found >= np.max(values, axis=0))
    corners = [np.append(*curved.functions.values(np.array(y), np.zeros(0))) for y in np.ndindex(*(2,) * k)]
    _, zero = bound_over_box(curved, [(0.0, 1.0)] * k)
    worst = np.max(corners, axis=0)
    assert zero - worst == pytest.approx(1e-9 * np.maximum(1.0, np.abs(worst)), rel=1e-5)
    monkeypatch.setattr(type(curved.functions), "values", lambda *_: (np.nan, np.array([2.0])))
    assert bound_over_box(curved, ends)[1].tolist() == [np.inf, 2.0 + 2e-9]


def test_corners_share_the_whole_of_what_is_left(curved):
    k = curved.image.size
    image, spans = RNG.random((25, k)), Spans(np.arange(k), np.zeros(k), np.ones(k))
    none = Spans(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    mean = np.array([[0.3], [0.4]])
    seen = Round(1, np.zeros((25, 0)), image, mean)
    found = estimate_round(curved, none, spans, DELTA, seen)
    delta = sum(DELTA.evaluation(1, 1))
    ends = [bounds.interval(column, 0.0, 1.0, delta / k, uniform=False) for column in image.T]
    assert found.upper.tolist() == bound_over_box(curved, ends)[1].tolist()
    assert found.mean.tolist() == np.append(*curved.at(mean)).tolist()
    free = estimate_round(curved, none, spans, DELTA, replace(seen, uniform=True))
    ends = [bounds.interval(column, 0.0, 1.0, delta / k, uniform=True) for column in image.T]
    assert free.upper.tolist() == bound_over_box(curved, ends)[1].tolist()
    _, one_length = estimates.bound_at_worst_corner(curved, spans, image, delta)
    assert one_length.tolist() == found.upper.tolist()
    for other in (replace(seen, image=None), seen):
        corners = None if other is seen else spans
        assert estimate_round(curved, none, corners, DELTA, other).upper.tolist() == [np.inf, np.inf]
    one = Spans(np.array([0]), np.zeros(1), np.ones(1))
    both = estimate_round(curved, one, spans, DELTA, replace(seen, values=image[:, :1]))
    low, high = DELTA.evaluation(1, 2)  # the corners count as one functional
    assert both.lower[0] == bounds.lower(image[:, 0], 0.0, 1.0, low)
    assert both.upper[0] == bounds.upper(image[:, 0], 0.0, 1.0, high)


def test_images_are_rows_of_the_embedding(curved):
    rows = list_image_rows(curved)
    embedding = np.array([[0.3], [0.4]])
    values = np.einsum("rhd,hd->r", rows.rows, embedding) + rows.constants
    assert values == pytest.approx(curved.image.matrix @ embedding.ravel() + curved.image.offset)
    assert (rows.numbers.tolist(), rows.terms) == (list(range(curved.image.size)), 1)
    assert np.array_equal(rows.magnitudes, np.abs(rows.rows))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 4.0), (-4.0, 1.0)])
def test_samples_leave_no_range_beyond_a_billionth_of_its_larger_end(low, high):
    inside = np.array([low - 3.9e-9, high + 3.9e-9])
    estimates.check_samples("number", 3, inside, low, high)
    estimates.check_samples("number", 3, np.array([low - MARGIN * 4, high + MARGIN * 4]), low, high)
    for number in (low - 4.1e-9, high + 4.1e-9, np.nan):
        with pytest.raises(bd.CertificateError, match=r"number 3 is .* in an episode, but no episode leaves"):
            estimates.check_samples("number", 3, np.append(inside, number), low, high)


def test_resolutions_are_of_the_halvings_and_the_sums():
    """Four steps of 2^-33 of the interval and 16 roundings of its ends; 1e-12 of all that the record sums."""
    mean, gamma = np.array([3.0, -4.0, np.nan]), np.array([2.0, -5.0])
    spans = Spans(np.array([0, 2]), np.array([-7.0, 1.0]), np.array([2.0, 9.0]))
    found = estimates.compute_resolution(program(), spans, mean, gamma)
    assert found.value == exactly(4 * 2.0**-33 * 9 + 16 * EPS * 7)
    assert found.g == exactly([1e-9 * 4, 4 * 2.0**-33 * 8 + 16 * EPS * 9])
    assert found.lower == exactly(1e-12 * (7 + 2 * 4 + 5 * 9))
    assert estimates.compute_resolution(program(), spans, mean, np.zeros(3)).lower == exactly(1e-12 * 7)


# Policies of controls.


def controls(**parts):
    pieces = Pieces(np.zeros((1, 1, 1, 1)), observed=((0, Observed(lambda: 0.0, 0.0, 1.0)),))
    given = {"linear": SPANS, "corners": None, "rounds": (ROUND,), "embedding": None, "record": None, "laws": None}
    return ControlEvidence(**{"program": program(), "pieces": pieces, "split": DELTA, **given, **parts})


def test_the_certificate_of_controls_is_that_of_its_rounds():
    rounds = ROUND, Round(2, SEEN[:7], None, None)
    found = certify_controlled(controls(rounds=rounds), rows_of(program()))
    first, second = (estimate_round(program(), SPANS, None, DELTA, one) for one in rounds)
    both = first.combine(second)
    assert found.value == both.mean[0]
    assert found.upper == both.upper[0]
    assert found.g.tolist() == both.mean[1:].tolist()
    assert found.violations.tolist() == [max(both.mean[1], 0), abs(both.mean[2])]
    assert found.violations_upper.tolist() == both.over(program().equality).tolist()
    assert (found.lower, found.conflict) == (None, None)
    assert found.embedding.shape == found.visits.shape == (0, 0)
    assert found.resolution is not None
    assert found.resolution.lower == exactly(1e-12 * (2.25 + 1e-7))
    gamma = certify_controlled(controls(record=Record(np.array([2.0, 0.0]), 1.0)), rows_of(program()))
    assert gamma.resolution is not None
    assert gamma.resolution.lower == exactly(1e-12 * (2.25 + 1e-7 + 2 * (1 + 1e-7)))


def test_without_episodes_there_is_a_guess_or_nothing():
    guess = certify_controlled(controls(rounds=(), embedding=np.array([[0.5], [0.25]])), rows_of(program()))
    assert (guess.value, guess.g.tolist(), guess.upper) == (1.0, [0.0, 0.25], np.inf)
    nothing = certify_controlled(controls(rounds=()), rows_of(program()))
    assert np.isnan(nothing.value)
    assert nothing.g.shape == (2,)


def test_a_round_counts_once():
    with pytest.raises(bd.CertificateError, match="two rounds of evaluation have the same number"):
        certify_controlled(controls(rounds=(ROUND, ROUND)), rows_of(program()))


def test_samples_outside_their_ranges_prove_nothing():
    with pytest.raises(bd.CertificateError, match="the samples prove nothing"):
        certify_controlled(controls(rounds=(Round(1, SEEN + 9.0, None, None),)), rows_of(program()))


def test_samples_of_a_curved_function_prove_nothing():
    rows = rows_of(program())
    two = EstimateRows(rows.numbers[:2], rows.rows[:2], rows.constants[:2], rows.magnitudes[:2], 1)
    with pytest.raises(bd.CertificateError, match="functional 2 is not linear"):
        certify_controlled(controls(), two)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("end", ["low", "high"])
def test_ranges_hold_all_that_signals_can_pay(place, end):
    """To the very last bit beyond a billionth, and eight roundings of the constant."""
    pieces, rows = controls().pieces, rows_of(program())
    least, most = pieces.span(rows.rows[place][None])
    constant = float(rows.constants[place])
    room = 8 * EPS * abs(constant)
    edge = float(least[0]) + constant + room if end == "low" else float(most[0]) + constant - room
    outward = -np.inf if end == "low" else np.inf
    for share, fails in ((edge, False), (np.nextafter(edge, -outward), True)):
        ends = np.array(getattr(SPANS, end))
        ends[place] = share
        evidence = controls(linear=SPANS._replace(**{end: ends}), rounds=())
        if not fails:
            certify_controlled(evidence, rows)
            continue
        with pytest.raises(bd.CertificateError, match=f"functional {place} is stated to lie in .* too narrow"):
            certify_controlled(evidence, rows)
    ends[place] = outward
    with pytest.raises(bd.CertificateError, match="too narrow"):
        certify_controlled(controls(linear=SPANS._replace(**{end: ends}), rounds=()), rows)


def test_numbers_of_corners_have_ranges_too(curved):
    k = curved.image.size
    none, rows = Spans(np.zeros(0, np.int64), np.zeros(0), np.zeros(0)), list_image_rows(curved)
    empty = EstimateRows(rows.numbers[:0], rows.rows[:0], rows.constants[:0], rows.magnitudes[:0], 1)
    for high, fails in ((9.0, False), (0.5, True)):
        corners = Spans(np.arange(k), np.full(k, -9.0), np.full(k, high))
        evidence = controls(program=curved, linear=none, corners=corners, rounds=())
        if not fails:
            certify_controlled(evidence, empty)
            continue
        with pytest.raises(bd.CertificateError, match="number 0 is stated to lie in"):
            certify_controlled(evidence, empty)


@pytest.mark.parametrize(
    ("weight", "laws", "bound", "found"),
    [
        (1.0, True, -2.5, -2.5),
        (0.0, True, -2.5, None),
        (1.0, False, -2.5, None),
        (1.0, True, None, None),
        (1.0, True, -np.inf, None),
    ],
)
def test_the_bound_on_all_policies_is_that_of_the_record(monkeypatch, weight, laws, bound, found):
    record, known = Record(np.zeros(2), weight), object.__new__(LinearLaws) if laws else None
    monkeypatch.setattr(_controlled, "lower_bound", lambda *_: bound)
    assert certify_controlled(controls(record=record, laws=known), rows_of(program())).lower == found
    assert certify_controlled(controls(record=None, laws=known), rows_of(program())).lower is None
