"""Slopes of functions, by hand: what the verifier of convex files needs to prove a bound."""

import numpy as np
import pytest

from bidual.certificate import _slopes
from bidual.certificate._slopes import _distribute, _fill, _nest, _solve, _suit
from bidual.certificate.verify_expressions import Leaf

Y = [("y", i) for i in range(4)]
ONE = {None: 1}


def leaf(function, *arguments, p=None):
    return Leaf(function, 1, list(arguments), p)


@pytest.mark.parametrize(
    ("function", "slopes", "p", "weight"),
    [
        ("norm", [3.0, -4.0], None, 5.0),
        ("norm1", [3.0, -4.0], None, 4.0),
        ("norm_inf", [3.0, -4.0], None, 7.0),
        ("max", [3.0, -4.0, 2.0], None, 5.0),
        ("max", [-3.0, 0.5], None, 0.5),
        ("sum_largest", [3.0, 4.0, 5.0, -1.0], 2, 6.0),  # half of 12
        ("sum_largest", [1.0, 4.0, 0.0, -1.0], 2, 4.0),  # none has more than the weight
        ("sum_largest", [0.2, 0.3, 0.0, -9.0], 2, 0.3),
    ],
)
def test_the_least_weight_is_a_dual_norm(function, slopes, p, weight):
    argued = [leaf(function, *[{y: 1} for y in Y[: len(slopes)]], p=p), leaf("quad", {("leaf", 0): 1}, ONE)]
    found = [np.array(slopes), np.zeros(2)]
    assert _nest(argued, found)
    assert found[1].tolist() == [weight * (1 + 2.0**-50), 0.0]


def test_slopes_of_arguments_that_share_nothing_are_quotients():
    assert _solve([{Y[1]: 2}, {Y[0]: -4, None: 7}], np.array([8.0, 6.0, 0.0])).tolist() == [3.0, -2.0]
    assert _solve([], np.zeros(3)).tolist() == []


def test_arguments_that_share_numbers_get_the_shortest_slopes():
    """y0 + y1 and y1: one solution. y0 twice: halves. Two numbers in one argument: their mean."""
    assert _solve([{Y[0]: 1, Y[1]: 1}, {Y[1]: 1}], np.array([2.0, 5.0, 0.0])) == pytest.approx([2.0, 3.0])
    assert _solve([{Y[0]: 1}, {Y[0]: 1}], np.array([3.0, 0.0, 0.0])) == pytest.approx([1.5, 1.5])
    assert _solve([{Y[0]: 1, Y[2]: 1}], np.array([3.0, 0.0, 5.0])) == pytest.approx([4.0])


def test_the_rest_of_least_squares_is_solved_again(monkeypatch):
    """A first solution that is only nearly right becomes right."""
    solve, calls = np.linalg.lstsq, []

    def solve_badly(A, b, rcond=None):
        calls.append(b)
        return (solve(A, b, rcond=None)[0] * (1 if len(calls) > 1 else 0.5),)

    monkeypatch.setattr(np.linalg, "lstsq", solve_badly)
    assert _solve([{Y[0]: 1, Y[1]: 1}, {Y[1]: 1}], np.array([2.0, 5.0, 0.0])) == pytest.approx([2.0, 3.0])


@pytest.mark.parametrize(("most", "found"), [(3, True), (2, False)])
def test_too_many_shared_numbers_are_left_alone(monkeypatch, most, found):
    """Either more numbers than that, or more arguments."""
    monkeypatch.setattr(_slopes, "_MOST_SHARED", most)
    assert (_solve([{Y[0]: 1}, {Y[0]: 1}], np.zeros(3)) is not None) == found
    assert (_solve([{Y[0]: 1}] * 3, np.zeros(1)) is not None) == found


def test_a_function_within_another_gets_the_least_weight_of_its_slopes():
    """A shade more, for its own slopes are rounded."""
    leaves = [leaf("norm", {Y[0]: 1}, {Y[1]: 1}), leaf("quad", {("leaf", 0): 2, None: 3}, ONE)]
    slopes = [np.array([3.0, 4.0]), np.zeros(2)]
    assert _nest(leaves, slopes)
    assert slopes[1].tolist() == [2.5 * (1 + 2.0**-50), 0.0]
    assert not _nest([leaf("exp", {Y[0]: 1}), leaf("max", {("leaf", 0): 1}, ONE)], [np.ones(1), np.zeros(2)])


def test_what_is_left_of_a_weight_goes_to_the_largest_constant():
    leaves = [leaf("max", {Y[0]: 1}, {}, {None: 2}, {None: -1}), leaf("exp", {("leaf", 0): 3})]
    slopes = [np.array([0.5, 0.0, 0.0, 0.0]), np.array([0.25])]
    assert _fill(leaves, slopes, [{("leaf", 1): 4}, {("leaf", 0): 1, None: 9}], [1.0, 2.0])
    assert slopes[0].tolist() == [0.5, 0.0, 2.25, 0.0]  # of 2 by a constraint and 3/4 by the function around it
    for constant, found in ((-1, [0.5, 0.5, 0.0]), (0.5, [0.5, 0.0, 0.5])):  # beside one of 0
        slopes = [np.array([0.5, 0.0, 0.0])]
        assert _fill([leaf("max", {Y[0]: 1}, {}, {None: constant})], slopes, [{("leaf", 0): 1}], [1.0])
        assert slopes[0].tolist() == found
    for function, filled in (("norm_inf", False), ("log_sum_exp", True), ("sum_largest", True), ("max", True)):
        slopes = [np.array([5.0, 0.0]), np.array([1.0, 0.0])]
        _fill([leaf(function, {Y[0]: 1}, {None: 0}, p=1)] * 2, slopes, [{("leaf", 1): 1}, {("leaf", 0): 1}], [3.0, 1.0])
        assert slopes[1].tolist() == [1.0, 2.0 * filled]
        assert slopes[0].tolist() == [5.0, 0.0]  # more than the weight: nothing is left


def test_divergences_from_a_constant_have_the_slope_at_which_the_other_one_fits():
    """d/dy of x log(x / y) is -x / y, and of kl_div 1 - x / y; d/dx is 1 + log(x / y), or log(x / y)."""
    for function, slope, first in (("rel_entr", -2.0, 1 + np.log(2.0)), ("kl_div", -1.0, np.log(2.0))):
        slopes = [np.array([0.0, 3.0 * slope])]
        _fill([leaf(function, {None: 1}, {Y[0]: 1})], slopes, [{("leaf", 0): 1}], [3.0])
        assert slopes[0] == pytest.approx([3.0 * first, 3.0 * slope], rel=1e-14)
        slopes = [np.array([0.0, 3.0])]
        _fill([leaf(function, {None: 1}, {Y[0]: 1})], slopes, [{("leaf", 0): 1}], [3.0])  # a slope of the wrong sign
        assert slopes[0][0] == pytest.approx(3.0 * ((function == "rel_entr") + np.log(1e-300)), rel=1e-14)
        slopes = [np.array([0.0, 0.5 * slope])]
        _fill([leaf(function, {None: 1}, {Y[0]: 1})], slopes, [{("leaf", 0): 1}], [0.5])
        assert slopes[0][0] == pytest.approx(0.5 * first, rel=1e-14)
        slopes = [np.array([7.0, 3.0])]
        _fill([leaf(function, {None: 1}, {Y[0]: 1})], slopes, [{("leaf", 0): 1}], [0.0])
        assert slopes[0].tolist() == [7.0, 3.0]
    slopes = [np.array([7.0, -3.0])]
    _fill([leaf("rel_entr", {Y[1]: 1}, {Y[0]: 1})], slopes, [{("leaf", 0): 1}], [3.0])
    assert slopes[0].tolist() == [7.0, -3.0]


def test_a_cost_is_distributed_over_the_functions_in_it():
    """theta less what enters f and g directly: 1 of y0 by w f, and 2 * 3 of y1 by gamma . g."""
    leaves = [leaf("norm", {Y[0]: 1, None: 7}, {Y[1]: 2}), leaf("max", {Y[2]: 1}, {None: 4}, {("v", 0): 1})]
    forms = [{Y[0]: 1, ("leaf", 0): 1}, {Y[1]: 3, ("leaf", 1): 1, None: 5}]
    slopes = _distribute(leaves, forms, [1.0, 2.0], np.array([1.5, 7.0, 0.5]))
    assert slopes is not None
    assert [s.tolist() for s in slopes] == [[0.5, 0.5], [0.5, 1.5, 0.0]]


def test_slopes_that_belong_to_no_function_are_left_out():
    """As where several functions of the same numbers need other slopes than the shortest, in a sorted product."""
    forms = [{("leaf", 0): 1}]
    norm = [leaf("norm", {Y[0]: 1}, {Y[1]: 1})]
    assert _distribute(norm, forms, [1.0], np.array([0.6, 0.8, 0.0])) is not None
    assert _distribute(norm, forms, [1.0], np.array([0.6, 0.801, 0.0])) is None
    for slopes, weight, suits in (
        ([0.6, 0.8 + 1e-8], 1.0, True),
        ([0.6, 0.8 + 1e-5], 1.0, False),
        ([0.0, 5e-7], 0.5, True),
        ([0.0, 0.5 + 6e-7], 0.5, False),
        ([1e-8, 0.0], 0.0, False),
        ([1e-8, 0.0], -1.0, False),
        ([0.0, 0.0], 0.0, True),
        ([0.0, 0.0], -1.0, True),
    ):
        assert _suit(norm[0], np.array(slopes), weight) == suits
    assert _distribute([leaf("exp", {Y[0]: 1}), leaf("max", {("leaf", 0): 1}, ONE)], [], [], np.zeros(3)) is None
    twice = [leaf("sum_largest", {Y[0]: 1}, {Y[1]: 1}, p=k) for k in (1, 2)]
    assert _distribute(twice, [{("leaf", 0): 1, ("leaf", 1): 1}], [1.0], np.array([2.5, 0.5, 0.0])) is None


def test_too_many_numbers_to_solve_for_give_no_slopes(monkeypatch):
    monkeypatch.setattr(_slopes, "_MOST_SHARED", 1)
    assert _distribute([leaf("norm", {Y[0]: 1, Y[1]: 1})], [], [], np.zeros(3)) is None
