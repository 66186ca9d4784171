"""The master with one inequality in closed form, against the simplex method."""

import numpy as np
import pytest

from bidual.dual._master import solve_master
from bidual.dual._segment import find_best_segment
from bidual.problem.convex import AffineProgram


def _program():
    one = np.ones(1)
    return AffineProgram(
        np.ones((1, 2)), 0.0, np.ones((1, 1, 2)), np.zeros(1), np.zeros(1, dtype=bool), one, 1e-15 * one
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_mixture_is_the_simplex_methods(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 30))
    f, g = rng.normal(size=(2, k))
    if seed % 3 == 0:  # ties, and plans exactly at the limit
        f, g = np.round(f), np.round(g)
    segment = find_best_segment(f, g)
    if segment is None:
        assert g.min() > 0
        return
    weights = segment.weights(k)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    assert weights @ g <= 1e-15
    answer = solve_master(_program(), f, g[:, None], None, accept=np.full(1, 1e-15))
    assert weights @ f == pytest.approx(answer.weights @ f, abs=1e-12)
    # The multiplier proves it: no plan is below the line.
    assert segment.gamma >= 0
    assert np.min(f + segment.gamma * g) == pytest.approx(weights @ f, abs=1e-12)


def test_no_plan_keeps_the_limit():
    assert find_best_segment(np.zeros(2), np.ones(2)) is None


def test_one_plan_alone_is_best():
    assert find_best_segment(np.array([1.0, 0.0, 2.0]), np.array([-1.0, -0.5, 0.5])) == (1, 1, 0.0, 0.0)
