"""The two inequalities behind the constant of the paper's class set (docs/certificates.md, "The class set")."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bidual.models.classes._likelihood import VALID

WEIGHTS = arrays(np.float64, (2, 5), elements=st.floats(0.0, 1.0))


def _affinity(p, q):
    return float(np.sum(np.sqrt(p * q)))


@given(WEIGHTS)
def test_squared_distances_are_at_most_eight_times_the_lost_affinity(weights):
    """|P - Q|_1^2 <= 8 (1 - A) <= -8 log A. Sums of five terms round by 1e-15, which 1 - A feels in full."""
    p, q = (weights + 1e-6) / (weights + 1e-6).sum(axis=1, keepdims=True)
    affinity = min(1.0, _affinity(p, q))
    assert np.abs(p - q).sum() ** 2 <= VALID * (1 - affinity) + 1e-14
    assert 1 - affinity <= -np.log(affinity)


def test_no_smaller_constant_is_right():
    """For (1/2 + e, 1/2 - e) against (1/2, 1/2) the ratio tends to 8 from below, so that the proof has no room."""
    for e, least in ((0.1, 7.89), (0.01, 7.998)):
        p, q = np.array([0.5 + e, 0.5 - e]), np.array([0.5, 0.5])
        assert least < np.abs(p - q).sum() ** 2 / (1 - _affinity(p, q)) < VALID
