"""Shapes are checked while tests run: at their beginning, and no longer where they take long (tests/conftest.py)."""

import time

import jaxtyping
import numpy as np
import pytest

from bidual.dual.projections import onto_ball
from tests.conftest import _SECONDS_OF_SHAPES

MATRIX = np.ones((2, 2))  # where a vector is declared


def test_a_wrong_shape_is_refused_at_the_beginning_of_a_test():
    with pytest.raises(jaxtyping.TypeCheckError):
        onto_ball(MATRIX, 1.0)


def test_a_long_test_is_not_checked_to_its_end():
    time.sleep(1.5 * _SECONDS_OF_SHAPES)
    onto_ball(MATRIX, 1.0)


def test_the_next_test_is_checked_again():
    test_a_wrong_shape_is_refused_at_the_beginning_of_a_test()
