"""Shapes are checked in the first calls of every test of units and contracts, and not at all elsewhere."""

import jaxtyping
import numpy as np
import pytest
from jaxtyping import Float

from bidual.dual.projections import project_onto_ball
from bidual.problem.convex import Box
from tests.conftest import TESTS, checks_shapes
from tests.shapes import CALLS, check_first_calls

MATRIX = np.ones((2, 2))  # where a vector is declared


def test_a_wrong_shape_is_refused():
    with pytest.raises(jaxtyping.TypeCheckError):
        project_onto_ball(MATRIX, 1.0)


@pytest.mark.unchecked_shapes(reason="the subject")
def test_a_marked_test_is_not_checked():
    project_onto_ball(MATRIX, 1.0)


def test_the_next_test_is_checked_again():
    test_a_wrong_shape_is_refused()


@pytest.mark.parametrize("turn", range(2))
def test_the_first_calls_of_a_test_are_checked(turn):
    for _ in range(CALLS - 1):
        project_onto_ball(MATRIX[0], 1.0)
    with pytest.raises(jaxtyping.TypeCheckError):
        project_onto_ball(MATRIX, 1.0)
    project_onto_ball(MATRIX, 1.0)


def test_axes_of_a_result_are_those_of_the_arguments():
    @check_first_calls
    def halve(x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return x[::2]

    with pytest.raises(jaxtyping.TypeCheckError, match="halve"):
        halve(np.ones(4))
    assert halve(np.ones(1)) == 1


def test_methods_properties_and_fields_are_checked():
    with pytest.raises(jaxtyping.TypeCheckError):
        Box(MATRIX, MATRIX)
    with pytest.raises(jaxtyping.TypeCheckError):
        Box(MATRIX[0] - 1, MATRIX[0]).maximiser(MATRIX)


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
