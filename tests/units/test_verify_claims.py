"""Claims of the exact verifiers over answers that are written here by hand, with every number known.

A known model of two states and two steps, and a learned one. Nothing is solved and nothing is read from a file.
"""

import copy
import hashlib
import struct
import zipfile
from fractions import Fraction

import numpy as np
import pytest

from bidual.certificate import verify, verify_bets
from bidual.certificate.verify import ONE, Answer, Model, NotDecidedError
from bidual.certificate.verify_learned import LearnedAnswer, read_learned

# In state 0, action 0 stays and action 1 goes to state 1 with probability 3 / 4. Two steps; the start is state 0.
POLICY = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.25, 0.75], [0.0, 1.0]]])
PAY = np.array([[[1.0, 4.0], [2.0, -1.0]], [[0.0, 1.0], [0.0, 0.5]]])  # two signals by state and action


def flat(arrays):
    return {name: (np.shape(a), np.ravel(a).tolist()) for name, a in arrays.items()}


def known(features=(False, False), **others):
    """Minimise the first signal where the second is at most 1: both are sums over the steps."""
    width = 2 + 2 * features[0] + 4 * features[1]
    row = np.zeros((2, width))
    objective, limited = row.copy(), row.copy()
    objective[:, 0], limited[:, 1] = 1, 1
    arrays = {
        "policy": POLICY,
        "next_states": np.array([[[0, 0], [0, 1]], [[1, 1], [0, 1]]])[None],
        "probabilities": np.array([[[1.0, 0.0], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])[None],
        "psi": PAY[None],
        "allowed": np.ones((2, 2), dtype=bool),
        "initial": np.array([1.0, 0.0]),
        "problem_objective": objective,
        "problem_rows": limited[None],
        "problem_limits": np.array([1.25]),
        "problem_equality": np.array([False]),
        "gamma": np.array([1.0]),
        **others,
    }
    # Step 1: 1/2 (1, 0), 1/2 (4, 1). Step 2 in state 0, with 5/8: 1/4 (1, 0), 3/4 (4, 1); in state 1: (-1, 1/2).
    value, paid = Fraction(5, 2) + Fraction(5, 8) * Fraction(13, 4) - Fraction(3, 8), Fraction(1, 2) + Fraction(21, 32)
    claims = {
        "status": "feasible",
        "sense": "minimize",
        "value": float(value),
        "upper": float(value),
        "lower": 0.75,  # below f + gamma g of every policy: 1 + 1 - 1.25
        "gap": float(value - Fraction(3, 4)),
        "constraints": [
            {
                "name": "paid",
                "sense": "<=",
                "value": float(paid),
                "limit": 1.25,
                "violation": 0.0,
                "violation_upper": 0.0,
                "price": 1.0,
            }
        ],
    }
    manifest = {
        "kind": "solution",
        "horizon": 2,
        "features": list(features),
        "objective_weight": 1.0,
        "problem": {"offset": 0.0},
        "lines": [["paid", "<=", 1.0, [1.25]]],
        "goal": [1e-6, False],
        "claims": claims,
    }
    return manifest, flat(arrays)


def outcomes(manifest, arrays, kind=Answer):
    found = {}
    for name, test in kind(manifest, arrays).claims():
        try:
            holds, _ = test()
        except NotDecidedError:
            holds = "not decided"
        except (ArithmeticError, TypeError, ValueError):
            holds = False
        found[name] = holds
    return found


def test_an_answer_by_hand_is_proved():
    manifest, arrays = known()
    manifest["claims"]["lower"] = bound_of(manifest, arrays)
    manifest["claims"]["gap"] = manifest["claims"]["upper"] - manifest["claims"]["lower"]
    found = outcomes(manifest, arrays)
    assert set(found.values()) == {True}, found
    assert len(found) == 9


def bound_of(manifest, arrays):
    """The least of f + gamma g by trying all policies that do not mix."""
    law = np.array(arrays["probabilities"][1]).reshape(2, 2, 2)
    to = np.array(arrays["next_states"][1]).reshape(2, 2, 2)
    gamma, cost = arrays["gamma"][1][0], None
    cost = PAY[0] + gamma * PAY[1]
    V = np.zeros(2)
    for _ in range(2):
        V = (cost + (law * V[to]).sum(axis=2)).min(axis=1)
    return float(V[0] - gamma * manifest["lines"][0][3][0])


def test_bounds_are_exact():
    manifest, arrays = known()
    answer = Answer(*copy.deepcopy((manifest, arrays)))
    assert -(1 << 56) < answer.bound - bound_of(manifest, arrays) * ONE <= 0
    spans = [answer.enclose(form) for form in answer.forms]
    exact = (
        Fraction(manifest["claims"]["value"]),
        Fraction(manifest["claims"]["constraints"][0]["value"]) - Fraction(5, 4),
    )
    for (low, high), x in zip(spans, exact, strict=True):
        assert low <= x * ONE <= high < low + 64
    assert answer.amount(answer.forms[0]) == 8 * ONE  # twice the largest size of the signal
    assert answer.amount(answer.forms[1]) == (2 + Fraction(5, 4)) * ONE
    negative = Answer(*known(psi=-PAY[None]))
    assert negative.amount(negative.forms[0]) == 8 * ONE
    alone = Answer(*known(gamma=np.array([0.0])))
    assert alone.bound == alone.model.least({(h, 0): Fraction(1) for h in range(2)})


@pytest.mark.parametrize("features", [(True, False), (False, True), (True, True)])
def test_indicators_are_features(features):
    manifest, arrays = known(features)
    model = Model(manifest, arrays)
    visits = [np.array([1.0, 0.0]), np.array([5 / 8, 3 / 8])]
    for h in range(2):
        pairs = (visits[h][:, None] * POLICY[h]).ravel()
        expected = [*(PAY.reshape(2, 4) @ pairs), *(visits[h] if features[0] else []), *(pairs if features[1] else [])]
        found = [model.follow()[h, k] for k in range(len(expected))]
        assert [low / ONE for low, _ in found] == pytest.approx(expected, abs=1e-15)
        assert all(0 <= high - low < 64 for low, high in found)
        assert all(low <= Fraction(float(x)) * ONE <= high for (low, high), x in zip(found, expected, strict=True))
    k = len(model.psi[0]) - 1
    least = model.least({(1, k): Fraction(-1)}) / ONE
    assert least == pytest.approx(-0.75, abs=1e-70)  # at most so often in state 1, and there with action 1


def test_models_of_every_step_are_those_of_their_steps():
    manifest, arrays = known()
    swapped = np.array([[[1.0, 0.0], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])
    _, changed = known(
        probabilities=np.stack([swapped, swapped[:, ::-1]]),
        next_states=np.stack([np.array([[[0, 0], [0, 1]], [[1, 1], [0, 1]]])] * 2),
        psi=np.stack([PAY, 2 * PAY]),
    )
    one, two = Model(manifest, arrays), Model(manifest, changed)
    assert one.follow()[0, 0] == two.follow()[0, 0]
    assert two.follow()[1, 0] == tuple(2 * x for x in one.follow()[1, 0])
    form = {(1, 0): Fraction(1)}
    assert two.least(form) == 2 * one.least(form)


CLAIMS = {
    "value": ("value", lambda m, _: m["claims"].update(value=m["claims"]["value"] + 1e-7)),
    "upper": ("upper", lambda m, _: m["claims"].update(upper=m["claims"]["upper"] - 1e-15)),
    "lower": ("lower", lambda m, _: m["claims"].update(lower=0.7500001)),
    "gap": ("gap", lambda m, _: m["claims"].update(gap=m["claims"]["gap"] - 1e-12)),
    "goal": ("status optimal", lambda m, _: m["claims"].update(status="optimal")),
    "infeasible with a weight": ("status infeasible", lambda m, _: m["claims"].update(status="infeasible")),
    "infeasible without": (
        "status infeasible",
        lambda m, _: m.update(objective_weight=0) or m["claims"].update(status="infeasible"),
    ),
    "an unknown status": ("status closed", lambda m, _: m["claims"].update(status="closed")),
    "a violation": ("constraint 'paid' violation", lambda m, _: m["claims"]["constraints"][0].update(violation=1e-7)),
    "less than nothing": (
        "constraint 'paid' violation_upper",
        lambda m, _: m["claims"]["constraints"][0].update(violation_upper=-1e-300),
    ),
    "a price": ("constraint 'paid' price", lambda m, _: m["claims"]["constraints"][0].update(price=1.0000001)),
    "a price of the other sign": (
        "constraint 'paid' price",
        lambda m, _: m["claims"]["constraints"][0].update(price=-1.0),
    ),
    "a value of a constraint": (
        "constraint 'paid' value",
        lambda m, _: m["claims"]["constraints"][0].update(value=1.1562501),
    ),
    "another limit": ("constraint 'paid' value", lambda m, _: m["claims"]["constraints"][0].update(limit=1.0)),
    "a negative multiplier": ("lower", lambda _, a: a.update(gamma=((1,), [-1.0]))),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_false_claims_are_refuted(name):
    claim, change = CLAIMS[name]
    manifest, arrays = known()
    change(manifest, arrays)
    assert outcomes(manifest, arrays)[claim] is False


def tight(limit, sense="<=", **claims):
    """The same answer with a limit that the policy violates by 37 / 32 - limit, where it pays up to 2."""
    manifest, arrays = known(problem_limits=np.array([limit]), problem_equality=np.array([sense == "=="]))
    manifest["lines"] = [["paid", sense, 1.0, [limit]]]
    manifest["claims"].update(claims)
    manifest["claims"]["constraints"][0].update(sense=sense, limit=limit, violation=None, violation_upper=None)
    return manifest, arrays


@pytest.mark.parametrize(("room", "holds"), [(0.9, True), (1.1, False)])
def test_a_limit_is_kept_to_a_billionth_of_what_is_in_it(room, holds):
    """The amounts in the sum are 2 and the limit: 3.16 in all."""
    paid = 37 / 32
    limit = paid - room * (2 + paid) * 1e-9
    assert outcomes(*tight(limit))["status feasible"] is holds
    below = paid + room * (2 + paid) * 1e-9
    assert outcomes(*tight(below, "=="))["status feasible"] is holds
    assert outcomes(*tight(below))["status feasible"] is True


def test_violations_of_equalities_count_on_both_sides():
    for limit in (1.0, 1.3125):
        manifest, arrays = tight(limit, "==")
        manifest["claims"]["constraints"][0].update(violation=5 / 32, violation_upper=5 / 32)
        found = outcomes(manifest, arrays)
        assert found["constraint 'paid' violation"] is True
        assert found["constraint 'paid' violation_upper"] is True
        for key, wrong in (("violation", 0.0), ("violation_upper", 5 / 32 - 1e-15)):
            manifest["claims"]["constraints"][0][key] = wrong
            assert outcomes(manifest, arrays)[f"constraint 'paid' {key}"] is False


@pytest.mark.parametrize(
    ("goal", "closed"), [([2.0, False], False), ([5.0, False], True), ([0.5, True], False), ([0.9, True], True)]
)
def test_an_answer_is_optimal_at_the_goal_in_the_file(goal, closed):
    """The gap is 3.4 or so, of bounds of up to 4.2."""
    manifest, arrays = known()
    manifest["goal"] = goal
    manifest["claims"]["status"] = "optimal"
    assert outcomes(manifest, arrays)["status optimal"] is closed


def test_a_maximum_is_read_upside_down():
    manifest, arrays = known(problem_objective=-np.array([[1.0, 0.0], [1.0, 0.0]]), gamma=np.array([0.0]))
    value = manifest["claims"]["value"]
    manifest["claims"].update(sense="maximize", lower=value, upper=8.0, gap=8.0 - value)
    manifest["claims"]["constraints"][0].update(price=0.0)
    assert set(outcomes(manifest, arrays).values()) == {True}
    manifest["claims"].update(lower=value + 1e-15)
    assert outcomes(manifest, arrays)["lower"] is False
    manifest["claims"].update(lower=value, upper=6.9)  # 4 and then 1/4 of 4, or 1 and 4, are at most 5.5
    assert outcomes(manifest, arrays)["upper"] is True
    manifest["claims"].update(upper=4.9)
    assert outcomes(manifest, arrays)["upper"] is False


def test_constants_in_rows_are_printed():
    manifest, arrays = known()
    reasons = {name: test()[1] for name, test in Answer(manifest, arrays).claims()}
    assert "constant" not in reasons["constraint 'paid' value"]
    manifest["lines"][0][3] = [1.5]
    manifest["claims"]["constraints"][0].update(limit=1.5, value=37 / 32 + 0.25)
    reasons = {name: test() for name, test in Answer(manifest, arrays).claims()}
    assert reasons["constraint 'paid' value"][0]
    assert "of which {0.25} is a constant" in reasons["constraint 'paid' value"][1]


SHAPES = {
    "another horizon": lambda m, _: m.update(horizon=3),
    "no distribution": lambda _, a: a.update(initial=((2,), [0.6, 0.5])),
    "less than nothing": lambda _, a: a.update(initial=((2,), [1.5, -0.5])),
    "another start": lambda _, a: a.update(initial=((3,), [1.0, 0.0, 0.0])),
    "other actions": lambda _, a: a.update(allowed=((3,), [True] * 3)),
    "an action that is not allowed": lambda _, a: a.update(allowed=((2, 2), [True, False, True, True])),
    "a state that is none": lambda _, a: a["next_states"][1].__setitem__(0, 2),
    "a state below 0": lambda _, a: a["next_states"][1].__setitem__(0, -1),
    "signals of another shape": lambda _, a: a.update(psi=((1, 2, 4), a["psi"][1])),
    "signals of three steps": lambda _, a: a.update(psi=((3, 2, 2, 2), a["psi"][1] * 3)),
    "laws of another shape": lambda _, a: a.update(probabilities=((1, 4, 2), a["probabilities"][1])),
    "another number of multipliers": lambda _, a: a.update(gamma=((2,), [1.0, 1.0])),
    "another number of equalities": lambda _, a: a.update(problem_equality=((2,), [False, False])),
    "another number of limits": lambda m, _: m["lines"].append(["more", "<=", 1.0, [1.0]]),
    "a constraint left out": lambda m, _: m["claims"]["constraints"].clear(),
    "a limit too many": lambda _, a: a.update(problem_limits=((2,), [1.25, 0.0])),
    "a row that is short": lambda _, a: a.update(problem_rows=((1, 3), [0.0, 1.0, 0.0])),
    "another weight": lambda m, _: m.update(objective_weight=2.0),
    "another name": lambda m, _: m["lines"][0].__setitem__(0, "else"),
    "another sense": lambda m, _: m["lines"][0].__setitem__(1, ">="),
    "the sense of an equality": lambda m, a: [
        x.update(sense="==") for x in m["claims"]["constraints"] if not m["lines"][0].__setitem__(1, "==")
    ],
    "another sign": lambda m, _: m["lines"][0].__setitem__(2, -1.0),
}


@pytest.mark.parametrize("name", SHAPES)
def test_parts_that_do_not_fit_cannot_be_read(name):
    manifest, arrays = known()
    SHAPES[name](manifest, arrays)
    with pytest.raises((ValueError, TypeError, IndexError)):
        Answer(manifest, arrays).claims()


def test_a_constraint_from_below_has_the_other_sign():
    manifest, arrays = known(
        problem_rows=-np.array([[[0.0, 1.0], [0.0, 1.0]]]), problem_limits=np.array([-1.0]), gamma=np.array([0.0])
    )
    manifest["lines"] = [["paid", ">=", -1.0, [1.0]]]
    manifest["claims"]["constraints"][0].update(sense=">=", limit=1.0, price=0.0)
    manifest["claims"].update(lower=0.0, gap=5.0)
    assert set(outcomes(manifest, arrays).values()) == {True}


def test_small_parts_are_exact():
    one, two = verify.span(1.0), verify.span(Fraction(2))
    assert (one, two) == ((ONE, ONE), (2 * ONE, 2 * ONE))
    third = verify.span(Fraction(1, 3))
    assert third[0] * 3 < ONE < third[1] * 3
    assert third[1] - third[0] == 1
    for a in ((-2, 3), (2, 3), (-3, -2)):
        for b in ((-5, 7), (5, 7), (-7, -5), (-7, 5)):
            ends = [x * y for x in a for y in b]
            spans = [tuple(x * ONE for x in c) for c in (a, b)]
            assert verify.times(*spans) == (min(ends) * ONE, max(ends) * ONE)
    assert verify.times((1, 1), (1, 1)) == (0, 1)
    assert verify.times((-1, -1), (1, 1)) == (-1, 0)
    assert verify.add([(1, 2), (-4, 8)]) == (-3, 10)
    assert verify.add([]) == (0, 0)
    assert verify.cut([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]
    assert verify.cut([], 0) == []
    assert verify.combine([(2, {"a": Fraction(1)}), (-1, {"a": Fraction(2), "b": Fraction(1)})]) == {"b": -1}
    assert verify.distribution([0.5, 0.25, 0.25]) == ([2, 1, 1], 4)
    parts, whole = verify.distribution([0.1] * 10)
    assert whole == sum(parts) > 0
    verify.distribution([0.5, 0.5 + 5e-10])
    verify.distribution([0.0, 1.0])
    for row in ([0.5, 0.5 + 1e-8], [0.5, 0.5 - 1e-8], [1.0 + 1e-10, -1e-10]):
        with pytest.raises(ValueError, match="no distribution"):
            verify.distribution(row)


def test_least_costs_are_rounded_down_over_what_is_allowed():
    manifest, arrays = known()
    third = {(0, 0): Fraction(1, 3)}
    assert Model(manifest, arrays).least(third) == ONE // 3
    _, changed = known(allowed=np.array([[False, True], [True, True]]), policy=POLICY * [[0, 1], [1, 1]] + np.array(
        [[[0, 0.5], [0, 0]], [[0, 0.25], [0, 0]]]
    ))  # fmt: skip
    assert Model(manifest, changed).least(third) == 4 * (ONE // 3)
    answer = Answer(manifest, arrays)
    answer.proof = lambda: {None: Fraction(1, 3)}
    assert answer.bound == ONE // 3


def test_actions_of_the_second_state_are_allowed_on_their_own():
    manifest, arrays = known(
        allowed=np.array([[True, True], [True, False]]),
        policy=POLICY * [[1, 1], [1, 0]] + [[[0, 0], [0, 0]], [[0, 0], [1, 0]]],
    )
    # Its only action pays 2: once in state 1, after 4 in the first step, against 1 and 1.
    assert Model(manifest, arrays).least({(0, 0): Fraction(-1), (1, 0): Fraction(1)}) == (-4 * ONE + 7 * ONE // 4)


def without_room(limit, gamma=1.0):
    """No weight on the objective, and a limit on what is paid, which is 0 at least."""
    manifest, arrays = known(problem_limits=np.array([limit]), gamma=np.array([gamma]))
    manifest["objective_weight"] = 0.0
    manifest["lines"][0][3] = [limit]
    manifest["claims"]["constraints"][0]["limit"] = limit
    manifest["claims"].update(status="infeasible", lower=None, upper=None, gap=None, value=None)
    return outcomes(manifest, arrays)["status infeasible"]


def test_a_clash_is_more_than_nothing():
    assert without_room(-1e-70) is True
    assert without_room(-1.0) is without_room(-1.0, gamma=2.0**-256) is True
    assert without_room(0.0) is False
    assert without_room(1.0) is False


def test_what_is_not_kept_is_named():
    manifest, arrays = tight(1.0)
    reasons = {name: test()[1] for name, test in Answer(manifest, arrays).claims()}
    assert reasons["status feasible"] == "it does not keep ['paid']"


def test_goals_are_relative_to_the_larger_bound():
    manifest, arrays = known()
    manifest["claims"].update(status="optimal", lower=-4.5, upper=-0.5, gap=4.0)
    manifest["goal"] = [0.9, True]
    assert outcomes(manifest, arrays)["status optimal"] is True
    manifest["goal"] = [4.0, False]
    assert outcomes(manifest, arrays)["status optimal"] is True
    manifest["goal"] = [0.8, True]
    assert outcomes(manifest, arrays)["status optimal"] is False


def test_what_is_not_claimed_is_not_decided():
    manifest, arrays = known()
    manifest["claims"].update(status="undecided", lower=None, gap=None, value=None)
    found = outcomes(manifest, arrays)
    assert set(found) == {"value", "upper"} | {name for name in found if name.startswith("constraint")}
    assert found["value"] is False


def test_equalities_may_be_stored_with_the_other_sign():
    manifest, arrays = tight(37 / 32, "==")
    arrays["problem_rows"] = (1, 2, 2), [0.0, -1.0, 0.0, -1.0]
    arrays["problem_limits"], arrays["gamma"] = ((1,), [-37 / 32]), ((1,), [-1.0])
    manifest["lines"][0][2] = -1.0
    found = outcomes(manifest, arrays)
    assert all(found[f"constraint 'paid' {key}"] is True for key in ("value", "price"))
    manifest["lines"][0][2] = -2.0
    with pytest.raises(ValueError, match="does not fit its rows"):
        Answer(manifest, arrays).claims()


def test_an_entry_of_a_vector_has_the_stated_limit():
    rows, gamma = np.array([[[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]), np.array([1.0, 0.0])
    equality = np.array([False, False])
    for limits, right in (([1.25, 9.0], [37 / 32]), ([9.0, 9.0], [37 / 32, 133 / 32])):
        manifest, arrays = known(
            problem_rows=rows, problem_limits=np.array(limits), problem_equality=equality, gamma=gamma
        )
        manifest["lines"][0][3] = limits
        manifest["claims"]["constraints"][0]["limit"] = limits[0]
        for x in (37 / 32, 133 / 32, 2.0):
            manifest["claims"]["constraints"][0]["value"] = x
            assert outcomes(manifest, arrays)["constraint 'paid' value"] is (x in right)
        found = outcomes(manifest, arrays)
        assert found["constraint 'paid' price"] is found["constraint 'paid' violation_upper"] is True
    manifest["claims"]["constraints"][0]["value"] = 37 / 32 + 1.4e-8  # a billionth of the larger amount, 17
    assert outcomes(manifest, arrays)["constraint 'paid' value"] is True


def test_any_negative_multiplier_of_an_inequality_proves_nothing():
    manifest, arrays = known(
        problem_rows=np.zeros((2, 2, 2)),
        problem_limits=np.zeros(2),
        problem_equality=np.array([False, True]),
        gamma=np.array([-1.0, -1.0]),
    )
    manifest["lines"] = [["a", "<=", 1.0, [0.0]], ["b", "==", 1.0, [0.0]]]
    manifest["claims"]["constraints"] *= 2
    with pytest.raises(ValueError, match="is negative"):
        _ = Answer(manifest, arrays).bound
    arrays["gamma"] = (2,), [1.0, -1.0]
    assert Answer(manifest, arrays).bound <= 2 * ONE


def test_prices_of_equalities_may_be_negative():
    manifest, arrays = tight(37 / 32, "==")
    arrays["gamma"] = (1,), [-1.0]
    manifest["claims"]["constraints"][0]["price"] = -1.0
    found = outcomes(manifest, arrays)
    assert found["constraint 'paid' price"] is True
    manifest["claims"]["constraints"][0]["price"] = -1.00000001
    assert outcomes(manifest, arrays)["constraint 'paid' price"] is False


def test_room_is_that_of_the_limit_that_was_stated():
    manifest, arrays = known(problem_limits=np.array([37 / 32 - 1e-4]))
    for limit, holds in ((1e6, True), (1e4, False), (-1e6, True)):
        manifest["lines"][0][3] = [limit]
        assert outcomes(manifest, arrays)["status feasible"] is holds
    manifest, arrays = known(problem_limits=np.array([0.0]), problem_rows=np.zeros((1, 2, 2)))
    manifest["lines"][0][3] = [0.0]
    assert outcomes(manifest, arrays)["status feasible"] is True  # 0 <= 0, and nothing is in it


# Learned answers: the same two states, where action 1 of state 0 is learned.

LOW, HIGH = -2.0, 8.0  # two steps of between -1 and 4


def learned(samples=((1.0, 0.0),) * 30, rounds=(1,), **claims):
    counts = np.zeros((1, 2, 2, 2))
    counts[0, 0, 1], counts[0, 0, 0, 0], counts[0, 1, 0, 0], counts[0, 1, 1] = (25, 75), 60, 20, (10, 10)
    arrays = {
        "policy": POLICY,
        "successors": np.array([[[0, -1], [0, 1]], [[1, -1], [0, 1]]]),
        "transitions": counts,
        "starts": np.array([100.0, 0.0]),
        "initial": np.array([1.0, 0.0]),
        "allowed": np.ones((2, 2), dtype=bool),
        "absorbing": np.zeros(2, dtype=bool),
        "stage": PAY[None],
        "steady": np.zeros(0, dtype=bool),
        "sums": np.zeros((2, 2, 2, 0)),
        "problem_objective": np.array([[1.0, 0.0], [1.0, 0.0]]),
        "problem_rows": np.array([[[0.0, 1.0], [0.0, 1.0]]]),
        "problem_limits": np.array([1.25]),
        "problem_equality": np.array([False]),
        "gamma": np.array([1.0]),
        "numbers": np.array([0, 1]),
        "low": np.array([LOW, -1.25]),
        "high": np.array([HIGH, 0.75]),
        **{f"paid_{i}": np.array(samples) - [0.0, 1.25] for i in range(len(rounds))},
    }
    manifest = {
        "kind": "learned",
        "goal": 1e-6,
        "objective_weight": 1.0,
        "lines": [["paid", "<=", 1.0, [1.25]]],
        "problem": {"offset": 0.0},
        "rounds": list(rounds),
        "model": {"set": "ball", "open": False, "features": [False, False], "arrivals": [], "observed": []},
        "claims": {
            "status": "undecided",
            "sense": "minimize",
            "delta": 0.05,
            "value": None,
            "upper": None,
            "lower": None,
            "gap": None,
            "constraints": [
                {
                    "name": "paid",
                    "sense": "<=",
                    "limit": 1.25,
                    "value": None,
                    "violation": None,
                    "violation_upper": None,
                }
            ],
            **claims,
        },
    }
    return manifest, flat(arrays)


def one(manifest, arrays, claim):
    return outcomes(manifest, arrays, LearnedAnswer)[claim]


def test_what_is_granted_is_said():
    manifest, arrays = learned()
    found = outcomes(manifest, arrays, LearnedAnswer)
    assert found == {"delta": True, **dict.fromkeys(("environment", "counts", "samples", "prices"))}
    reasons = {name: test()[1] for name, test in LearnedAnswer(manifest, arrays).claims()}
    assert "one law for all steps" in reasons["environment"]
    assert "100 episodes" in reasons["counts"]
    assert "as nothing tells" in reasons["samples"]
    assert "rounds [1]" in reasons["delta"]
    assert read_learned(manifest, arrays)
    with pytest.raises(NotDecidedError, match="expressions"):
        read_learned({"problem": {"functions": {}}}, {})


def test_episodes_stay_within_the_ends_of_chance():
    tops = LearnedAnswer(*learned()).tops
    # The least is 1 and 1 again: -1 is paid in the second step alone, after 4.
    expected = {(0, 1): 8, (0, -1): -2, (1, 1): Fraction(3, 4), (1, -1): Fraction(5, 4)}
    for key, x in expected.items():
        assert abs(tops[key] - x) < Fraction(1, 2**200), key


def test_means_are_refuted_at_the_share_of_their_end():
    """30 samples of 1 in [-2, 8]: where the capital reaches 1 / share, by the shares of a round and the end."""
    answer = LearnedAnswer(*learned())
    low, high = verify_bets.shares(0.05, 1, 2)
    for sign, share in ((1, high), (-1, low)):
        ends = verify_bets.SampleRange(sign * answer.ends[0].middle, answer.ends[0].half)
        decided = {
            m: verify_bets.refutes([sign * 1.0] * 30, ends, Fraction(m, 8), share, False) for m in range(-16, 64)
        }
        assert {m: answer.is_below(0, Fraction(m, 8), sign) for m in range(-16, 56)} == {
            m: x or Fraction(m, 8) >= answer.tops[0, sign] for m, x in decided.items() if m < 56
        }
        assert True in decided.values()
    assert answer.is_below(0, Fraction(9))  # above the top, whatever was seen
    assert answer.is_below(0, answer.tops[0, 1])


def test_claims_on_the_policy():
    assert one(*learned(value=1.0), "value") is True
    assert one(*learned(value=1.0 + 5e-9), "value") is True  # a billionth of 8
    assert one(*learned(value=1.0 + 1e-6), "value") is False
    assert one(*learned(upper=8.0), "upper") is True
    assert one(*learned(upper=1.0), "upper") is False
    assert one(*learned(sense="maximize", value=-1.0), "value") is True
    assert one(*learned(sense="maximize", lower=-8.0), "lower") is True
    assert one(*learned(sense="maximize", lower=-0.9), "lower") is False
    bound = Fraction(LearnedAnswer(*learned()).bound, ONE)
    assert one(*learned(lower=float(bound) - 1e-12), "lower") is True
    assert one(*learned(lower=float(bound) + 1e-12), "lower") is False
    assert one(*learned(sense="maximize", upper=-float(bound) + 1e-12), "upper") is True
    assert one(*learned(sense="maximize", upper=-float(bound) - 1e-12), "upper") is False
    assert one(*learned(gap=8.0 - float(bound) + 1e-9), "gap") is True
    assert one(*learned(gap=1.0 - float(bound)), "gap") is False
    assert one(*learned(value=1.0, rounds=()), "value") == "not decided"


def test_the_bound_is_that_of_the_laws():
    manifest, arrays = learned()
    answer = LearnedAnswer(manifest, arrays)
    form = {(h, k): Fraction(1) for h in range(2) for k in range(2)}
    assert answer.bound == answer.laws.least(form) - 5 * ONE // 4
    assert answer.least() == answer.bound
    manifest["problem"]["offset"] = 2.0
    assert LearnedAnswer(manifest, arrays).bound == answer.bound + 2 * ONE
    for weight, gamma in ((0.0, 1.0), (None, 1.0), (1.0, -1.0)):
        manifest["objective_weight"], arrays["gamma"] = weight, ((1,), [gamma])
        with pytest.raises(ValueError, match="multipliers"):
            LearnedAnswer(manifest, arrays).least()
    arrays["problem_equality"] = (1,), [True]
    manifest["objective_weight"] = 1.0
    negative = {(h, k): Fraction(1 - 2 * k) for h in range(2) for k in range(2)}
    assert LearnedAnswer(manifest, arrays).least() == answer.laws.least(negative) + 13 * ONE // 4


def stated(**claims):
    manifest, arrays = learned()
    manifest["claims"]["constraints"][0].update(claims)
    return outcomes(manifest, arrays, LearnedAnswer)


def test_claims_on_a_constraint():
    name = "constraint 'paid' "
    assert stated(value=0.0)[name + "value"] is True
    assert stated(value=1e-6)[name + "value"] is False
    assert stated(value=0.0, limit=1.0)[name + "value"] is False
    assert stated(violation=0.0)[name + "violation"] is True
    assert stated(violation=1e-6)[name + "violation"] is False
    assert stated(violation_upper=0.75)[name + "violation_upper"] is True
    assert stated(violation_upper=0.0)[name + "violation_upper"] is True  # thirty samples of 5/4 below the limit
    assert name + "value" not in stated()


def equal(samples=((1.0, 1.25),) * 30, **claims):
    manifest, arrays = learned(samples)
    manifest["lines"][0][1] = "=="
    manifest["claims"]["constraints"][0].update(sense="==", **claims)
    arrays["problem_equality"] = (1,), [True]
    return outcomes(manifest, arrays, LearnedAnswer)


def test_equalities_are_bounded_on_both_sides():
    name = "constraint 'paid' "
    assert equal(violation=0.0)[name + "violation"] is True
    for samples in (((1.0, 1.5),) * 30, ((1.0, 1.0),) * 30):
        assert equal(samples, violation=0.25)[name + "violation"] is True
        assert equal(samples, violation_upper=0.2)[name + "violation_upper"] is False
    assert equal(violation_upper=1.25)[name + "violation_upper"] is True
    assert equal(((1.0, 2.0),) * 30, violation_upper=0.7)[name + "violation_upper"] is False
    assert equal(((1.0, 0.0),) * 30, violation_upper=1.2)[name + "violation_upper"] is False


def test_statuses_of_learned_answers():
    assert one(*learned(status="feasible"), "status feasible") is True
    assert one(*learned(((1.0, 1.25),) * 30, status="feasible"), "status feasible") is False
    assert one(*learned(status="optimal", gap=1e-7), "status optimal") is True
    assert one(*learned(status="optimal", gap=1e-5), "status optimal") is False
    assert one(*learned(status="closed"), "status closed") is False
    assert one(*learned(status="infeasible"), "status infeasible") is False
    manifest, arrays = learned(status="infeasible")
    manifest["objective_weight"] = 0.0
    assert one(manifest, arrays, "status infeasible") is False
    arrays["problem_limits"], arrays["low"], arrays["high"] = ((1,), [-1.0]), ((2,), [LOW, 0.0]), ((2,), [HIGH, 4.0])
    manifest["lines"][0][3] = [-1.0]
    manifest["claims"]["constraints"][0]["limit"] = -1.0
    assert one(manifest, arrays, "status infeasible") is True


def test_reasons_count_episodes_and_name_the_rounding():
    """Ends by bets are halved to 2^-32 of half the range: 5 for the objective, 1 for the constraint."""
    manifest, arrays = learned(upper=8.0, gap=20.0)
    manifest["claims"]["constraints"][0]["violation_upper"] = 0.0
    reasons = {name: test()[1] for name, test in LearnedAnswer(manifest, arrays).claims()}
    text = "30 fresh episodes refute every larger mean; bounds are stated to "
    assert reasons["upper"] == reasons["gap"] == text + "1.2e-09"
    assert reasons["constraint 'paid' violation_upper"] == text + "2.3e-10"
    answer = LearnedAnswer(manifest, arrays)
    assert [answer.amount(i) / ONE for i in (0, 1)] == pytest.approx([8, 1.25], rel=1e-8)


def vector(samples=((2.0, 0.5),) * 30, sense="<=", **claims):
    """Both signals in one constraint, below 8 and 1.25: the amounts of the rows are 13 and 1.25."""
    manifest, arrays = learned(samples)
    arrays["problem_rows"] = (2, 2, 2), [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    arrays["problem_limits"], arrays["problem_equality"] = ((2,), [8.0, 1.25]), ((2,), [sense == "=="] * 2)
    arrays["numbers"], arrays["gamma"] = ((3,), [0, 1, 2]), ((2,), [1.0, 1.0])
    arrays["low"], arrays["high"] = ((3,), [LOW, -10.0, -1.25]), ((3,), [HIGH, 0.0, 0.75])
    paid = np.array(samples) - [0.0, 1.25]
    arrays["paid_0"] = (len(samples), 3), np.insert(paid, 1, paid[:, 0] - 8, axis=1).ravel().tolist()
    manifest["lines"] = [["paid", sense, 1.0, [8.0, 1.25]]]
    manifest["claims"]["constraints"][0].update(sense=sense, **claims)
    return manifest, arrays


def of_vector(key, *args, **claims):
    return outcomes(*vector(*args, **claims), LearnedAnswer)[f"constraint 'paid' {key}"]


def test_the_worst_row_of_a_constraint_counts():
    assert of_vector("value", value=0.5) is True
    assert of_vector("value", value=0.5 + 5e-9) is True  # a billionth of the larger amount
    assert of_vector("value", value=2.0) is False
    assert of_vector("value", value=2.0, limit=8.0) is True
    assert of_vector("violation", violation=0.0) is True
    above = ((2.0, 1.5),) * 30
    assert of_vector("violation", above, violation=0.25) is True
    assert of_vector("violation", above, violation=0.0) is False
    assert of_vector("violation", sense="==", violation=6.0) is True
    assert of_vector("violation_upper", violation_upper=0.0) is True
    assert of_vector("violation_upper", above, violation_upper=0.1) is False
    reasons = {name: test()[1] for name, test in LearnedAnswer(*vector(violation_upper=0.0)).claims()}
    assert reasons["constraint 'paid' violation_upper"].endswith("1.2e-09")


def test_any_entry_with_the_stated_limit_may_be_meant():
    manifest, arrays = vector()
    manifest["lines"][0][3] = [8.0, 8.0]
    for x, right in ((2.0, True), (8 - 0.75, True), (5.0, False)):
        manifest["claims"]["constraints"][0].update(limit=8.0, value=x)
        assert one(manifest, arrays, "constraint 'paid' value") is right


def test_constraints_have_their_own_rows():
    manifest, arrays = vector()
    arrays["problem_equality"] = (2,), [False, True]
    manifest["lines"] = [["paid", "<=", 1.0, [8.0]], ["more", "==", 1.0, [1.25]]]
    more = {**manifest["claims"]["constraints"][0], "name": "more", "sense": "==", "violation": 0.75}
    manifest["claims"]["constraints"][0].update(limit=8.0, violation=0.0)
    manifest["claims"]["constraints"].append(more)
    found = outcomes(manifest, arrays, LearnedAnswer)
    assert found["constraint 'paid' violation"] is found["constraint 'more' violation"] is True


def test_rows_are_equalities_one_by_one():
    manifest, arrays = vector()
    arrays["problem_equality"] = (2,), [True, False]
    with pytest.raises(ValueError, match="does not fit its rows"):
        LearnedAnswer(manifest, arrays).claims()
    answer = LearnedAnswer(manifest, arrays)
    assert answer.keeps(2, Fraction(0))
    assert not answer.keeps(1, Fraction(0))
    arrays["gamma"] = (2,), [-1.0, 1.0]
    assert LearnedAnswer(manifest, arrays).bound
    arrays["gamma"] = (2,), [1.0, -1.0]
    with pytest.raises(ValueError, match="multipliers"):
        _ = LearnedAnswer(manifest, arrays).bound


def test_constants_are_rounded_down():
    manifest, arrays = learned()
    arrays["gamma"] = (1,), [0.0]
    answer = LearnedAnswer(manifest, arrays)
    first = {(h, 0): Fraction(1) for h in range(2)}
    assert answer.bound == answer.laws.least(first)
    arrays["gamma"], arrays["problem_limits"] = ((1,), [2.0**-200]), ((1,), [2.0**-100])
    manifest["lines"][0][3] = [2.0**-100]
    answer = LearnedAnswer(manifest, arrays)
    form = first | {(h, 1): Fraction(1, 2**200) for h in range(2)}
    assert answer.bound == answer.laws.least(form) - 1


def test_a_clash_of_a_unit_is_a_clash():
    manifest, arrays = learned(status="infeasible")
    manifest["objective_weight"] = 0.0
    manifest["lines"][0][3] = [-1.0]
    manifest["claims"]["constraints"][0]["limit"] = -1.0
    arrays["problem_limits"] = (1,), [-1.0]
    for gamma, clash in ((2.0**-256, True), (0.0, False)):
        arrays["gamma"] = (1,), [gamma]
        assert LearnedAnswer(manifest, arrays).bound == clash
        assert one(manifest, arrays, "status infeasible") is clash


def test_means_keep_their_sign_and_their_digits():
    twice = ((2.0, 0.0),) * 30
    assert one(*learned(twice, value=2.0), "value") is True
    assert one(*learned(twice, sense="maximize", value=-2.0), "value") is True
    assert one(*learned(status="optimal", gap=1e-6), "status optimal") is True
    for limit in (1e6, -1e6):
        manifest, arrays = learned()
        manifest["lines"][0][3] = [limit]
        for room, holds in ((5e-4, True), (2e-3, False)):
            manifest["claims"]["constraints"][0].update(limit=limit, value=limit - 1.25 + room)
            assert one(manifest, arrays, "constraint 'paid' value") is holds
    with pytest.raises(ValueError, match="only shown to stay"):
        LearnedAnswer(manifest, {**arrays, "low": ((2,), [LOW, -1.0])}).is_below(1, Fraction(0))


@pytest.mark.parametrize(("sense", "sign"), [(">=", -1.0), ("==", -1.0)])
def test_learned_rows_may_have_the_other_sign(sense, sign):
    manifest, arrays = learned(((1.0, 2.0),) * 30)
    arrays["problem_rows"], arrays["problem_limits"] = ((1, 2, 2), [0.0, -1.0, 0.0, -1.0]), ((1,), [-1.25])
    arrays["problem_equality"] = (1,), [sense == "=="]
    arrays["low"], arrays["high"] = ((2,), [LOW, -0.75]), ((2,), [HIGH, 1.25])
    arrays["paid_0"] = (30, 2), [1.0, -0.75] * 30
    manifest["lines"] = [["paid", sense, sign, [1.25]]]
    manifest["claims"]["constraints"][0].update(sense=sense, value=2.0)
    assert one(manifest, arrays, "constraint 'paid' value") is True
    manifest["lines"][0][2] = 2 * sign
    with pytest.raises(ValueError, match="does not fit its rows"):
        LearnedAnswer(manifest, arrays).claims()


def test_no_constant_is_not_printed():
    for limit in (1.25, 0.0):
        manifest, arrays = learned()
        arrays["problem_limits"], manifest["lines"][0][3] = ((1,), [limit]), [limit]
        arrays["paid_0"] = (30, 2), [1.0, -limit] * 30
        manifest["claims"]["constraints"][0].update(limit=limit, value=0.0)
        holds, why = {name: test() for name, test in LearnedAnswer(manifest, arrays).claims()}[
            "constraint 'paid' value"
        ]
        assert holds
        assert "constant" not in why


def test_samples_belong_to_a_numbering_too():
    manifest, arrays = learned()
    manifest["numbering"] = {"b": 1, "a": [2]}
    packed = struct.pack(f"<{POLICY.size}d", *POLICY.ravel())
    text = f'[{{"a": [2], "b": 1}}]<f8{POLICY.shape}'
    manifest["policies"] = [hashlib.sha256(text.encode() + packed).hexdigest()[:32]]
    LearnedAnswer(manifest, arrays)


def test_rounds_share_delta_and_may_decide_one_by_one():
    manifest, arrays = learned(rounds=(1, 2), violation_upper=0.0)
    arrays["paid_0"] = (1, 2), [1.0, -1.25]
    answer = LearnedAnswer(manifest, arrays)
    assert answer.is_below(1, Fraction(0))  # by the second round
    assert answer.mean(0) == 1
    manifest["rounds"] = [2, 2]
    assert one(manifest, arrays, "delta") is False


def test_wide_ranges_are_asked_for():
    manifest, arrays = learned(upper=5.0)
    for name, numbers in (("low", [2.5, -1.25]), ("high", [7.5, 0.75])):
        narrow = {**arrays, name: ((2,), numbers)}
        with pytest.raises(ValueError, match="only shown to stay"):
            LearnedAnswer(manifest, narrow).is_below(0, Fraction(5))


def digest_of(policy):
    packed = struct.pack(f"<{policy.size}d", *policy.ravel())
    return hashlib.sha256(f"[]<f8{policy.shape}".encode() + packed).hexdigest()[:32]


@pytest.mark.parametrize("owners", [["x"], [None, None], []])
def test_samples_belong_to_the_policy(owners):
    manifest, arrays = learned()
    manifest["policies"] = [digest_of(POLICY)]
    reasons = {name: test()[1] for name, test in LearnedAnswer(manifest, arrays).claims()}
    assert "as nothing tells" not in reasons["samples"]
    manifest["policies"] = owners
    with pytest.raises(ValueError, match="of another policy"):
        LearnedAnswer(manifest, arrays)


LEARNED_SHAPES = {
    "a constraint left out": lambda m, _: m["claims"]["constraints"].clear(),
    "a limit too many": lambda _, a: a.update(problem_limits=((2,), [1.25, 0.0])),
    "a row that is short": lambda _, a: a.update(problem_rows=((1, 3), [0.0, 1.0, 0.0])),
    "flags of more rounds": lambda m, _: m.update(uniform=[True, False]),
    "a round without a number": lambda m, _: m.update(rounds=[0]),
    "a round of half": lambda m, _: m.update(rounds=[1.5]),
    "samples of other functionals": lambda _, a: a.update(paid_0=((20, 3), [0.0] * 60)),
    "another numbering": lambda _, a: a.update(numbers=((2,), [1, 0])),
    "another number of ends": lambda _, a: a.update(low=((3,), [LOW, -1.25, 0.0]), high=((3,), [HIGH, 0.75, 1.0])),
    "another weight": lambda m, _: m.update(objective_weight=0.5),
    "another number of multipliers": lambda _, a: a.update(gamma=((2,), [1.0, 1.0])),
    "another number of equalities": lambda _, a: a.update(problem_equality=((2,), [False, False])),
    "another number of limits": lambda m, _: m["lines"][0][3].append(1.0),
    "another name": lambda m, _: m["lines"][0].__setitem__(0, "else"),
    "another sense": lambda m, _: m["lines"][0].__setitem__(1, "=="),
    "senses of no equality": lambda m, _: (
        m["lines"][0].__setitem__(1, "=="),
        m["claims"]["constraints"][0].update(sense="=="),
    ),
    "another sign": lambda m, _: m["lines"][0].__setitem__(2, -1.0),
}


@pytest.mark.parametrize("name", LEARNED_SHAPES)
def test_parts_of_a_learned_answer_that_do_not_fit_cannot_be_read(name):
    manifest, arrays = learned()
    LearnedAnswer(*copy.deepcopy((manifest, arrays))).claims()
    LEARNED_SHAPES[name](manifest, arrays)
    with pytest.raises(ValueError, match=r"fit|round|argument|longer|shorter"):
        LearnedAnswer(manifest, arrays).claims()


def test_constants_of_learned_rows_are_printed():
    manifest, arrays = learned()
    manifest["lines"][0][3] = [1.5]
    manifest["claims"]["constraints"][0].update(limit=1.5, value=0.25)
    found = {name: test() for name, test in LearnedAnswer(manifest, arrays).claims()}
    holds, why = found["constraint 'paid' value"]
    assert holds
    assert "of which {0.25} is a constant" in why


# Files, verdicts and exit codes.


def test_checksums_are_compared(tmp_path):
    blob = (2).to_bytes(8, "little") + b"{}"
    for change, right in (("", True), ("x", False)):
        found = hashlib.sha256(b'{"kind": "x"}' + blob).hexdigest()
        with zipfile.ZipFile(tmp_path / "x", "w") as archive:
            archive.writestr("manifest.json", f'{{"kind": "x", "sha256": "{found[: 64 - len(change)]}{change}"}}')
            archive.writestr("arrays.safetensors", blob)
        if right:
            assert verify.read(str(tmp_path / "x")) == ({"kind": "x"}, {})
        else:
            with pytest.raises(ValueError, match="checksum"):
                verify.read(str(tmp_path / "x"))


def test_verdicts_are_those_of_the_claims(monkeypatch, capsys):
    def fail(error):
        raise error

    claims = [
        ("a", lambda: (True, "yes")),
        ("b", lambda: (None, "given")),
        ("c", lambda: fail(NotDecidedError("who knows"))),
        ("d", lambda: (False, "no")),
        ("e", lambda: fail(ValueError("NaN"))),
    ]
    monkeypatch.setattr(verify, "read", lambda _: ({"kind": "some"}, {}))
    outcomes = ["proved", "granted", "not decided", "refuted", "refuted"]
    for count, code in ((1, 0), (2, 0), (3, 4), (4, 1), (5, 1)):
        shown = []
        assert verify.main(["FILE"], shown.append, some=lambda m, a, n=count: claims[:n]) == code
        assert [line.split("  ")[0] for line in shown] == outcomes[:count]
    assert shown[0] == "proved       a: yes"
    assert verify.main(["FILE"], shown.append) == 4  # a kind that nobody reads
    monkeypatch.setattr(verify, "read", lambda _: fail(KeyError("x")))
    assert verify.main(["FILE"], shown.append) == 5
    assert "FILE cannot be read: KeyError('x')" in capsys.readouterr().err
