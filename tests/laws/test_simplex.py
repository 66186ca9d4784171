"""The small simplex against HiGHS, from degenerate and warm starts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from bidual.dual._simplex import exchange_out, solve_by_simplex
from tests.helpers import scale_examples


@given(st.integers(0, 100_000), st.integers(1, 6), st.integers(1, 30), st.booleans())
@settings(max_examples=scale_examples(300))
def test_reaches_the_optimum_of_random_bounded_programs(seed, rows, columns, degenerate):
    """min c.z with slacks, one row that bounds the sum, and right-hand sides that are often 0."""
    rng = np.random.default_rng(seed)
    G = np.round(rng.normal(size=(rows, columns)), 1)
    b = np.append(np.zeros(rows) if degenerate else rng.random(rows), 1.0)
    A = np.zeros((rows + 1, rows + 1 + columns))
    A[:, : rows + 1] = np.eye(rows + 1)
    A[:rows, rows + 1 :] = G
    A[rows, rows + 1 :] = 1.0
    c = np.append(np.zeros(rows + 1), np.round(rng.normal(size=columns), 1))
    vertex = solve_by_simplex(A, b, c, np.arange(rows + 1))
    expected = linprog(c, A_eq=A, b_eq=b, method="highs")
    assert expected.status == 0
    z = np.zeros(len(c))
    z[vertex.basis] = vertex.values
    np.testing.assert_allclose(A @ z, b, atol=1e-9)
    assert abs(c @ z - expected.fun) <= 1e-8
    # Dual feasibility is what makes the prices usable as multipliers.
    assert (c - vertex.prices @ A).min() >= -1e-9


def test_a_basic_variable_at_zero_can_be_exchanged():
    A = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    basis = exchange_out(A, np.array([0, 2]), 2)
    assert 2 not in basis
    assert abs(np.linalg.det(A[:, basis])) > 0
