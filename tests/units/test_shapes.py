"""Shapes are checked throughout all tests of units and contracts, and not at all elsewhere (tests/conftest.py)."""

import jaxtyping
import numpy as np
import pytest

from bidual.dual.projections import onto_ball
from tests.conftest import TESTS, checks_shapes

MATRIX = np.ones((2, 2))  # where a vector is declared


def test_a_wrong_shape_is_refused():
    with pytest.raises(jaxtyping.TypeCheckError):
        onto_ball(MATRIX, 1.0)


@pytest.mark.unchecked_shapes(reason="the subject")
def test_a_marked_test_is_not_checked():
    onto_ball(MATRIX, 1.0)


def test_the_next_test_is_checked_again():
    test_a_wrong_shape_is_refused()


@pytest.mark.parametrize(
    ("path", "checked"),
    [
        ("units/test_shapes.py", True),
        ("contracts/test_duals.py", True),
        ("laws/test_solve.py", False),
        ("statistical/test_bounds.py", False),
        ("end_to_end/test_cli.py", False),
        ("golden/test_golden.py", False),
    ],
)
def test_the_folder_decides(path, checked):
    assert (TESTS / path).exists()
    assert checks_shapes(TESTS / path, marked=False) == checked
    assert not checks_shapes(TESTS / path, marked=True)
