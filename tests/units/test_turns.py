"""Members of mixtures take turns: what is run adds up to what was mixed."""

import cvxpy as cp
import numpy as np
import pytest

from bidual import Problem
from bidual.loop.explorers import PlanMixture
from bidual.loop.explorers._controls import TurnState, choose_member
from bidual.problem.features import computed, signal
from bidual.world.policies import AffineFeedback, ControlPolicy

H = 3
ROOM = np.ones(1)
FEATURES = computed(
    cost=lambda x, u, y: x[0], risk=lambda x, u, y: x[0], at=signal(lambda x, u, y: x, -9.0, 9.0, size=2)
)
X = FEATURES.embedding(H, total=True)
LINEAR = Problem(cp.Minimize(X.cost), {"risk": X.risk <= 1.0}).program()
CONVEX = Problem(cp.Minimize(cp.norm(X.at)), {"risk": X.risk <= 1.0, "far": cp.norm(X.at) <= 2.0}).program()
Y = cp.Variable()
OTHER = Problem(cp.Minimize(cp.norm(X.at - Y)), {"risk": X.risk <= Y}).program()


def _mixed(weights, sums):
    """Members that are expected to see these sums over the episode: cost, risk, and two numbers."""
    policy = ControlPolicy(
        AffineFeedback(np.zeros((H, 1)), np.zeros((H, 2)), np.zeros((H, 1, 2))), low=-1 * ROOM, high=ROOM
    )
    expected = tuple(np.tile(np.asarray(one, dtype=float) / H, (H, 1)) for one in sums)
    return PlanMixture((policy,) * len(sums), np.asarray(weights, dtype=float), 1, expected)


def _run(program, mixtures):
    """The members that were run, and what is owed in the end."""
    turn_state, places = None, []
    for mixed in mixtures:
        place, turn_state = choose_member(program, mixed, turn_state)
        places.append(place)
    return places, turn_state


@pytest.mark.parametrize("program", [LINEAR, CONVEX, OTHER])
@pytest.mark.parametrize("share", [0.5, 0.3, 0.04])
def test_a_mixture_that_stays_is_run_in_its_shares(program, share):
    """One member's share of any stretch of 100 episodes is off by two turns at most; 5 is usual at random for .5."""
    mixed = _mixed([share, 1 - share], [[1.0, 4.0, 1.0, 0.0], [3.0, 0.0, 0.0, 2.0]])
    places = np.array(_run(program, [mixed] * 300)[0])
    counts = np.convolve(places == 0, np.ones(100), "valid")
    assert np.abs(counts - 100 * share).max() <= 2


@pytest.mark.parametrize("program", [LINEAR, CONVEX])
def test_mixtures_that_change_add_up(program):
    """Sums over 800 mixtures of three random members: at random they would be off by 20 or so, in every number."""
    rng = np.random.default_rng(0)
    mixtures = [_mixed(rng.dirichlet(np.ones(3)), rng.standard_normal((3, 4))) for _ in range(800)]
    places, _ = _run(program, mixtures)
    run = np.sum([m.expected[i].sum(axis=0) for m, i in zip(mixtures, places, strict=True)], axis=0)
    mean = np.sum([m.weights @ [e.sum(axis=0) for e in m.expected] for m in mixtures], axis=0)
    counted = slice(0, 2) if program is LINEAR else slice(1, 4)  # what the problem is about
    assert np.abs(run - mean)[counted].max() <= 4.0


def test_units_do_not_matter():
    """A risk in thousandths has members run in the same turns."""
    rng = np.random.default_rng(1)
    drawn = [(rng.dirichlet(np.ones(3)), rng.standard_normal((3, 4))) for _ in range(50)]
    first, _ = _run(LINEAR, [_mixed(*one) for one in drawn])
    scaled = [_mixed(weights, sums * [1.0, 1e3, 1.0, 1.0]) for weights, sums in drawn]
    assert first == _run(LINEAR, scaled)[0]
    assert len(set(first)) == 3


def test_a_single_member_owes_nothing():
    place, turn_state = choose_member(LINEAR, _mixed([1.0], [[1.0, 2.0, 0.0, 0.0]]), None)
    assert place == 0
    np.testing.assert_array_equal(turn_state.debt, [0.0, 0.0])
    np.testing.assert_array_equal(turn_state.spread, [0.0, 0.0])


def test_debts_fade():
    """What was owed from the bad models of the first episodes is not paid back for ever."""
    mixed = _mixed([1.0], [[1.0, 2.0, 0.0, 0.0]])
    turn_state = TurnState(np.array([100.0, 0.0]), np.ones(2))
    for _ in range(200):
        _, turn_state = choose_member(LINEAR, mixed, turn_state)
    assert abs(turn_state.debt[0]) <= 100 * 0.98**200 * 1.01
