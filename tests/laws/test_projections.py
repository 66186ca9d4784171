"""Projections of the dual variables: in the set, nearest, in all five regions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidual.dual.projections import project_onto_ball, project_onto_cone

numbers = st.floats(-5.0, 5.0, allow_subnormal=False)
vectors = st.lists(numbers, min_size=1, max_size=4).map(lambda entries: np.array(entries))
sizes = st.floats(0.01, 4.0)

# One point (|beta|, gamma) per region of the cone with slope 2 and height 1.5, and where it goes.
REGIONS = {
    "inside": ((1.0, 1.0), (1.0, 1.0)),
    "above the lid": ((1.0, 4.0), (1.0, 1.5)),
    "beyond the rim, above": ((3.5, 4.0), (3.0, 1.5)),
    "beyond the rim, beside": ((5.0, 1.0), (3.0, 1.5)),
    "beside the wall": ((2.0, 0.5), (1.8, 0.9)),
    "below the apex": ((1.0, -2.5), (0.0, 0.0)),
}


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("direction", [np.array([1.0]), np.array([0.6, -0.8])])
def test_regions(region, direction):
    (r, c), (nearest, level) = REGIONS[region]
    found = project_onto_cone(r * direction, c, 2.0, 1.5)
    np.testing.assert_allclose(found.beta, nearest * direction, atol=1e-15)
    assert found.gamma == pytest.approx(level, abs=1e-15)


def test_on_the_axis_there_is_no_direction_to_divide_by():
    for gamma, level in ((-1.0, 0.0), (0.5, 0.5), (9.0, 1.5)):
        found = project_onto_cone(np.zeros(3), gamma, 2.0, 1.5)
        assert found.gamma == level
        np.testing.assert_array_equal(found.beta, np.zeros(3))


def test_a_constant_function_leaves_only_the_multiplier():
    found = project_onto_cone(np.array([3.0]), 0.7, 0.0, 1.0)
    assert found.gamma == 0.7
    np.testing.assert_array_equal(found.beta, [0.0])


@given(vectors, sizes)
def test_ball(alpha, radius):
    found = project_onto_ball(alpha, radius)
    assert np.linalg.norm(found) <= radius * (1 + 1e-15)
    # The nearest point of a convex set is the one that the rest of the set lies behind.
    support = radius * np.linalg.norm(alpha - found)
    assert (alpha - found) @ found >= support - 1e-9


@given(vectors, numbers, sizes, sizes)
def test_cone_is_nearest(beta, gamma, slope, height):
    """The variational inequality over the extreme points of the cone: its apex and its rim."""
    found = project_onto_cone(beta, gamma, slope, height)
    assert np.linalg.norm(found.beta) <= slope * found.gamma + 1e-12
    assert 0 <= found.gamma <= height
    back, up = beta - found.beta, gamma - found.gamma
    at_found = float(back @ found.beta) + up * found.gamma
    rim = height * (slope * float(np.linalg.norm(back)) + up)
    assert at_found >= max(0.0, rim) - 1e-9


@given(vectors, numbers, sizes, sizes)
def test_cone_equals_brute_force(beta, gamma, slope, height):
    """The best of many points of the set in the plane of |beta| and gamma is never nearer, and comes as near."""
    size = float(np.linalg.norm(beta))
    found = project_onto_cone(beta, gamma, slope, height)
    distance = np.hypot(size - np.linalg.norm(found.beta), gamma - found.gamma)
    levels = np.linspace(0.0, height, 2001)
    nearest = np.clip(size, 0.0, slope * levels)
    brute = float(np.hypot(size - nearest, gamma - levels).min())
    assert distance <= brute + 1e-9
    assert brute <= distance + height * (1 + slope) / 2000


@given(vectors, numbers, sizes, sizes)
def test_projecting_twice_changes_nothing(beta, gamma, slope, height):
    once = project_onto_cone(beta, gamma, slope, height)
    twice = project_onto_cone(once.beta, once.gamma, slope, height)
    np.testing.assert_allclose(twice.beta, once.beta, atol=1e-12)
    assert twice.gamma == pytest.approx(once.gamma, abs=1e-12)


def test_alternating_projections_miss_the_nearest_point():
    """What the closed form is for: first the slab, then the cone ends in the set, but not at the nearest point."""
    beta, gamma = np.array([0.5]), -1.0
    alternating = project_onto_cone(beta, max(gamma, 0.0), 1.0, 1.0)
    direct = project_onto_cone(beta, gamma, 1.0, 1.0)
    assert alternating.gamma == 0.25
    assert direct.gamma == 0.0
    assert np.hypot(0.5 - direct.beta[0], -1.0) < np.hypot(0.5 - alternating.beta[0], -1.0 - alternating.gamma) - 0.1
