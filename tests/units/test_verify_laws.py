"""Laws of the exact verifier against a backward induction written here, in rationals, over small hand-made counts."""

import copy
from fractions import Fraction

import numpy as np
import pytest

from bidual.certificate.verify import ONE, NotDecidedError, span
from bidual.certificate.verify_laws import Laws
from bidual.certificate.verify_numbers import ln
from bidual.certificate.verify_sets import read_row

S, A, H, DELTA = 3, 2, 2, 0.1
LISTS = [
    [0],
    [0, 1],
    [1, 2],
    [0],
    [2],
    [2],
]  # of the pairs s A + a; state 2 is never left, and action 1 of state 1 is not allowed
COUNTS = [[3.0, 0.0], [4.0, 5.0], [2.0, 4.0], [0.0, 0.0], [2.0, 0.0], [0.0, 0.0]]
SIGNALS = np.random.default_rng(0).normal(size=(2, S, A)).round(3)
ARRIVAL = [1, -1.0, 3.0, False, False]  # of feature 1: its ends, whether it is noisy, whether it is paid at the end


def arrays_of(**others):
    lists = [row + [-1] * (2 - len(row)) for row in LISTS]
    given = {
        "policy": np.full((H, S, A), 0.5),
        "successors": np.array(lists).reshape(S, A, 2),
        "transitions": np.array(COUNTS).reshape(1, S, A, 2),
        "starts": np.array([6.0, 4.0, 0.0]),
        "initial": np.array([0.5, 0.5, 0.0]),
        "allowed": np.array([[True, True], [True, False], [True, True]]),
        "absorbing": np.array([False, False, True]),
        "stage": SIGNALS[None],
        "steady": np.zeros(0, dtype=bool),
        "sums": np.zeros((S, A, 2, 0)),
        **others,
    }
    return {name: (np.shape(a), np.ravel(a).tolist()) for name, a in given.items() if a is not None}


def manifest_of(kind="ball", delta=DELTA, **header):
    model = {"set": kind, "open": False, "features": [False, False], "arrivals": [], "observed": [], **header}
    return {"model": model, "claims": {"delta": delta}}


FIRST = [[2.0, 0.0], [2.0, 2.0], [1.0, 3.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
TWICE = np.stack([FIRST, np.array(COUNTS) - FIRST]).reshape(2, S, A, 2)  # in either step, ten episodes each


def read(header=None, **others):
    return Laws(manifest_of(**(header or {})), arrays_of(**others))


def expected(theta, header=None, free=False, seen=None, **others):
    """The least over all policies and laws, written out; `seen` is what arrival in a state pays for each pair."""
    header = {"kind": "ball", "open": False, "features": [False, False], **(header or {})}
    arrays = arrays_of(**others)
    counts = np.array(arrays["transitions"][1]).reshape(-1, S * A, 2)
    stage = np.array(arrays["stage"][1]).reshape(arrays["stage"][0])
    ends, allowed = arrays["absorbing"][1], arrays["allowed"][1]

    def possible(i):
        return S if header["open"] and not ends[i // A] else len(LISTS[i])

    pairs = [i for i in range(S * A) if allowed[i] and not ends[i // A] and (header["open"] or len(LISTS[i]) > 1)]
    claims = sum(map(possible, pairs)) if header["kind"] in ("box", "bernstein") else len(pairs)
    number = len(counts) * claims + ("initial" not in arrays)
    noisy = any(one[3] for one in header.get("observed", []))
    share = ln(span(number / (Fraction(DELTA) / 2 * (Fraction(3, 4) if noisy else 1))))
    V = [0] * S
    for h in reversed(range(H)):
        Q = {}
        for i in (i for i in range(S * A) if allowed[i]):
            s, step = i // A, stage[h % len(stage)]
            features = [*step.reshape(step.shape[0], -1)[:, i]]
            features += [float(s == t) for t in range(S)] if header["features"][0] else []
            features += [float(i == j) for j in range(S * A)] if header["features"][1] else []
            cost = sum(
                (Fraction(theta.get((h, k), 0)) * Fraction(float(x)) for k, x in enumerate(features)), Fraction(0)
            )
            pays = (lambda t, h=h, i=i: seen(h, i, t, free)) if seen else (lambda t: 0)
            to = LISTS[i]
            anywhere = header["open"] and not ends[s]
            ways = [V[t] + pays(t) for t in to]
            if anywhere and (others_left := [V[t] + pays(t) for t in range(S) if t not in to]):
                ways.append(min(others_left))
            if free or i not in pairs:
                chance = min(ways)
            else:
                row = counts[h % len(counts)][i][: len(to)]
                chance = read_row(header["kind"], [int(x) for x in row], possible(i), share).minimum(ways)
            Q[i] = cost * ONE + chance
        V = [min(Q[i] for i in Q if i // A == s) for s in range(S)]
        V = [int(v) for v in V]
    if "initial" in arrays:
        start = [Fraction(x) for x in arrays["initial"][1]]
        return (
            min(v for v, p in zip(V, start, strict=True) if p)
            if free
            else sum(v * p for v, p in zip(V, start, strict=True)) / sum(start)
        )
    share_row = read_row("ball", [int(x) for x in arrays["starts"][1]], S, share)
    return min(V) if free else share_row.minimum(V)


THETA = {
    (h, k): Fraction(x) for (h, k), x in zip([(0, 0), (0, 1), (1, 0), (1, 1)], (1.5, -2.0, 0.5, 0.75), strict=True)
}
KINDS = {
    **{kind: ({"kind": kind}, {}) for kind in ("ball", "box", "bernstein", "l1")},
    "any start": ({}, {"initial": None}),
    "any start, boxes": ({"kind": "box"}, {"initial": None}),
    "anything may follow": ({"open": True}, {}),
    "anything may follow, boxes": ({"open": True, "kind": "box"}, {"initial": None}),
    "a law for every step": ({}, {"transitions": TWICE}),
    "a law for every step, boxes": ({"kind": "box"}, {"transitions": TWICE, "initial": None}),
    "signals of every step": ({}, {"stage": np.stack([SIGNALS, SIGNALS[::-1] * 2])}),
    "start of one state": ({}, {"initial": np.array([1.0, 0.0, 0.0]), "starts": np.array([10.0, 0.0, 0.0])}),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("free", [False, True])
def test_the_least_is_that_of_a_backward_induction(name, free):
    header, others = KINDS[name]
    for sign in (1, -1):
        theta = {key: sign * x for key, x in THETA.items()}
        found = read(header, **others).least(theta, free)
        assert abs(found - expected(theta, header, free, **others)) < 64
    assert read(header, **others).least({}, free) <= 0
    assert read(header, **others).least({}, free) > -64


@pytest.mark.parametrize("visits", [False, True])
@pytest.mark.parametrize("occupancy", [False, True])
def test_indicators_follow_the_signals(visits, occupancy):
    header, width = {"features": [visits, occupancy]}, 2 + S * visits + S * A * occupancy
    laws = read(header)
    assert [len(step) for step in laws.costs] == [width] * H
    rng = np.random.default_rng(1)
    for _ in range(4):
        theta = {(h, k): Fraction(int(x), 8) for (h, k), x in np.ndenumerate(rng.integers(-9, 9, (H, width)))}
        assert abs(laws.least(theta) - expected(theta, header)) < 64
        assert abs(laws.least(theta, free=True) - expected(theta, header, free=True)) < 64
    assert laws.episodes == 10


def observed(noisy=False, steady=True, sums=(0.0, 0.0, 2.0, -1.0, 1.0, 6.0), header=None, **others):
    """A second signal that only the environment shows, on arrival."""
    totals = np.zeros((S, A, 2, 1))
    totals[0, 1, :, 0], totals[1, 0, :, 0], totals[0, 0, 0, 0] = sums[2:4], sums[4:], sums[0]
    stage = np.array([SIGNALS[0], np.zeros((S, A))])[None]
    header = {"observed": [[*ARRIVAL[:3], noisy, False]], **(header or {})}
    return header, {"stage": stage, "steady": np.array([steady]), "sums": totals, **others}


def arrival(theta, laws):
    """What arrival pays, by the part that is tested elsewhere."""
    costs = [{1: span(theta[h, 1])} if theta.get((h, 1)) else {} for h in range(H)]
    return lambda h, i, t, free: laws.signals.least(h, i, t, costs[h], free)


@pytest.mark.parametrize("name", ["observed", "noisy", "open", "noisy and open", "noisy boxes"])
def test_signals_on_arrival_are_within_the_minimum(name):
    header = {"open": "open" in name, "kind": "box" if "boxes" in name else "ball"}
    header, others = observed(noisy="noisy" in name, header=header)
    laws = read(header, **others)
    for sign in (1, -1):
        theta = {key: sign * x for key, x in THETA.items()}
        for free in (False, True):
            right = expected(theta, header, free, arrival(theta, laws), **others)
            assert abs(laws.least(theta, free) - right) < 64
    only_first = {key: x for key, x in THETA.items() if key[1] == 0}
    assert abs(laws.least(only_first) - expected(only_first, header, **others)) < 64


def test_noise_is_shared_over_the_transitions_that_are_possible():
    """A quarter of delta is for both ends of every transition that there may be."""
    for is_open, transitions in ((False, 7), (True, 11)):
        header, others = observed(noisy=True, header={"open": is_open})
        laws = read(header, **others)
        one = laws.signals.observed[0]
        share = ln(span(transitions * 2 / (Fraction(1, 4) * Fraction(DELTA))))
        assert laws.signals.seen[0][2, 2] == one.mean(Fraction(6), 4, share)


def test_a_signal_that_is_no_function_of_the_transition_bounds_episodes_alone():
    header, others = observed(steady=False)
    laws = read(header, **others)
    laws.least(THETA, free=True)
    with pytest.raises(ValueError, match="no function of the transition"):
        laws.least(THETA)


def damage(name, place, number):
    def change(arrays):
        shape, numbers = arrays[name]
        numbers = list(numbers)
        numbers[place] = number
        arrays[name] = shape, numbers

    return change


def reshape(name, shape):
    def change(arrays):
        arrays[name] = shape, arrays[name][1]

    return change


DAMAGES = {
    "a count too many": damage("transitions", 2, 5.0),
    "a count of less than nothing": lambda a: [damage("transitions", 2, -1.0)(a), damage("transitions", 3, 10.0)(a)],
    "half a count": lambda a: [damage("transitions", 2, 3.5)(a), damage("transitions", 3, 5.5)(a)],
    "an episode too many": damage("starts", 0, 7.0),
    "a start of less than nothing": lambda a: [damage("starts", 0, 11.0)(a), damage("starts", 1, -1.0)(a)],
    "half a start": lambda a: [damage("starts", 0, 6.5)(a), damage("starts", 1, 3.5)(a)],
    "a start that cannot be": lambda a: [damage("starts", 0, 5.0)(a), damage("starts", 2, 1.0)(a)],
    "a successor that is no state": damage("successors", 3, 3),
    "a successor twice": damage("successors", 3, 0),
    "a gap in a list": lambda a: [damage("successors", 4, -1)(a), damage("transitions", 4, 0.0)(a)],
    "a count of nothing": lambda a: [damage("transitions", 1, 1.0)(a), damage("transitions", 0, 2.0)(a)],
    "nothing follows": lambda a: [damage("successors", 0, -1)(a), damage("transitions", 0, 0.0)(a)],
    "an end that is left": damage("successors", 8, 0),
    "another length of ends": lambda a: a.update(absorbing=((2,), [False, False])),
    "ends of a fourth state": lambda a: a.update(absorbing=((4,), [False, False, True, False])),
    "successors of another shape": reshape("successors", (2, 3, 2)),
    "counts of another shape": reshape("transitions", (1, 2, 3, 2)),
    "three laws": lambda a: a.update(transitions=((3, S, A, 2), [10.0 / 3] * 36)),
    "starts of another shape": reshape("starts", (1, 3)),
    "another list of allowed actions": reshape("allowed", (2, 3)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_does_not_fit_cannot_be_read(name):
    arrays = arrays_of()
    Laws(manifest_of(), copy.deepcopy(arrays))
    DAMAGES[name](arrays)
    with pytest.raises((ValueError, IndexError)):
        Laws(manifest_of(), arrays)


def test_costs_are_rounded_down():
    third = Fraction(1, 3)
    found = read().least({(1, 0): third}, free=True)
    cheapest = min(Fraction(float(x)) for i, x in enumerate(SIGNALS[0].ravel()) if i != 3)
    assert 0 < cheapest * third * ONE - found < 8


def test_features_have_the_shape_of_the_model():
    _, others = KINDS["signals of every step"]
    assert [len(step) for step in read(**others).costs] == [2, 2]
    for stage in (np.zeros((3, 2, S, A)), np.zeros((1, 2, A, S)), np.zeros((2, S, A))):
        with pytest.raises(ValueError, match="features do not fit"):
            read(stage=stage)


def test_states_of_which_nothing_follows_are_open():
    arrays = arrays_of()
    for change in (damage("successors", 0, -1), damage("transitions", 0, 0.0), damage("transitions", 2, 7.0)):
        change(arrays)
    assert Laws(manifest_of(open=True), copy.deepcopy(arrays)).least(THETA) < 0
    with pytest.raises(ValueError, match="do not fit each other"):
        Laws(manifest_of(), arrays)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5])
def test_delta_is_a_probability(delta):
    with pytest.raises(ValueError, match="delta is"):
        Laws(manifest_of(delta=delta), arrays_of())


def test_what_is_not_known_is_named():
    for header, what in (
        ({"class": {}}, "a class"),
        ({"linear": []}, "known features"),
        ({"kind": "x"}, "the set 'x'"),
    ):
        with pytest.raises(NotDecidedError, match=what):
            read(header)
