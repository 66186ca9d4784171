"""Proofs over linear laws by hand, with roundings so large that every slack can be seen."""

import numpy as np
import pytest

import bidual as bd
from bidual.certificate import _quadratic
from bidual.certificate._ball import Least
from bidual.certificate._quadratic import (
    _bound_below,
    _bound_inverse,
    _is_positive_definite,
    _prepare_setting,
    _prove_bound,
    bound_least_over_laws,
)
from bidual.certificate.rounding import EPS
from bidual.models import LinearLaws
from bidual.problem.features import quadratic

LARGE = 2.0**-20  # in the place of eps


def exactly(expected):
    return pytest.approx(expected, rel=1e-12, abs=0.0)


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(_quadratic, "EPS", LARGE)


def laws(W=((0.5, 2.0, 3.0),), precision=None, radius=0.5, deviation=(0.25,), first=(2.0,), form=None, bound=5.0):
    """One state, one control, and a constant; it pays the squares of control and next state."""
    form = np.diag([0.0, 1.0, 1.0]) if form is None else form
    d = len(W[0])
    return LinearLaws(
        W=np.array(W),
        precision=4 * np.eye(d) if precision is None else precision,
        radius=radius,
        deviation=np.array(deviation),
        first=np.array(first),
        limits=(np.array([-bound]), np.array([bound])),
        signals=(quadratic(form, np.array([0.0, 0.5, 0.0]), -7.0), quadratic(np.diag([-1.0, 0.0, 2.0]))),
    )


# Positive definite, whatever the roundings.


def test_the_least_eigenvalue_is_beyond_its_own_rounding():
    for t, right in ((0.993, False), (1.007, True)):
        for scale in (1.0, 2.0**40):
            turned = np.eye(8)
            turned[0, 1] = turned[1, 0] = scale * (1 - t * 64 * 64 * EPS)
            turned[1, 1] = scale**2
            assert _is_positive_definite(turned, np.zeros((8, 8))) == right


@pytest.mark.parametrize(
    ("matrix", "unsure", "right"),
    [
        ([[1.0, 1.5], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], True),  # of which the symmetric part counts
        ([[1.0, 1.5], [0.6, 1.0]], [[0.0, 0.0], [0.0, 0.0]], False),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.3], [0.0, 0.0]], True),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.5], [0.0, 0.0]], False),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.5, 0.4]], True),
        ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.5, 0.6]], False),
        ([[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], False),
        ([[1.0, 0.0], [0.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]], False),
        ([[1.0, np.nan], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], False),
        ([[1.0, 0.0], [0.0, np.inf]], [[0.0, 0.0], [0.0, 0.0]], False),
    ],
)
def test_positive_definite_by_hand(matrix, unsure, right):
    with np.errstate(all="ignore"):
        assert _is_positive_definite(np.array(matrix), np.array(unsure)) is right


# Above the inverse.


def test_above_an_inverse_by_hand(coarse):
    """T of Cholesky is [[1, 0], [-1, 1]]; the upper triangle is another by 0.1, which T does not see."""
    lost = 8 * 4 * LARGE
    for off in (0.0, 0.1):
        rho = np.sqrt(2) * off * (1 + lost) + lost * np.linalg.norm([[1, 2 + off], [2, 5 + off]])
        expected = (np.array([[2, -1], [-1, 1]]) + np.diag([3 * lost, 2 * lost])) * (1 + 8 * LARGE) / (1 - rho)
        assert _bound_inverse(np.array([[1.0, 1.0 + off], [1.0, 2.0]])) == exactly(expected)


def test_sizes_above_an_inverse_are_absolute(coarse):
    """T is [[1, 0], [1, 1]] here."""
    lost = 8 * 4 * LARGE
    rho = lost * np.linalg.norm([[1, 2], [2, 5]])
    expected = (np.array([[2, 1], [1, 1]]) + np.diag([3 * lost, 2 * lost])) * (1 + 8 * LARGE) / (1 - rho)
    assert _bound_inverse(np.array([[1.0, -1.0], [-1.0, 2.0]])) == exactly(expected)


def test_an_inverse_that_is_not_known_has_no_bound(monkeypatch):
    assert _bound_inverse(np.array([[1.0, 1.35], [1.0, 2.0]])) is not None  # 0.35 times the root of 2 is below a half
    assert _bound_inverse(np.array([[1.0, 1.36], [1.0, 2.0]])) is None
    assert _bound_inverse(np.array([[-1.0]])) is None
    for share, right in ((0.999, True), (1.0, False)):
        monkeypatch.setattr(_quadratic, "EPS", share * 0.5 / 24)
        assert (_bound_inverse(np.eye(1)) is not None) == right


# Below a form.

Q, SIZES = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([[7.0, 1.0], [1.0, 2.0]])


def test_a_form_below_another_by_hand(monkeypatch):
    """3 less 1/2, less an eighth of 7. In the turned form are 7/8 and 2, unsure by 12.125 and 4 roundings."""
    monkeypatch.setattr(_quadratic, "_MARGIN", 0.125)
    for roundings, right in ((0.0, True), (0.999 * 0.875 / 12.125, True), (1.001 * 0.875 / 12.125, False)):
        found = _bound_below(Q, SIZES, roundings, 1)
        assert (found is not None) == right
        assert found is None or found.tolist() == [[1.625]]


def test_sizes_of_a_form_below_are_absolute(monkeypatch):
    """3 less 1/2, less an eighth of 80: in the turned form are 10 and 2, unsure by 91 and 4 roundings."""
    monkeypatch.setattr(_quadratic, "_MARGIN", 0.125)
    for roundings, right in ((0.999 * 10 / 91, True), (1.001 * 10 / 91, False)):
        found = _bound_below(Q, SIZES + np.diag([73.0, 0.0]), roundings, 1)
        assert (found is not None) == right
        assert found is None or found.tolist() == [[-7.5]]


def test_the_margin_of_a_number_is_of_its_size(monkeypatch, coarse):
    """Or an eps of the largest, if that is more."""
    monkeypatch.setattr(_quadratic, "_MARGIN", 0.125)
    large = SIZES + np.diag([0.0, 2.0**26])
    found = _bound_below(Q, large, 0.0, 1)
    assert found is not None
    assert found[0, 0] == exactly(2.5 - (64 + 2 * LARGE) / 8)
    three = np.diag([3.0, 5.0, 2.0])
    three[0, 1] = 1.0  # the mean of both sides counts
    found = _bound_below(three, np.diag([8.0, 16.0, 1.0]), 0.0, 2)
    assert found is not None
    assert found.tolist() == [[2.0, 0.5], [0.5, 3.0]]


def test_nothing_is_below_what_is_not_convex(monkeypatch):
    for odd in ([[3.0, 1.0], [1.0, 0.0]], [[3.0, 1.0], [1.0, -2.0]], [[np.inf, 1.0], [1.0, 2.0]]):
        with np.errstate(all="ignore"):
            assert _bound_below(np.array(odd), SIZES, 0.0, 1) is None
    monkeypatch.setattr(_quadratic, "_MARGIN", 0.0)
    assert _bound_below(Q, SIZES, 0.0, 1) is None  # nothing is left of the turned form


# The forms of all steps.

THETA, MAGNITUDE = np.array([[1.0, 0.5], [2.0, 0.0]]), np.array([[3.0, 0.5], [2.0, 4.0]])


@pytest.mark.parametrize("constant", [True, False])
def test_the_setting_by_hand(coarse, constant):
    """Over (1, s, u, w, s')."""
    given = laws() if constant else laws(W=((0.5, 2.0),))
    found = _prepare_setting(given, THETA, MAGNITUDE, 3)
    assert found is not None
    first = np.zeros((5, 5))
    first[[0, 1, 2, 4], [0, 1, 2, 4]] = [-7.0, -0.5, 1.0, 2.0]
    first[0, 2] = first[2, 0] = 0.5
    second = np.diag([-14.0, 0.0, 2.0, 0.0, 2.0])
    second[0, 2] = second[2, 0] = 1.0
    assert found.costs.tolist() == [first.tolist(), second.tolist()]
    sizes = np.diag([21.0, 0.5, 3.0, 0.0, 4.0]), np.diag([14.0, 4.0, 2.0, 0.0, 10.0])
    for one, slope in zip(sizes, (1.5, 1.0), strict=True):
        one[0, 2] = one[2, 0] = slope
    assert found.sizes.tolist() == [one.tolist() for one in sizes]
    assert found.lift.tolist() == [*np.eye(4).tolist(), [3.0 if constant else 0.0, 1.5, 2.0, 1.0]]
    assert found.variance.tolist() == [0.0625]
    assert found.roundings == exactly(4 * (2 * 5 + 3 + 2 + 16) * LARGE)
    d = 3 if constant else 2
    lost = 8 * (d + 2) * LARGE
    above = 0.25 * (1 + lost) * (1 + 8 * LARGE) / (1 - lost * np.sqrt(d))
    squares = np.diag([float(constant), 1.0, 1.0, 0.0, 0.0])
    expected = -0.25 * (1 + 4 * LARGE) * above * squares + np.diag([0.0, 0.0, 0.0, 1.0, 0.0])
    assert found.price == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_an_estimate_without_a_bound_proves_nothing():
    assert _prepare_setting(laws(precision=-np.eye(3)), THETA, MAGNITUDE, 3) is None
    assert _prepare_setting(laws(radius=np.inf), THETA, MAGNITUDE, 3) is None
    for odd in (laws(precision=-np.eye(3)), laws(radius=np.inf)):
        assert bound_least_over_laws(odd, THETA, MAGNITUDE, 3) == Least(-np.inf, 0.0)


# What is proved.


def test_one_step_by_hand(monkeypatch):
    """With a vanishing set, u^2 + s'^2 of s' = 1.5 s + 2 u is least at u = -3 s / 5: 2.25 s^2 / 5, and the noise."""
    small = laws(W=((0.5, 2.0),), radius=1e-6)
    small = LinearLaws(**{**vars(small), "signals": (quadratic(np.diag([0.0, 1.0, 1.0])),)})
    theta = np.ones((1, 1))
    found = bound_least_over_laws(small, theta, theta, 1)
    assert found.value == pytest.approx(0.45 * 4 + 0.0625, rel=1e-4)
    assert found.value <= 0.45 * 4 + 0.0625
    two = bound_least_over_laws(small, np.ones((2, 1)), np.ones((2, 1)), 1)
    # Then u^2 + (1 + 0.45) s'^2, of which the second step is 1.45 (1.5 s + 2 u)^2 with u = -1.45 * 3 s / 6.8.
    exact = 1.45 * 2.25 / 6.8 * 4 + 1.45 * 0.0625 + 0.0625
    assert two.value == pytest.approx(exact, rel=1e-4)
    assert two.value <= exact


def test_small_costs_have_bounds_and_clipped_ones_have_none():
    theta = np.ones((1, 1))
    for scale in (1e-3, 1.0):
        given = LinearLaws(**{**vars(laws()), "signals": (quadratic(scale * np.diag([0.0, 1.0, 1.0])),)})
        assert bound_least_over_laws(given, theta, theta, 1).value > 0
    clipped = LinearLaws(**{**vars(laws()), "signals": (quadratic(np.diag([0.0, 1.0, 1.0]), high=20.0),)})
    assert bound_least_over_laws(clipped, theta, theta, 1) == Least(-np.inf, 0.0)


def test_the_error_of_a_value_is_that_of_its_sum(monkeypatch):
    """Of -7 and 4 s^2 less 12 s, at 2: -15, of numbers of 47 in all; without any law that could be wrong."""
    monkeypatch.setattr(_quadratic, "_MARGIN", 2.0**-30)
    setting = _prepare_setting(laws(W=((0.0, 1.0),), radius=1e-9), THETA[:1], MAGNITUDE[:1], 1)
    assert setting is not None
    costs = np.diag([-7.0, 4.0, 1.0, 0.0, 0.0])[None]
    costs[0, 0, 1] = costs[0, 1, 0] = -6.0
    setting = setting._replace(costs=costs, sizes=np.abs(costs), variance=np.zeros(1))
    found = _prove_bound(setting, 1.0, np.array([1.0, 2.0]))
    assert found.value == pytest.approx(-15.0, rel=1e-7)
    assert found.error == pytest.approx(setting.roundings * (7 + 16 + 24), rel=1e-7, abs=0.0)
    noisy = setting._replace(costs=costs + np.diag([0, 0, 0, 0, 3.0]), variance=np.array([4.0]))
    assert _prove_bound(noisy, 1.0, np.array([1.0, 0.0])).value > -7 + 12 - 9 - 1


def test_a_step_sums_costs_prices_and_what_follows(monkeypatch):
    """As functions of (1, s, u, w) at random points, and their sizes entry by entry; noise adds to the constant."""
    rng = np.random.default_rng(0)
    setting = _prepare_setting(laws(W=((-0.5, -2.0, -3.0),), precision=None), THETA, MAGNITUDE, 3)
    assert setting is not None
    form = rng.normal(size=(2, 5, 5))
    costs, sizes = form + form.swapaxes(1, 2), rng.random((2, 5, 5))
    sizes = sizes + sizes.swapaxes(1, 2)
    setting = setting._replace(costs=costs, sizes=sizes, variance=np.array([0.5]))
    G, calls = np.array([[3.0, -1.0], [-1.0, -2.0]]), []
    monkeypatch.setattr(_quadratic, "_bound_below", lambda *arguments: calls.append(arguments) or G)
    mu, after = 3.0, np.zeros((2, 2))
    found = _prove_bound(setting, mu, np.array([1.0, -2.0]))
    assert (found.value, found.error) == (3 + 4 - 8, exactly(setting.roundings * (3 + 4 + 8)))
    lift = np.vstack([np.eye(4), [-3.0, 0.5, -2.0, 1.0]])
    assert setting.lift.tolist() == lift.tolist()
    for (Q, total, roundings, a), cost, size in zip(calls, costs[::-1], sizes[::-1], strict=True):
        assert (roundings, a) == (setting.roundings, 2)
        for _ in range(3):
            y = np.append(1.0, rng.normal(size=3))
            x, ahead = lift @ y, np.array([1.0, lift[4] @ y])
            noise = 0.5 * (cost[4, 4] + after[1, 1])
            expected = x @ cost @ x + mu * (x @ setting.price @ x) + ahead @ after @ ahead + noise
            assert y @ Q @ y == pytest.approx(expected, rel=1e-12)
        entries = size + mu * np.abs(setting.price)
        entries[np.ix_([0, 4], [0, 4])] += np.abs(after)
        entries[0, 0] += 0.5 * entries[4, 4]
        expected = [
            [sum(abs(lift[k, i] * lift[m, j]) * entries[k, m] for k in range(5) for m in range(5)) for j in range(4)]
            for i in range(4)
        ]
        assert total == exactly(np.array(expected))
        after = G
    monkeypatch.setattr(_quadratic, "_bound_below", lambda *_: np.full((2, 2), np.inf))
    assert _prove_bound(setting, mu, np.array([1.0, 1.0])) == Least(-np.inf, 0.0)
    monkeypatch.setattr(_quadratic, "_bound_below", lambda *_: None)
    assert _prove_bound(setting, mu, np.array([1.0, 1.0])) == Least(-np.inf, 0.0)


def test_no_cost_no_proof():
    free = laws(form=np.zeros((3, 3)))
    free = LinearLaws(**{**vars(free), "signals": (quadratic(np.zeros((3, 3))),)})
    for theta in (np.ones((1, 1)), np.zeros((1, 1))):
        assert bound_least_over_laws(free, theta, np.ones((1, 1)), 1) == Least(-np.inf, 0.0)
    with pytest.raises(bd.CertificateError, match="NaN or infinity"):
        bound_least_over_laws(laws(), np.nan * THETA, MAGNITUDE, 1)


def test_prices_are_searched_in_units_of_the_costs(monkeypatch):
    """From 10^-8 to 10^8 largest costs for a unit of the radius in half decades, then nearer and nearer to the best."""
    tried = []

    def prove(setting, mu, start):
        tried.append(mu)
        assert start.tolist() == [1.0, 2.0]
        return Least(-abs(np.log10(mu / 28.0) - 0.7), 0.0)  # the largest cost is 14, and the radius a half

    monkeypatch.setattr(_quadratic, "_prove_bound", prove)
    wide = LinearLaws(**{**vars(laws()), "signals": laws().signals[:1]})
    found = bound_least_over_laws(wide, THETA[:, :1], MAGNITUDE[:, :1], 1)
    assert np.log10(np.array(tried[:33]) / 28.0) == pytest.approx(np.arange(-8, 8.5, 0.5))
    nearer = [0.25, 0.75, 0.625, 0.875, 0.6875, 0.8125, 0.65625, 0.71875, 0.671875, 0.703125, 0.6953125, 0.7109375]
    assert np.log10(np.array(tried[33:]) / 28.0) == pytest.approx(nearer)
    assert found.value >= -0.5 / 2**6
    monkeypatch.setattr(_quadratic, "_prove_bound", lambda *_: tried.append(0) or Least(-np.inf, 0.0))
    tried.clear()
    assert bound_least_over_laws(wide, THETA[:, :1], MAGNITUDE[:, :1], 1) == Least(-np.inf, 0.0)
    assert len(tried) == 33
