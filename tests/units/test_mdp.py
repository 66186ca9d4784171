"""The model's door: every malformed input is named with its place."""

import numpy as np
import pytest

import bidual as bd


def _dense(S=3, A=2):
    return np.random.default_rng(0).dirichlet(np.ones(S), (S, A))


def _broken(index, value):
    P = _dense()
    P[index] = value
    return P


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((_broken((1, 0, 2), 0.9), 0, 3), r"state 1, action 0 sum to .*not 1"),
        ((_broken((2, 1), [1.5, -0.5, 0.0]), 0, 3), r"negative probability -0\.5 in state 2, action 1 \(entry 1\)"),
        ((_broken((0, 1, 1), np.nan), 0, 3), r"transitions\[0, 1, 1\] is nan"),
        ((_broken((0, 1, 1), np.inf), 0, 3), r"transitions\[0, 1, 1\] is inf"),
        ((np.ones((2, 2)), 0, 3), "must have 3 axes"),
        ((np.ones((3, 2, 4)) / 4, 0, 3), r"\(S, A, S\)"),
        ((np.stack([_dense()] * 2), 0, 3), "has 2 steps on its first axis, but the horizon is 3"),
        ((np.zeros((0, 2, 0)), 0, 3), "empty axis"),
        ((_dense(), 3, 3), "initial state 3 does not exist"),
        ((_dense(), -1, 3), "initial state -1 does not exist"),
        ((_dense(), [0.5, 0.6, 0.0], 3), "initial sums to 1.1"),
        ((_dense(), [1.5, -0.5, 0.0], 3), r"initial\[1\] is -0.5"),
        ((_dense(), [1.0, 0.0], 3), r"shape \(2,\)"),
        (([[[1.0], [1.0, 0.0]]], 0, 3), "rectangular array"),
        ((_dense() * 1j, 0, 3), "must be an array of real numbers; got dtype complex128"),
        ((_dense(), 0, 0), "horizon must be a whole number of steps, at least 1; got 0"),
        (((np.zeros((3, 2, 1), int), np.ones((3, 2, 2)) / 2), 0, 3), "same \\(S, A, K\\)"),
        (((np.zeros((3, 2, 1)), np.ones((3, 2, 1))), 0, 3), "must hold integers"),
        (((np.full((3, 2, 1), 3), np.ones((3, 2, 1))), 0, 3), "entry 0 is 3, but states are numbered 0 to 2"),
    ],
)
def test_bad_models_are_refused(arguments, message):
    with pytest.raises(bd.ModelError, match=message):
        bd.TabularMDP(*arguments)


def test_the_step_of_a_bad_row_is_named():
    P = np.stack([_dense()] * 3)
    P[2, 1, 1, 0] += 0.1
    with pytest.raises(bd.ModelError, match="state 1, action 1, step 2"):
        bd.TabularMDP(P, 0, 3)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((3, 3), dtype=bool), "boolean mask of shape"),
        (np.ones((3, 2)), "boolean mask of shape"),
        (np.array([[True, True], [False, False], [True, True]]), "state 1 allows no action"),
    ],
)
def test_bad_masks_are_refused(mask, message):
    with pytest.raises(bd.ModelError, match=message):
        bd.TabularMDP(_dense(), 0, 3, actions=mask)


def test_rows_of_masked_actions_are_ignored():
    P = _dense()
    P[0, 1] = [7.0, np.nan, -1.0]
    mask = np.ones((3, 2), dtype=bool)
    mask[0, 1] = False
    mdp = bd.TabularMDP(P, 0, 3, actions=mask)
    assert not mdp.actions[0, 1]


def test_float32_rows_are_refused_with_their_remedy():
    with pytest.raises(bd.ModelError, match="keepdims=True"):
        bd.TabularMDP(np.full((3, 1, 3), np.float32(1 / 3) * np.float32(1.001)), 0, 2)


def test_rows_are_normalised_to_the_last_bit():
    P = _dense(S=50) * (1 + 5e-10)
    sums = bd.TabularMDP(P, 0, 2).successors.probabilities.sum(axis=-1)
    assert np.abs(sums - 1).max() <= 4 * np.finfo(float).eps


def test_dense_and_lists_are_the_same_model():
    P = np.zeros((3, 2, 3))
    P[:, 0, 1], P[:, 1, 0], P[:, 1, 2] = 1.0, 0.25, 0.75
    lists = bd.TabularMDP(P, 0, 3).successors
    assert lists.states.shape == (1, 3, 2, 2)
    dense = np.zeros_like(P)
    for s, a, k in np.ndindex(3, 2, 2):
        dense[s, a, lists.states[0, s, a, k]] += lists.probabilities[0, s, a, k]
    np.testing.assert_array_equal(dense, P)


def test_the_caller_cannot_change_the_model_later():
    P = _dense()
    mdp = bd.TabularMDP(P, 0, 3)
    before = mdp.successors.probabilities.copy()
    P[:] = 0.0
    np.testing.assert_array_equal(mdp.successors.probabilities, before)
    with pytest.raises(ValueError, match="read-only"):
        mdp.successors.probabilities[:] = 0.0


def test_absorbing_states_are_left_by_no_allowed_action_at_any_step():
    stay = np.repeat(np.eye(3)[:, None], 2, axis=1)
    away = stay.copy()
    away[1, 1] = [1.0, 0.0, 0.0]
    assert bd.TabularMDP(away, 0, 2).absorbing.tolist() == [True, False, True]
    mask = np.array([[True, True], [True, False], [True, True]])
    assert bd.TabularMDP(away, 0, 2, actions=mask).absorbing.all()
    assert bd.TabularMDP(np.stack([stay, away]), 0, 2).absorbing.tolist() == [True, False, True]


def test_its_repr_says_what_it_is():
    assert repr(bd.TabularMDP(_dense(), 0, 7)) == "TabularMDP(3 states, 2 actions, horizon 7)"
