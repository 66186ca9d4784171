"""Slacks of the checker of learned results, by hand, and least means against rational arithmetic."""

import math
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import brentq

import bidual as bd
from bidual.certificate import Record, _lower, _optimistic, lower_bound
from bidual.certificate._ball import Least, bound_ball_minimum, compute_near_minimum
from bidual.certificate._cuts import cut_of
from bidual.certificate._optimistic import _fill_boxes, bound_least_over_set
from bidual.certificate.rounding import EPS
from bidual.models import ArrivalRewards, LinearLaws, Plausible
from bidual.problem.features import Observed
from tests.learning import SHAPE, after, beginning, random_episodes, random_world
from tests.units.test_checker import exactly
from tests.units.test_checker_convex import choose_multipliers

H, S, A = SHAPE
FEATURES = bd.features.signals(
    a=np.random.default_rng(0).normal(size=(S, A)), b=np.random.default_rng(1).normal(size=(S, A))
)


def _fractions(array):
    return [Fraction(float(number)) for number in array]


@pytest.mark.parametrize("seed", range(4))
def test_the_least_mean_near_a_centre(seed):
    """The gain goes to the least number, and is taken from the largest ones."""
    rng = np.random.default_rng(seed)
    W, centre = rng.normal(size=4) * 100, rng.multinomial(64, np.ones(4) / 4) / 64
    gain = rng.integers(0, 80) / 64
    ((total,),), ((lost,),) = compute_near_minimum(centre[None, None], np.array([[gain]]), W[None, None])
    left = Fraction(gain)
    order = np.argsort(W)
    mass = dict(zip(order.tolist(), _fractions(centre[order]), strict=True))
    for s in reversed(order[1:].tolist()):
        moved = min(left, mass[s])
        left, mass[s], mass[order[0]] = left - moved, mass[s] - moved, mass[order[0]] + moved
    exact = sum(mass[s] * Fraction(float(W[s])) for s in mass)
    assert abs(Fraction(float(total)) - exact) <= Fraction(float(lost))
    assert lost == exactly((4 * 4 + 8) * EPS * np.abs(W).max())
    _, ((more,),) = compute_near_minimum(
        -3 * centre[None, None], np.array([[gain]]), W[None, None]
    )  # estimates need not be laws
    assert more == exactly((4 * 4 + 8) * EPS * np.abs(W).max() * 3)


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_least_mean_between_limits(seed, open_):
    """The free mass goes to the least numbers, up to their limits; of open lists, to the least of all states too."""
    rng = np.random.default_rng(seed)
    low, high = rng.integers(0, 16, 3) / 64, rng.integers(20, 40, 3) / 64
    W = 100 * rng.normal(size=3 + open_)
    low_, high_, W_ = (np.tile(array, (1, 5, 1)) for array in (low, high, W))  # one state, five equal actions
    total, lost = _fill_boxes(low_, high_, np.full((1, 5), 0.25), W_)
    floors, ceilings = [*low, *[0.0] * open_], [*high, *[0.25] * open_]
    left, exact = 1 - sum(_fractions(floors)), Fraction(0)
    for k in np.argsort(W):
        given = min(left, Fraction(ceilings[k]) - Fraction(floors[k]))
        exact, left = exact + (Fraction(floors[k]) + given) * Fraction(float(W[k])), left - given
    assert abs(Fraction(float(total[0, 0])) - exact) <= Fraction(float(lost[0, 0]))
    assert lost[0, 0] == exactly((4 * W.size + 8) * EPS * np.abs(W).max())


@pytest.mark.parametrize("radius", [1e-3, 0.3, 2.0])
def test_the_slack_of_a_ball(radius):
    """Two logarithms of K + 8 terms at the best y, over y; and the least number's own rounding."""
    phat, W = np.array([0.5, 0.25, 0.25, 0.0]), np.array([-3.0, 5.0, -40.0, 7.0])
    value, lost = (found[0] for found in bound_ball_minimum(phat[None, None], np.array([[radius]]), W[None, None]))
    d, spread = W + 40.0, 45.0

    def excess(log):
        u = 1 + d * np.exp(log) / spread
        return phat @ np.log(u) + np.log(phat @ (1 / u)) - radius

    y = math.exp(brentq(excess, -25, 30, xtol=1e-12)) / spread
    assert value[0] == pytest.approx(-40 + np.expm1(phat @ np.log(1 + d * y) - radius) / y, rel=1e-9)
    expected = (1 / y + spread) * (4 + 8) * EPS * (2 + np.log1p(spread * y)) + 4 * EPS * 40
    assert lost[0] == pytest.approx(expected, rel=1e-4, abs=0.0)


def test_balls_without_a_search():
    """A point is its mean over what is possible in it; nothing known, or nothing to choose, is the least number."""
    phat, W = np.array([[0.5, 0.5, 0.0]] * 3), np.array([[2.0, 6.0, -1.0], [2.0, 6.0, -1.0], [3.0, 3.0, 3.0]])
    value, lost = bound_ball_minimum(phat, np.array([0.0, np.inf, 1.0]), W)
    assert value.tolist() == [4.0, -1.0, 3.0]
    assert lost == exactly([8 * EPS * 4 + 4 * EPS * 2, 8 * EPS * 7 + 4 * EPS, 4 * EPS * 3])


@pytest.fixture(scope="module")
def known():
    """What is known of a random model after some episodes."""
    world = random_world(0)
    return after(beginning(FEATURES, SHAPE, initial=world.mdp.initial), random_episodes(world.mdp, 40, 0))


def test_the_slack_of_a_set_by_hand(known):
    """(H (A + K + 8) + d + terms + 4) roundings of all that may be paid, above those of the rows."""
    model, pieces = known.confidence_set, known.pieces
    theta, magnitude = np.ones((H, 2)), 1e6 * np.random.default_rng(2).random((H, 2))
    rows = bound_least_over_set(model, pieces, theta, 0 * magnitude, 3)
    found = bound_least_over_set(model, pieces, theta, magnitude, 3)
    K = model.counts.support.states.shape[2] + 1
    expected = (H * (A + K + 8) + 2 + 3 + 4) * EPS * np.sum(magnitude * pieces.peaks())
    assert found.value == rows.value
    assert 0 < rows.error < 1e-9
    assert found.error - rows.error == pytest.approx(expected, rel=1e-6)


def test_errors_of_steps_add_up(known, monkeypatch):
    """Of every step that of its worst row, and that of the start."""
    lost = np.linspace(0.0, 1.0, S * A).reshape(S, A)
    monkeypatch.setattr(_optimistic, "_minimise_rows", lambda *_: (np.zeros((S, A)), lost))
    monkeypatch.setattr(_optimistic, "_start", lambda *_: (0.0, 0.5))
    theta = np.ones((H, 2))
    assert bound_least_over_set(known.confidence_set, known.pieces, theta, 0 * theta, 3).error == H * 1.0 + 0.5


def _program(limits=(0.3, -0.2)):
    x = FEATURES.embedding(H)
    rows = {"a": cp.sum(x.a) <= limits[0], "b": -cp.sum(x.b) == limits[1]}
    return bd.Problem(cp.Minimize(cp.sum(x.a) - 2 * cp.sum(x.b)), rows).program()


@pytest.mark.parametrize(("weight", "sign"), [(1.0, 1.0), (1.0, -1.0), (0.0, 1.0)])
def test_the_slack_of_a_lower_bound_by_hand(known, weight, sign):
    """Offset and limits cancel, so that their rounding shows: four for each of m + 1 terms."""
    gamma = np.array([0.5, -0.5])
    limits = sign * np.array([3e3, 1e3])
    program = replace(_program(), limits=limits, offset=sign * 1e3 if weight else 0.0, units=np.ones(2))
    magnitude = weight * np.abs(program.objective) + np.einsum("i,ihd->hd", np.abs(gamma), np.abs(program.rows))
    model, pieces = known.confidence_set, known.pieces
    least = bound_least_over_set(model, pieces, program.theta(gamma, weight), magnitude, 3)
    bound = lower_bound(program, Record(gamma, weight), model, pieces)
    kept = 0.0 if weight else -sign * 1e3
    constants = weight * 1e3 + 3 * 2e3
    assert least.value + kept - bound == pytest.approx(least.error + 4 * EPS * constants, rel=0.1, abs=0.0)
    free = replace(program, limits=np.zeros(2), offset=0.0)
    assert lower_bound(free, Record(gamma, weight), model, pieces) == least.value - least.error


@pytest.mark.parametrize("total", [False, True])
def test_the_slack_of_a_convex_lower_bound_by_hand(known, total, monkeypatch):
    """That of a known model, with the least value over all laws in the place of the one law's."""
    x = FEATURES.embedding(H)
    a, b = (cp.sum(x.a), cp.sum(x.b)) if total else (x.a, x.b)
    objective = cp.Minimize(cp.sum_squares(a - 300) + 0.3 * cp.sum(b + 2 * a) - 0.7)
    program = bd.Problem(objective, [cp.norm(0.1 - b) <= 6.0]).program()
    model, pieces, image = known.confidence_set, known.pieces, program.image
    record = Record(choose_multipliers(program.main), 1.0)
    peaks, matrix = np.broadcast_to(pieces.peaks(), (H, 2)), np.abs(image.matrix.toarray())
    size = peaks.sum(axis=0) if image.total else peaks.ravel()
    cut = cut_of(program, record, np.abs(image.offset) + matrix @ size)
    magnitude = cut.magnitude @ matrix
    magnitude = np.tile(magnitude, (H, 1)) if image.total else magnitude.reshape(H, -1)
    terms = cut.terms + int((matrix != 0).sum(axis=0).max())
    least = bound_least_over_set(model, pieces, image.adjoint(cut.slope), magnitude, terms)
    shifts = abs(cut.constant) + cut.magnitude @ np.abs(image.offset)
    slack = cut.slack + least.error + (cut.slope.size + terms + 8) * EPS * shifts
    reaches = []
    monkeypatch.setattr(_lower, "cut_of", lambda *args: [cut_of(*args), reaches.append(args[-1])][0])
    bound = lower_bound(program, record, model, pieces)
    assert np.array_equal(reaches[0], np.abs(image.offset) + image.spread(peaks))
    assert bound == least.value + cut.constant + cut.slope @ image.offset - slack
    assert lower_bound(program, Record(np.zeros(0), 1.0), model, pieces) is None


def test_multipliers_of_a_clash_sum_to_one_up_to_rounding(known):
    both, x = replace(_program(), units=np.ones(2)), FEATURES.embedding(H)
    single = replace(bd.Problem(cp.Minimize(cp.sum(x.a)), [cp.sum(x.b) <= 0.3]).program(), units=np.ones(1))
    cases = [(both, [0.5, 0.5 + excess * EPS], abs(excess) <= 16) for excess in (16, 18, -16, -18)]
    cases += [(single, [1 + excess * EPS], excess <= 8) for excess in (8, 10)]
    for program, gamma, fine in cases:
        record = Record(np.array(gamma), 0.0)
        if fine:
            assert lower_bound(program, record, known.confidence_set, known.pieces) is not None
        else:
            with pytest.raises(bd.CertificateError, match="sum to 1 in units"):
                lower_bound(program, record, known.confidence_set, known.pieces)


def test_what_is_observed_pays_its_least_on_the_way_to_any_state():
    """At the better end of its range for the sign of the cost; at the end of an episode, where episodes end."""
    known = beginning(FEATURES, SHAPE, absorbing=(1,))
    assert known.confidence_set.counts.support.open
    signals = (0, Observed(lambda *_: 0.0, -2.0, 3.0)), (1, Observed(lambda *_: 0.0, -4.0, 5.0, at_end=True))
    pieces = replace(known.pieces, observed=signals)
    nothing = np.zeros((1, 0, S, A, known.confidence_set.counts.support.filled.shape[-1]))
    rewards = ArrivalRewards((), nothing, nothing, nothing)
    V = np.array([7.0, 1.0, 2.0, 3.0])
    for theta, least in (([0.5, 2.0], 1 - 0.5 * 2 - 2 * 4), ([-0.5, -2.0], 1 - 0.5 * 3 - 2 * 5)):
        W = _optimistic._collect_payments(known.confidence_set, pieces, rewards, np.array(theta), V, 0)
        assert np.array_equal(W[..., -1], np.full((S, A), least))


@pytest.mark.parametrize("kind", ["bound_least_over_set", "bound_least_over_class", "bound_least_over_laws"])
def test_every_kind_of_model_has_its_own_least_value(known, kind, monkeypatch):
    models = {"bound_least_over_class": Plausible, "bound_least_over_laws": LinearLaws}
    model = object.__new__(models[kind]) if kind in models else known.confidence_set
    monkeypatch.setattr(_lower, kind, lambda *_: Least(8.0, 0.5))
    program = replace(_program(), limits=np.zeros(2), offset=0.0)
    assert lower_bound(program, Record(np.zeros(2), 1.0), model, known.pieces) == 7.5
