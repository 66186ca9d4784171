"""Toy-text environments as models: ended episodes stay ended, signals are read off the table, mistakes are named."""

import sys

import cvxpy as cp
import gymnasium
import numpy as np
import pytest

import bidual as bd

# A corridor of three cells: action 0 waits (paid -1), action 1 walks on with probability 0.8 and ends at cell 2.
# As in CliffWalking and Taxi, the last cell of P is not absorbing.
CORRIDOR = {
    0: {0: [(1.0, 0, -1, False)], 1: [(0.8, 1, 0, False), (0.2, 0, 0, False)]},
    1: {0: [(1.0, 1, -1, False)], 1: [(0.8, 2, 10, True), (0.2, 1, 0, False)]},
    2: {0: [(1.0, 2, -1, False)], 1: [(1.0, 0, -1, False)]},
}


class Table(gymnasium.Env):
    def __init__(self, P=CORRIDOR, start=(1.0, 0.0, 0.0)):
        self.P = P
        if start is not None:
            self.initial_state_distrib = np.array(start)


def _with(state, action, entries):
    P = {s: dict(row) for s, row in CORRIDOR.items()}
    P[state][action] = entries
    return Table(P)


def _total(mdp, signal):
    x = mdp.embedding(signal=signal)
    return bd.solve(bd.Problem(cp.Maximize(cp.sum(x.signal))), mdp).value


def test_ended_episodes_stay_in_one_added_state():
    mdp = bd.TabularMDP.from_gymnasium(Table(), horizon=4)
    assert repr(mdp) == "TabularMDP(4 states, 2 actions, horizon 4)"
    lists = mdp.successors
    law = np.zeros((4, 2, 4))
    for s, a, k in np.ndindex(lists.states.shape[1:]):
        law[s, a, lists.states[0, s, a, k]] += lists.probabilities[0, s, a, k]
    np.testing.assert_allclose(law[1, 1], [0, 0.2, 0, 0.8])
    np.testing.assert_array_equal(law[3], [[0, 0, 0, 1]] * 2)
    np.testing.assert_array_equal(mdp.initial, [1, 0, 0, 0])


def test_the_reward_is_paid_once():
    mdp = bd.TabularMDP.from_gymnasium(Table(), horizon=2)
    assert _total(mdp, lambda t: t.reward) == pytest.approx(10 * 0.8**2)


def test_signals_are_functions_of_the_transition():
    mdp = bd.TabularMDP.from_gymnasium(Table(), horizon=2)
    x = mdp.embedding(
        reward=lambda t: t.reward,
        waits=lambda t: t.action == 0,
        moved=lambda t: t.next_state != t.state,
        ended=lambda t: t.terminated,
        cell=np.arange(4),
    )
    reward, waits, moved, ended, cell = x.features.stage(mdp.successors).signals[0]
    np.testing.assert_allclose(reward, [[-1, 0], [-1, 8], [-1, -1], [0, 0]])
    np.testing.assert_allclose(waits, [[1, 0]] * 3 + [[0, 0]])
    np.testing.assert_allclose(moved, [[0, 0.8], [0, 0.8], [0, 1], [0, 0]])
    np.testing.assert_allclose(ended, [[0, 0], [0, 0.8], [0, 0], [0, 0]])
    np.testing.assert_allclose(cell[:, 0], [0, 1, 2, 3])


def test_a_function_that_gives_no_number_is_refused():
    mdp = bd.TabularMDP.from_gymnasium(Table(), horizon=2)
    with pytest.raises(bd.ModelError, match=r"signal 'odd' gives None for Transition\(state=0, action=0"):
        mdp.embedding(odd=lambda t: None)
    with pytest.raises(bd.ModelError, match="signal 'odd' is nan at"):
        mdp.embedding(odd=lambda t: np.nan)


def test_a_function_needs_a_model_with_a_table():
    mdp = bd.TabularMDP(np.ones((1, 1, 1)), 0, 2)
    with pytest.raises(bd.ModelError, match="signal 'odd' is a function"):
        mdp.embedding(odd=lambda t: 1.0)


def test_impossible_transitions_are_not_looked_at():
    mdp = bd.TabularMDP.from_gymnasium(_with(0, 0, [(1.0, 0, -1, False), (0.0, 1, np.inf, True)]), horizon=2)
    assert mdp.embedding(reward=lambda t: t.reward).shape == (2, 1)


@pytest.mark.parametrize(("start", "law"), [(1, [0, 1, 0, 0]), ([0.5, 0.5, 0.0], [0.5, 0.5, 0, 0])])
def test_another_start_law(start, law):
    for env in (Table(), Table(start=None)):
        np.testing.assert_array_equal(bd.TabularMDP.from_gymnasium(env, 2, initial=start).initial, law)


@pytest.mark.parametrize(
    ("name", "options", "states", "actions"),
    [
        ("FrozenLake-v1", {"map_name": "8x8"}, 65, 4),
        ("FrozenLake-v1", {"is_slippery": False}, 17, 4),
        ("CliffWalking-v1", {}, 49, 4),
        ("Taxi-v4", {"is_rainy": True}, 501, 6),
    ],
)
def test_gymnasium_by_name_and_by_object_are_the_same(name, options, states, actions):
    mdp = bd.TabularMDP.from_gymnasium(name, 20, **options)
    same = bd.TabularMDP.from_gymnasium(gymnasium.make(name, **options), 20)
    assert (mdp.num_states, mdp.num_actions, mdp.horizon) == (states, actions, 20)
    np.testing.assert_array_equal(mdp.successors.states, same.successors.states)
    np.testing.assert_array_equal(mdp.successors.probabilities, same.successors.probabilities)


def test_the_best_return_of_taxi_is_the_known_one():
    """All 300 starts can be served within 20 steps; breadth-first search gives the shortest ways."""
    mdp = bd.TabularMDP.from_gymnasium("Taxi-v4", horizon=20)
    P = gymnasium.make("Taxi-v4").unwrapped.P
    left, level, reached = {}, {s for s in P for a in P[s] if P[s][a][0][3]}, 1
    while level:
        left |= dict.fromkeys(level, reached)
        level = {s for s in P if s not in left for a in P[s] if P[s][a][0][1] in level}
        reached += 1
    steps = sum(mdp.initial[s] * left[s] for s in range(500) if mdp.initial[s])
    assert _total(mdp, lambda t: t.reward) == pytest.approx(21 - steps, abs=1e-6)  # the last step pays 20, not -1 + 20


class Impostor:
    unwrapped = Table()


class Custom(gymnasium.Wrapper):
    pass


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Impostor(), "needs a gymnasium.Env, or the name of one; got a Impostor"),
        (gymnasium.Env(), "Env has no table P of transitions.*bd.TabularMDP"),
        ("Blackjack-v1", "BlackjackEnv has no table P"),
        ("NoSuchLake-v1", "gymnasium cannot make 'NoSuchLake-v1'.*NameNotFound"),
        (Table(start=None), "Table has no initial_state_distrib: .*initial="),
        (Table(start=(1.0, 0.0)), r"initial must be .* \(S,\) = \(3,\); got shape \(2,\)"),
        (Table(start=(0.5, 0.0, 0.0)), "initial sums to 0.5"),
        (Table({}), "P is empty"),
        (Table({0: CORRIDOR[0], 2: CORRIDOR[1]}), r"the states of P must be numbered 0, 1, 2, .*got 0, 2"),
        (Table({0: {0: [], 2: []}}), r"the actions of P\[0\] must be numbered"),
        (Table({**CORRIDOR, 1: {0: []}}), r"P\[1\] has 1 action, but P\[0\] has 2"),
        (_with(1, 0, [(0.7, 0, -1, False)]), r"the probabilities of P\[1\]\[0\] sum to 0\.7, not 1"),
        (_with(1, 0, []), r"the probabilities of P\[1\]\[0\] sum to 0, not 1"),
        (_with(1, 0, [(1.5, 0, 0, False), (-0.5, 1, 0, False)]), r"P\[1\]\[0\] holds the probability -0\.5"),
        (_with(1, 0, [(np.nan, 0, 0, False)]), r"P\[1\]\[0\] holds the probability nan"),
        (_with(1, 0, [(1.0, 3, 0, False)]), r"P\[1\]\[0\] leads to state 3, but states are numbered 0 to 2"),
        (_with(1, 0, [(1.0, 0, 0)]), r"P\[1\]\[0\] must be a list of \(probability, next state, reward, terminated\)"),
        (_with(1, 0, [(1.0, 0.5, 0, False)]), r"P\[1\]\[0\] must be a list of"),
        (_with(1, 0, 7), r"P\[1\]\[0\] must be a list of"),
        (gymnasium.make("Taxi-v4", fickle_passenger=True), "fickle"),
        (
            gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda r: 2 * r),
            "wrapper TransformReward may change .*env.unwrapped",
        ),
        (Custom(gymnasium.make("FrozenLake-v1")), "wrapper Custom may change"),
    ],
)
def test_what_is_no_model_is_refused(env, message):
    with pytest.raises(bd.ModelError, match=message):
        bd.TabularMDP.from_gymnasium(env, horizon=3)


def test_options_belong_to_a_name():
    with pytest.raises(bd.ModelError, match=r"is_slippery: options .* only with the name"):
        bd.TabularMDP.from_gymnasium(Table(), 3, is_slippery=False)
    with pytest.raises(bd.ModelError, match="gymnasium cannot make 'FrozenLake-v1' with map_name='9x9'"):
        bd.TabularMDP.from_gymnasium("FrozenLake-v1", 3, map_name="9x9")


def test_without_gymnasium_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(bd.ModelError, match="pip install gymnasium"):
        bd.TabularMDP.from_gymnasium("FrozenLake-v1", 3)


def test_functions_of_a_transition_tell_no_probabilities():
    """A signal is paid on arrival where state and action do not say what it is: a third of a fall would say how likely
    it is. Only at the start, where one may bump or fall onto the same cell, two transitions pay differently (cells 37
    to 46 are the cliff, where nobody ever stands).
    """
    mdp = bd.TabularMDP.from_gymnasium("CliffWalking-v1", 5, is_slippery=True)
    features = mdp.embedding(falls=lambda t: t.reward == -100, grass=lambda t: t.state < 24).features
    pieces = features.pieces((5, mdp.num_states, mdp.num_actions))
    ((position, falls),) = pieces.arrivals
    assert position == 0
    assert set(np.unique(np.delete(falls[0], range(36, 47), axis=0))) == {0.0, 1.0}
    assert set(np.unique(pieces.stage)) == {0.0, 1.0}
    np.testing.assert_allclose(falls[0, 36, :, 36], [1 / 2, 1 / 2, 1 / 3, 0])  # up, right, down, left
