"""Bounds over a class of laws, by hand: which laws, how many combinations, and every slack."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate import EstimateRows, Estimates, _class, _within
from bidual.certificate._class import bound_least_over_class, select_laws
from bidual.certificate._within import bound_extreme_values, narrow_by_class
from bidual.certificate.rounding import EPS
from bidual.models import Factors, Plausible
from bidual.models.counts._counts import start_counts
from bidual.models.counts._support import read_support
from bidual.problem.features import Observed, Pieces
from bidual.world.policies import MarkovPolicy
from tests.classes import random_case
from tests.learning import beginning

NOBODY = np.zeros(0, dtype=np.int64)


def exactly(expected):
    return pytest.approx(expected, rel=1e-9, abs=0.0)


def build(laws, initial, allowed=None, observed=0):
    """A class from its laws (k, S, A, S) of every step; phi is the indicator of state and action."""
    S, A = laws[0].shape[1:3]
    phi = np.eye(S * A).reshape(1, S, A, S * A)
    allowed = np.ones((S, A), dtype=bool) if allowed is None else allowed
    support = read_support(np.broadcast_to(np.arange(S), (S, A, S)), NOBODY, allowed)
    return Plausible(
        factors=tuple(Factors(phi, one.reshape(len(one), S * A, S)) for one in laws),
        inside=np.ones((len(laws), max(map(len, laws))), dtype=bool),
        best=np.zeros(len(laws), dtype=np.int64),
        counts=start_counts(support, np.zeros(observed, dtype=bool), len(laws)),
        initial=initial,
        delta=0.1,
        log_share=float(np.log(10 * len(laws))),
    )


def changed(model, **parts):
    return type(model)(**{**{name: getattr(model, name) for name in model.__dataclass_fields__}, **parts})


HALVES = np.array([0.5, 0.5])
STAY, SWAP = np.eye(2)[:, None], np.eye(2)[::-1][:, None]  # laws of one action
MIXED = np.full((2, 1, 2), 0.5)


def test_laws_of_a_step_are_those_that_may_be_true():
    case = random_case(0, counts=(2, 3), horizon=2)
    inside = np.array([[0, 1, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]], dtype=bool)  # a seventh has no law
    model, factors = changed(case.model, inside=inside), case.model.factors[0]
    found = select_laws(model, 0, only=False).dense
    assert found == pytest.approx(factors.laws(np.array([1, 4, 5])), rel=1e-14)
    assert select_laws(model, 0, only=True).dense == pytest.approx(factors.laws(np.array([1])), rel=1e-14)
    with pytest.raises(bd.CertificateError, match="no candidate of step 2 is left"):
        select_laws(model, 1, only=False)


def test_defects_of_candidates_as_laws(monkeypatch):
    """What a row lacks of 1, twice what is negative, and 4 + d roundings of its terms; of allowed actions alone."""
    d, large = 4, 2.0**-20
    monkeypatch.setattr(_class, "EPS", large)
    good = np.array([[[1.0, 0.0], [5.0, 5.0]], [[0.5, 0.5], [0.0, 1.0]]])
    allowed = np.array([[True, False], [True, True]])
    lacking, beyond, negative = good.copy(), good.copy(), good.copy()
    lacking[1, 0], beyond[1, 0], negative[1, 0] = [0.5, 0.25], [0.5, 0.75], [1.25, -0.25]
    for law, missing, size in ((good, 0, 1), (lacking, 0.25, 0.75), (beyond, 0.25, 1.25), (negative, 0.5, 1.5)):
        for laws in ([law], [good, law]):
            model = build([np.array(laws)], HALVES, allowed)
            assert select_laws(model, 0, only=False).defect == exactly(missing + (d + 4) * large * size)
    model = build([np.array([good])], HALVES, allowed)
    factors = Factors(-model.factors[0].phis, -model.factors[0].mus)
    assert select_laws(changed(model, factors=(factors,)), 0, only=False).defect == exactly((d + 4) * large)


def test_the_slack_of_sums_by_hand():
    """What only an action pays that is not allowed counts in no value."""
    allowed = np.array([[True, False], [True, True]])
    stage = np.zeros((1, 3, 2, 2))
    stage[0, 1, 0, 1] = -4.0
    law = np.full((1, 2, 2, 2), 0.5)
    theta = np.ones((3, 3))
    for terms in (1, 5):
        found = bound_least_over_class(
            build([law] * 3, HALVES, allowed), Pieces(stage), theta, 2 * np.abs(theta), terms
        )
        assert found.value == 0
        assert found.error == exactly((3 * (6 * 2 + 2 + 8) + 3 + terms + 4) * EPS * 3 * 2 * 4)


def test_a_defect_costs_what_follows_and_what_is_paid_on_arrival():
    """Laws that lack a quarter of 1; what is not known of a signal on arrival is its cheaper end."""
    short = np.full((1, 2, 1, 2), 0.375)
    stage = np.zeros((1, 2, 2, 1))
    stage[0, 0] = [[-3.0], [2.0]]
    model = build([short, short], HALVES, observed=1)
    cases = (2.0, -5.0, 4.0, -5.0 * 2 * 0.75, 10.0), (-1.0, -5.0, 4.0, -4.0 * 0.75, 5.0), (-1.0, -4.0, 5.0, -3.75, 5.0)
    for t, low, high, paid, largest in cases:
        pieces = Pieces(stage, observed=((1, Observed(lambda _: 0.0, low, high)),))
        theta = np.array([[0.0, t], [1.0, 0.0]])
        found = bound_least_over_class(model, pieces, theta, np.abs(theta), 1)
        assert found.value == 0.375 * -1 + paid
        defect = 0.25 + (2 + 4) * EPS * 0.75
        sums = (2 * (6 + 2 + 8) + 2 + 1 + 4) * EPS * (3 + abs(t) * 5)
        assert found.error == pytest.approx(defect * (3 + largest) + sums, rel=1e-13)


def test_a_defect_costs_the_largest_signal_on_arrival():
    short = np.full((1, 2, 1, 2), 0.375)
    pieces = Pieces(np.zeros((1, 1, 2, 1)), ((0, np.array([[[[1.0, 2.0]], [[3.0, -4.0]]]])),))
    found = bound_least_over_class(build([short], HALVES), pieces, np.ones((1, 1)), np.ones((1, 1)), 1)
    assert found.error == pytest.approx(0.25 * 4, rel=1e-12)


def test_signals_on_arrival_at_the_last_step_count_with_its_law():
    late = np.array([[[[0.25, 0.75]], [[1.0, 0.0]]], [[[0.75, 0.25]], [[0.0, 1.0]]]])
    pieces = Pieces(np.zeros((1, 1, 2, 1)), ((0, np.array([[[[1.0, 2.0]], [[3.0, 4.0]]]])),))
    theta = np.ones((1, 1))
    found = bound_least_over_class(build([late], HALVES), pieces, theta, theta, 1)
    assert found.value == 0.5 * 1.75 + 0.5 * 3.0  # of the first: the second pays 0.5 * 1.25 + 0.5 * 4
    one = changed(build([late], HALVES), inside=np.array([[False, True]]))
    assert bound_least_over_class(one, pieces, theta, theta, 1).value == 0.5 * 1.25 + 0.5 * 4.0


def pay(*values):
    """A signal of two states with one action."""
    return Pieces(np.array(values)[None, None, :, None])


def three_steps():
    """Two laws at both steps: states stay where they are or change places; only the last step pays.

    Both states pay the same in all combinations, and the cheaper one if each has a law of its own.
    """
    laws = np.stack([STAY, SWAP])
    theta = np.array([[0.0], [0.0], [1.0]])
    return build([laws, laws, laws], HALVES), pay(1.0, 3.0), theta


@pytest.mark.parametrize(
    ("most", "large", "value"),
    [(4, 10**6, 2.0), (2, 10**6, 2.0), (1, 10**6, 1.0), (4, 4 * 2, 2.0), (4, 4 * 2 - 1, 1.0), (0, 10**6, 1.0)],
)
def test_different_values_are_followed_up_to_a_number(monkeypatch, most, large, value):
    monkeypatch.setattr(_class, "_MOST", most)
    monkeypatch.setattr(_class, "_LARGE", large)
    model, pieces, theta = three_steps()
    assert bound_least_over_class(model, pieces, theta, theta, 1).value == value
    table = np.ones((3, 2, 1))
    assert bound_least_over_class(model, pieces, theta, theta, 1, table).value == value


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("actions", [1, 3])
def test_values_are_relaxed_after_a_step_that_has_too_many(monkeypatch, count, actions):
    """For both states may be the cheaper one then; what the mixed laws make of each combination is 2, and one value."""
    model, _, theta = three_steps()
    laws = [np.repeat(one, actions, axis=2) for one in (np.stack([MIXED] * count), np.stack([STAY, SWAP]))]
    model = build([laws[0], laws[1], laws[1]], HALVES)
    pieces = Pieces(np.repeat(pay(1.0, 3.0).stage, actions, axis=3))
    size = 2 * actions * 2
    for most, large, value in ((2 * count, 10**6, 2.0), (2, 10**6, 2.0), (1, 10**6, 1.0)):
        monkeypatch.setattr(_class, "_MOST", most)
        monkeypatch.setattr(_class, "_LARGE", large)
        assert bound_least_over_class(model, pieces, theta, theta, 1).value == value
    monkeypatch.setattr(_class, "_MOST", 10**6)
    for large, value in ((1, 1.0), (size * 2 * count, 2.0), (size * 2, 2.0), (size * 2 - 1, 1.0)):
        monkeypatch.setattr(_class, "_LARGE", large)
        assert bound_least_over_class(model, pieces, theta, theta, 1).value == value


def test_vectors_above_others_are_dropped_by_hand(monkeypatch):
    """The order is by sums; ties within `tie` go to the first, and vectors that are below somewhere stay."""
    V = np.array([[1.0, 3.0], [3.0, 1.0], [3.0, 2.0], [1.0, 3.0 + 1e-9], [0.9, 4.0], [2.0, 2.5]])
    kept = _class.drop_dominated(V, 1e-6)
    assert kept.tolist() == [[1.0, 3.0], [3.0, 1.0], [2.0, 2.5], [0.9, 4.0]]
    assert _class.drop_dominated(V, 0.0).tolist() == kept.tolist()
    lower = np.array([[1.0, 3.0], [1.0 - 1e-9, 3.0 + 1e-8]])
    assert len(_class.drop_dominated(lower, 1e-6)) == 1
    assert len(_class.drop_dominated(lower, 1e-10)) == 2
    monkeypatch.setattr(_class, "_LEADERS", 1)
    assert _class.drop_dominated(V, 0.0).tolist() == [[1.0, 3.0], [3.0, 1.0], [2.0, 2.5], [0.9, 4.0], [3.0, 2.0]]


def test_what_ties_lose_is_part_of_the_error(monkeypatch):
    """Of three steps the last two have more combinations than room: each may lose 64 roundings of the value 3."""
    model, pieces, theta = three_steps()
    exact = bound_least_over_class(model, pieces, theta, theta, 1)
    monkeypatch.setattr(_class, "_MOST", 2)
    found = bound_least_over_class(model, pieces, theta, theta, 1)
    assert found.value == exact.value
    assert found.error == pytest.approx(exact.error + 64 * EPS * 3, rel=1e-9, abs=0.0)


def test_a_start_law_is_the_worst_within_its_ball():
    model, pieces, theta = three_steps()
    known = bound_least_over_class(changed(model, initial=np.array([0.25, 0.75])), pieces, theta, theta, 1)
    assert known.value == 1.5
    spread, sums = 2.0, (3 * (6 + 2 + 8) + 1 + 1 + 4) * EPS * 3
    defect = (2 + 4) * EPS
    assert known.error == pytest.approx(2 * defect * 3 + 8 * EPS * spread + 4 * EPS + sums, rel=1e-9, abs=0.0)
    assert bound_least_over_class(changed(model, initial=None), pieces, theta, theta, 1).value == 1.0
    with pytest.raises(bd.CertificateError, match="NaN or infinity"):
        bound_least_over_class(model, pieces, theta * np.nan, theta, 1)


def test_the_slack_of_a_start_is_that_of_the_worst_combination():
    """After one law states are worth 1 and 3, after the other both 2: of an average over these less is lost."""
    theta = np.array([[0.0], [1.0]])
    model = build([np.stack([STAY, MIXED]), MIXED[None]], HALVES)
    found = bound_least_over_class(model, pay(1.0, 3.0), theta, theta, 1)
    sums = (2 * (6 + 2 + 8) + 1 + 1 + 4) * EPS * 3
    lost = 8 * EPS * 2 + 4 * EPS * 1
    assert found.error == pytest.approx((2 + 4) * EPS * 3 + lost + sums, rel=1e-9, abs=0.0)


# Bounds on a given policy.


def curve(H=3):
    """The square of what the last step pays less 2, with a linear limit on the first."""
    x = bd.features.signals(c=np.zeros((2, 1))).embedding(H)
    return bd.Problem(cp.Minimize(cp.square(x.c[H - 1] - 2.0) + 3.0), {"limit": x.c[0] <= 1.0}).program()


NONE = EstimateRows(NOBODY, np.zeros((0, 3, 1)), np.zeros(0), np.zeros((0, 3, 1)), 0)
TABLE = np.ones((3, 2, 1))


def rows_of_the_last():
    """What the last step pays and 0.5, as f; and -7 as g."""
    rows = np.array([[[0.0], [0.0], [1.0]], [[0.0], [0.0], [0.0]]])
    return EstimateRows(np.array([0, 1]), rows, np.array([0.5, -7.0]), rows, 1)


def at_first():
    """The class of three steps, from the first state."""
    model, pieces, theta = three_steps()
    return changed(model, initial=np.array([1.0, 0.0])), pieces, theta


def test_linear_functionals_lie_between_their_extremes():
    model, pieces, theta = at_first()
    low, high = _within._enclose_linear(rows_of_the_last(), TABLE, model, pieces)
    least = bound_least_over_class(model, pieces, theta, theta, 1, TABLE)
    most = bound_least_over_class(model, pieces, -theta, theta, 1, TABLE)
    assert (least.value, most.value) == (1.0, -3.0)
    assert low[0] == 1.5 - least.error - 4 * EPS
    assert high[0] == 3.5 + most.error + 4 * EPS
    assert (low[1], high[1]) == (-7 - 56 * EPS, -7 + 56 * EPS)


def test_the_tighter_of_two_bounds_counts():
    """f is 4 or 4 at the ends of 1 and 3, g is 0 and no more; the linear functionals say less of one or the other."""
    model, pieces, _ = at_first()
    lower, upper = bound_extreme_values(curve(), NONE, TABLE, model, pieces)
    assert lower == pytest.approx([4.0, 0.0], abs=1e-8)
    assert upper == pytest.approx([4.0, 0.0], abs=1e-8)
    wide = rows_of_the_last()._replace(constants=np.array([0.5, 1e-3]))
    low, high = bound_extreme_values(curve(), wide, TABLE, model, pieces)
    assert low.tolist() == [lower[0], pytest.approx(1e-3, rel=1e-9)]
    assert high.tolist() == [pytest.approx(3.5, rel=1e-9), upper[1]]
    second = EstimateRows(wide.numbers[1:], wide.rows[1:], wide.constants[1:], wide.magnitudes[1:], 1)
    assert bound_extreme_values(curve(), second, TABLE, model, pieces)[1].tolist() == upper.tolist()


def test_without_functionals_nothing_is_bounded():
    """Of a linear problem; with a variable of its own, functions are bounded at the best values of that."""
    model, pieces, _ = at_first()
    x = bd.features.signals(c=np.zeros((2, 1))).embedding(3)
    linear = bd.Problem(cp.Minimize(cp.sum(x.c)), {"limit": x.c[0] <= 1.0, "other": x.c[1] <= 1.0})
    t = cp.Variable()
    own = bd.Problem(cp.Minimize(cp.square(t)), {"limit": cp.square(x.c[0]) <= t})
    lower, upper = bound_extreme_values(linear.program(), NONE, TABLE, model, pieces)
    assert (lower.tolist(), upper.tolist()) == ([-np.inf] * 3, [np.inf] * 3)
    lower, upper = bound_extreme_values(own.program(), NONE, TABLE, model, pieces)
    assert lower.tolist() == [-np.inf] * 2
    assert np.isfinite(upper[0])  # c is 0 in the problem's own units, and some number in these pieces
    assert upper[1] == 0.0  # t can be as large as it takes


def test_estimates_are_narrowed_by_the_laws_that_may_be_true(monkeypatch):
    model, pieces, _ = at_first()
    known = beginning(bd.features.signals(c=np.array([[1.0], [3.0]])), (3, 2, 1))
    seen = Estimates(np.array([3.0, -6.0]), np.array([0.0, -9.0]), np.array([9.0, 0.0]), 5)
    given = seen, curve(), rows_of_the_last(), MarkovPolicy(TABLE), known
    assert narrow_by_class(*given, None) is seen
    monkeypatch.setattr(type(known), "find_policy_laws", lambda _: model)
    linear = cp.sum(bd.features.signals(c=np.zeros((2, 1))).embedding(3).c)
    program = bd.Problem(cp.Minimize(linear), {"limit": linear <= 1.0}).program()
    low, high = bound_extreme_values(program, rows_of_the_last(), TABLE, model, pieces)
    for embedding, mean in ((None, 3.0), (np.array([[0.5], [0.5], [1.0]]), 2.0)):
        found = narrow_by_class(seen, program, *given[2:], embedding)
        assert (found.lower.tolist(), found.upper.tolist()) == (low.tolist(), high.tolist())
        assert found.mean[0] == mean


def combined(monkeypatch, model, pieces, program=None, table=TABLE):
    """Whether functions are evaluated under all combinations."""
    calls = []
    monkeypatch.setattr(_within, "_bound_over_combinations", lambda *_: calls.append(1) or (np.zeros(2), np.ones(2)))
    lower, upper = _within._bound_curved((program or curve()).curved, table, model, pieces)
    assert calls or np.all(lower == -np.inf)
    return bool(calls), upper


def test_combinations_are_evaluated_where_they_are_few(monkeypatch):
    model, pieces, _ = at_first()
    for actions in (1, 3):
        work = 4 * 3 * 2 * 2 * actions  # combinations of the first two steps, times H S S A
        laws = [np.repeat(np.stack([STAY, SWAP]), actions, axis=2)] * 3
        wide, paid = build(laws, HALVES), Pieces(np.repeat(pieces.stage, actions, axis=3))
        for most, most_work, few in ((4, 10**9, True), (3, 10**9, False), (4, work, True), (4, work - 1, False)):
            monkeypatch.setattr(_within, "_MOST", most)
            monkeypatch.setattr(_within, "_WORK", most_work)
            assert combined(monkeypatch, wide, paid, table=np.full((3, 2, actions), 1 / actions))[0] == few
    monkeypatch.setattr(_within, "_WORK", 10**9)
    late = changed(model, inside=np.array([[1, 0], [0, 1], [1, 1]], dtype=bool))
    monkeypatch.setattr(_within, "_MOST", 1)  # the last step has no choice to make
    assert combined(monkeypatch, late, pieces)[0]
    observed = Pieces(pieces.stage, observed=((0, Observed(lambda _: 0.0, 0.0, 1.0)),))
    arrival = Pieces(pieces.stage, ((0, np.zeros((1, 2, 1, 2))),))
    seen = changed(late, counts=build([MIXED[None]], HALVES, observed=1).counts)
    assert not combined(monkeypatch, seen, observed)[0]
    assert not combined(monkeypatch, late, arrival)[0]
    assert not combined(monkeypatch, changed(late, initial=None), pieces)[0]


@pytest.mark.parametrize(("numbers", "bounded"), [(8, True), (9, False)])
def test_images_of_a_few_numbers_are_bounded_by_corners(monkeypatch, numbers, bounded):
    """The worst corner of all of 0 and 1 is 1."""
    model, pieces, _ = at_first()
    pieces = Pieces(np.repeat(np.array([[[0.0], [1.0]]])[None], numbers, axis=1))
    x = bd.features.signals(**{f"c{i}": np.zeros((2, 1)) for i in range(numbers)}).embedding(3)
    parts = [getattr(x, f"c{i}")[2] for i in range(numbers)]
    program = bd.Problem(cp.Minimize(cp.square(cp.sum(cp.hstack(parts)) / numbers)), {"limit": parts[0] <= 1.0})
    program = program.program()
    image = program.curved.image.size
    monkeypatch.setattr(_within, "_MOST", 0)
    monkeypatch.setattr(_within, "MOST_NUMBERS", image if bounded else image - 1)
    few, upper = combined(monkeypatch, model, pieces, program)
    assert not few
    assert upper == (pytest.approx([1.0, 0.0], abs=1e-8) if bounded else pytest.approx([np.inf, np.inf]))


def test_what_cannot_be_evaluated_under_some_law_is_bounded_by_nothing(monkeypatch):
    """Ends of four combinations: NaN is no end, and the others are the extremes."""
    model, pieces, _ = at_first()
    nan = np.nan
    ends = iter(
        [([0.0, 1.0], [nan, 3.0]), ([2.0, nan], [5.0, 2.0]), ([1.0, 0.0], [6.0, 1.0]), ([3.0, 4.0], [4.0, 9.0])]
    )
    monkeypatch.setattr(_within, "bound_near_image", lambda *_: next(ends))
    found = _within._bound_over_combinations(curve().curved, TABLE, model, pieces, model.initial)
    assert [part.tolist() for part in found] == [[0.0, -np.inf], [np.inf, 9.0]]


def test_the_error_of_an_image_by_hand():
    """H (S A + A + 4) roundings and the defects of all laws, and two more than terms of every number's own sum."""
    model, pieces, _ = at_first()
    model = changed(model, factors=build([np.full((1, 2, 1, 2), 0.375)] * 3, HALVES).factors)
    steps = [select_laws(model, h, only=True) for h in (0, 1)]
    program = curve().curved
    image = program.image
    found = _within.bound_image_error(program, TABLE.shape, steps, pieces)
    spread = np.abs(image.matrix.toarray()).sum(axis=1) * 3.0  # numbers are at most 3
    terms = np.count_nonzero(image.matrix.toarray(), axis=1) + 2
    relative = 3 * (2 + 1 + 4) * EPS + 2 * steps[0].defect
    own = terms * EPS * (spread + np.abs(image.offset))
    assert steps[0].defect > 0.25
    assert found == exactly(relative * spread + own)
    exact = [one._replace(defect=0.0) for one in steps]
    wide, many = np.full((3, 2, 4), 0.25), Pieces(np.full((1, 1, 2, 4), 3.0))
    assert _within.bound_image_error(program, wide.shape, exact, many) == exactly(3 * (8 + 4 + 4) * EPS * spread + own)
