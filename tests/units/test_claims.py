"""Claims of files against what is derived, by hand: from the side that matters, and to the last rounding."""

import math
from dataclasses import replace

import numpy as np
import pytest

import bidual as bd
from bidual._base.status import Status
from bidual.certificate import Certificate, Resolution
from bidual.certificate.constraints import Goal
from bidual.certificate.rounding import EPS
from bidual.problem.modelling import Line
from bidual.storage._claims import Derived, Ends, check_gap, check_goal, compare, derive_claims, derive_prices

LINES = [
    Line("most", "<=", 1.0, np.array([3.0])),
    Line("least", ">=", -1.0, np.array([-2.0])),
    Line("both", "==", 1.0, np.array([5.0, 6.0])),
]
SLACKS = np.array([1e-9, 2e-9, 3e-9, 4e-9])
CERTIFICATE = Certificate(
    value=10.0,
    upper=10.5,
    lower=9.0,
    conflict=None,
    g=np.array([-1.0, 0.25, 0.5, -0.75]),
    violations=np.array([0.0, 0.25, 0.5, 0.75]),
    violations_upper=np.array([0.0, 0.3, 0.6, 0.9]),
    embedding=np.zeros((1, 1)),
    visits=np.zeros((1, 1)),
    resolution=Resolution(1e-6, 1e-5, SLACKS),
)


@pytest.mark.parametrize(
    ("weaker", "claimed", "admitted"),
    [
        ("below", -1e9, True),
        ("below", 1.25, True),
        ("below", 1.2501, False),
        ("above", 1e9, True),
        ("above", 0.75, True),
        ("above", 0.7499, False),
        ("nowhere", 0.75, True),
        ("nowhere", 1.25, True),
        ("nowhere", 0.7499, False),
        ("nowhere", 1.2501, False),
        ("above", math.inf, False),
        ("below", -math.inf, False),
        ("nowhere", math.nan, False),
        ("above", 1, False),
        ("above", None, False),
        ("above", "1", False),
    ],
)
def test_a_claim_may_be_weaker_and_stronger_by_the_slack(weaker, claimed, admitted):
    assert Derived(1.0, 0.25, weaker).admits(claimed) == admitted


BOUNDS = Ends(9.0, 10.5)


def derived(ends=BOUNDS, *, maximises=False, **parts):
    return derive_claims(Status.OPTIMAL, ends, LINES, replace(CERTIFICATE, **parts), maximises=maximises)


def test_numbers_have_their_own_slacks_and_sides():
    found = derived()
    assert found["status"] == "optimal"
    assert found["value"] == Derived(10.0, 1e-5, "nowhere")
    assert found["lower"] == Derived(9.0, 1e-6, "below")
    assert found["upper"] == Derived(10.5, 1e-5, "above")
    assert found["gap"] == Derived(1.5, 1e-6 + 1e-5 + 2 * EPS * 19.5, "above")
    other = derived(Ends(-10.5, 9.0), maximises=True)
    assert other["value"] == Derived(-10.0, 1e-5, "nowhere")
    assert other["lower"] == Derived(-10.5, 1e-5, "below")
    assert other["upper"] == Derived(9.0, 1e-6, "above")
    assert other["gap"] == Derived(19.5, 1e-5 + 1e-6 + 2 * EPS * 19.5, "above")


@pytest.mark.parametrize(("lower", "upper"), [(-10.5, -9.0), (0.0, 3.0), (-3.0, 0.0)])
def test_a_gap_has_the_rounding_of_both_bounds(lower, upper):
    gap = Derived(upper - lower, 1e-6 + 1e-5 + 2 * EPS * (abs(lower) + abs(upper)), "above")
    assert derived(Ends(lower, upper))["gap"] == gap


def test_bounds_that_meet_have_the_larger_slack():
    for end in (10.0, 9.5):
        found = derived(Ends(10.0, end))
        assert (found["lower"].slack, found["upper"].slack) == (1e-5, 1e-5)
        assert found["gap"] == Derived(end - 10, 2e-5 + 2 * EPS * (10 + end), "above")


def test_what_is_infinite_is_not_claimed():
    for ends in (Ends(None, 1.0), Ends(-math.inf, 1.0), Ends(1.0, None), Ends(1.0, math.inf), Ends(None, None)):
        found = derived(ends)
        assert found["gap"] is None
        assert [found[key] is None for key in ("lower", "upper")] == [
            end is None or not math.isfinite(end) for end in ends
        ]
    assert derived(value=math.inf)["value"] is None
    unknown = derived(violations_upper=np.array([np.inf, 0.3, 0.6, 0.9]))["constraints"]
    assert [one["violation_upper"] is None for one in unknown] == [True, False, False]


def test_constraints_have_the_slack_of_their_rows():
    most, least, both = derived()["constraints"]
    assert (most["name"], most["sense"]) == ("most", "<=")
    assert most["value"] == Derived(2.0, 1e-9 + 4 * EPS * 3, "nowhere")
    assert most["limit"] == Derived(3.0, 0.0, "nowhere")
    assert most["violation"] == Derived(0.0, 1e-9, "nowhere")
    assert most["violation_upper"] == Derived(0.0, 1e-9, "above")
    assert least["value"] == Derived(-2.25, 2e-9 + 4 * EPS * 2, "nowhere")
    assert least["violation_upper"] == Derived(0.3, 2e-9, "above")
    assert both["violation_upper"] == Derived(0.9, 4e-9, "above")
    assert both["value"] == Derived(5.25, 4e-9 + 4 * EPS * 6, "nowhere")


def test_prices_are_sums_of_multipliers():
    prices = derive_prices(LINES, np.array([2.0, 3.0, 4.0, -5.0]))
    assert [one["price"].value for one in prices] == [2.0, 3.0, -1.0]
    assert [one["price"].slack for one in prices] == [16 * EPS, 24 * EPS, 16 * 9 * EPS]
    assert {one["price"].weaker for one in prices} == {"nowhere"}
    assert derive_prices(LINES, None) == [{"price": None}] * 3


def test_every_claim_is_compared():
    here = {"status": "optimal", "upper": Derived(1.0, 0.0, "above"), "rows": [{"x": None}, {"x": 2}]}
    right = {"status": "optimal", "upper": 1.5, "rows": [{"x": None}, {"x": 2}], "more": 7}
    compare(right, here)
    wrong = [
        ({"status": "feasible"}, "status = 'feasible', but the check derives 'optimal'"),
        ({"upper": 0.5}, "upper = 0.5, but the check derives 1.0"),
        ({"rows": []}, "rows = .*, but there are 2"),
        ({"rows": {}}, "rows = .*, but there are 2"),
        ({"rows": [{"x": 0.0}, {"x": 2}]}, "rows x = 0.0, but the check derives None"),
        ({"rows": [{"x": None}, 2]}, "rows x = None, but the check derives 2"),
    ]
    for change, message in wrong:
        with pytest.raises(bd.CertificateError, match=f"the file claims {message}"):
            compare(right | change, here)


def test_a_gap_is_the_distance_of_the_bounds_and_within_the_goal():
    claims = {"status": "optimal", "lower": 1.0, "upper": 1.5, "gap": 0.5}
    check_gap(claims)
    check_gap(claims | {"gap": None})
    with pytest.raises(bd.CertificateError, match=r"gap = 0\.25, which is not upper - lower"):
        check_gap(claims | {"gap": 0.25})
    check_goal(claims, Goal(0.5, False))
    check_goal(claims | {"status": "feasible"}, Goal(0.25, False))
    with pytest.raises(bd.CertificateError, match=r"a gap of 0\.5, but counts one of 0\.25"):
        check_goal(claims, Goal(0.25, False))
