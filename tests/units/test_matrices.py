"""Models given as one sparse matrix per action: the same model as the dense one, and every mistake named."""

import tracemalloc

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import bidual as bd
from bidual.world.mdp._sparse import are_matrices, check_matrices


def _dense(S=4, A=3):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(S), (S, A)) * (rng.random((S, A, S)) < 0.5)
    P[..., 0] += 1e-3
    return P / P.sum(axis=-1, keepdims=True)


def _matrices(P, kind=sp.csr_array):
    return [kind(P[:, a]) for a in range(P.shape[1])]


def _broken(action, row, values):
    P = _dense()
    P[row, action] = values
    return _matrices(P)


def _as_dense(mdp):
    lists = mdp.successors
    dense = np.zeros((mdp.num_states, mdp.num_actions, mdp.num_states))
    for s, a, k in np.ndindex(lists.states.shape[1:]):
        dense[s, a, lists.states[0, s, a, k]] += lists.probabilities[0, s, a, k]
    return dense


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix, sp.dok_array, sp.dia_array])
@pytest.mark.parametrize("sequence", [list, tuple])
def test_every_format_is_the_dense_model(kind, sequence):
    P = _dense()
    mdp = bd.TabularMDP(sequence(_matrices(P, kind)), 0, 5)
    np.testing.assert_allclose(_as_dense(mdp), P, rtol=0, atol=1e-15)
    assert mdp.successors.states.shape[-1] == np.count_nonzero(P, axis=-1).max()


def test_two_matrices_in_a_tuple_are_two_actions():
    mdp = bd.TabularMDP(tuple(_matrices(_dense(A=2))), 0, 5)
    assert (mdp.num_states, mdp.num_actions) == (4, 2)


def test_entries_given_twice_are_added():
    row, column, chance = [0, 0, 1], [1, 1, 0], [0.25, 0.75, 1.0]
    mdp = bd.TabularMDP([sp.coo_array((chance, (row, column)), shape=(2, 2))], 0, 5)
    assert mdp.successors.states.shape == (1, 2, 1, 1)
    np.testing.assert_array_equal(_as_dense(mdp)[:, 0], [[0, 1], [1, 0]])


def test_integers_are_probabilities():
    assert _as_dense(bd.TabularMDP([sp.eye_array(3, dtype=int)], 0, 2))[1, 0, 1] == 1.0


def test_rows_of_masked_actions_may_be_empty_or_nonsense():
    P = _dense()
    P[1, 2], P[3, 0] = 0.0, [np.nan, -1.0, 7.0, 0.0]
    mask = np.ones((4, 3), dtype=bool)
    mask[1, 2] = mask[3, 0] = False
    mdp = bd.TabularMDP(_matrices(P), 0, 5, actions=mask)
    np.testing.assert_array_equal(mdp.actions, mask)
    np.testing.assert_allclose(_as_dense(mdp)[mask], P[mask], rtol=0, atol=1e-15)


def test_the_callers_matrices_are_left_alone():
    matrix = sp.csr_array(np.eye(3))
    matrix.indices = matrix.indices[::-1].copy()
    before = matrix.copy()
    mdp = bd.TabularMDP([matrix], 0, 2)
    np.testing.assert_array_equal(matrix.indices, before.indices)
    matrix.data[:] = 0.0
    assert mdp.successors.probabilities.min() == 1.0


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        (_broken(1, 2, [0.5, 0.4, 0, 0]), r"row 2 of transitions\[1\] sums to 0\.9, not 1"),
        (_broken(1, 2, 0), r"row 2 of transitions\[1\] is empty: .* actions="),
        (_broken(2, 3, [0.5, np.nan, 0, 0]), r"transitions\[2\]\[3, 1\] is nan"),
        (_broken(2, 3, [0.5, np.inf, 0, 0]), r"transitions\[2\]\[3, 1\] is inf"),
        (_broken(0, 1, [1.5, 0, -0.5, 0]), r"transitions\[0\]\[1, 2\] is -0\.5: .*negative"),
        ([sp.eye_array(3), sp.eye_array(4)], r"transitions\[1\] has shape \(4, 4\), but transitions\[0\] has \(3, 3\)"),
        ([sp.csr_array(np.ones((3, 2)))], r"transitions\[0\] has shape \(3, 2\).*must be square"),
        ([sp.eye_array(3) * 1j], r"transitions\[0\] must hold real numbers; got dtype complex128"),
        ([sp.csr_array((0, 0))], "at least one state"),
        ([sp.coo_array(np.ones(3))], r"transitions\[0\] has shape \(3,\)"),
    ],
)
def test_bad_matrices_are_refused(matrices, message):
    with pytest.raises(bd.ModelError, match=message):
        bd.TabularMDP(matrices, 0, 3)


def test_what_is_not_a_sequence_of_sparse_matrices_is_refused():
    """Asked of the reader itself: the types of `TabularMDP`, checked in tests, would not let these through."""
    with pytest.raises(bd.ModelError, match=r"transitions\[1\] is a ndarray, but others are sparse"):
        check_matrices([sp.eye_array(3), np.eye(3)])
    with pytest.raises(bd.ModelError, match=r"one sparse matrix \(S, S\) per action: write \[P\]"):
        are_matrices(sp.eye_array(3))


def test_the_worst_row_of_all_actions_is_named():
    P = _dense()
    P[1, 0, 0] += 0.01
    P[2, 2, 0] += 0.02
    with pytest.raises(bd.ModelError, match=r"row 2 of transitions\[2\]"):
        bd.TabularMDP(_matrices(P), 0, 3)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_the_remedy_for_wrong_sums_works(kind):
    P = kind(3 * _dense()[:, 0])
    assert bd.TabularMDP([sp.diags_array(1 / np.ravel(P.sum(1))) @ P], 0, 3).num_states == 4


def test_a_mask_of_the_wrong_shape_is_refused():
    with pytest.raises(bd.ModelError, match="boolean mask of shape"):
        bd.TabularMDP(_matrices(_dense()), 0, 3, actions=np.ones((4, 2), dtype=bool))


def test_memory_stays_sparse():
    """20 000 states, 5 actions, 3 successors: (S, A, S) would be 16 GB, the lists are 12 bytes each of 300 000."""
    S, A, K = 20_000, 5, 3
    rng = np.random.default_rng(0)
    rows, columns = np.repeat(np.arange(S), K), [rng.integers(0, S, S * K) for _ in range(A)]
    matrices = [sp.csr_array((np.full(S * K, 1 / K), (rows, to)), shape=(S, S)) for to in columns]
    tracemalloc.start()
    mdp = bd.TabularMDP(matrices, 0, 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert mdp.successors.states.shape == (1, S, A, K)
    assert peak <= 40e6  # a few passes over S A K = 300 000 doubles and indices; measured 12 MB
    x = mdp.embedding(left=np.arange(S) % 2, used=np.tile(np.arange(A) / A, (S, 1)))
    problem = bd.Problem(cp.Maximize(cp.sum(x.left)), {"used": cp.sum(x.used) <= 2.0})
    assert bd.solve(problem, mdp, gap=1e-4).status == "optimal"


def test_one_row_with_very_many_successors_is_refused_before_it_fills_the_memory():
    S = 20_000
    hub = sp.lil_array((S, S))
    hub[7] = 1 / S
    matrix = sp.csr_array(sp.diags_array((np.arange(S) != 7).astype(float)) + hub)
    with pytest.raises(bd.ModelError, match=r"row 7 of transitions\[1\] has 20000 successors.*: 10 GB"):
        bd.TabularMDP([sp.eye_array(S), matrix], 0, 3)
