"""The linear functionals of a program, found anew: a file cannot pass off a curved one as linear."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.certificate import Rows
from bidual.convex import AffineProgram, ConvexProgram, Image
from bidual.problem import Functions
from bidual.problem._compile import affine_rows


def linear_rows(program: AffineProgram | ConvexProgram) -> Rows:
    """Objective and constraints that are linear in the embedding; in a convex program those that CVXPY proves to be."""
    if isinstance(program, AffineProgram):
        rows = np.concatenate([program.objective[None], program.rows])
        return Rows(np.arange(len(rows)), rows, np.append(program.offset, -program.limits), np.abs(rows), 1)
    functions = program.functions
    assert isinstance(functions, Functions)  # a file holds no others
    numbers, slopes, constants, start = [], [np.zeros((0, program.image.size))], [np.zeros(0)], 0
    for expression in (functions.objective, *functions.constraints):
        if _is_linear(expression, functions.images):
            matrix, offset = _over_image(expression, functions.images)
            numbers += range(start, start + expression.size)
            slopes.append(matrix)
            constants.append(offset)
        start += expression.size
    return _over_embedding(program.image, numbers, np.concatenate(slopes), np.concatenate(constants))


def _is_linear(expression: cp.Expression, images: tuple[cp.Variable, ...]) -> bool:
    """A function of auxiliary variables, or of nothing, is no functional of the embedding."""
    known, own = {variable.id for variable in images}, expression.variables()
    return bool(own) and expression.is_affine() and all(variable.id in known for variable in own)


def _over_image(
    expression: cp.Expression, images: tuple[cp.Variable, ...]
) -> tuple[Float[np.ndarray, "r n"], Float[np.ndarray, "r"]]:
    """The coefficients of all numbers of the image, and the constants."""
    own = expression.variables()
    matrix, offset = affine_rows(expression, own)
    columns = np.split(matrix.toarray(), np.cumsum([variable.size for variable in own])[:-1], axis=1)
    found = dict(zip((variable.id for variable in own), columns, strict=True))
    blocks = [found.get(variable.id, np.zeros((offset.size, variable.size))) for variable in images]
    return np.concatenate(blocks, axis=1), offset


def _over_embedding(
    image: Image, numbers: list[int], slopes: Float[np.ndarray, "r n"], constants: Float[np.ndarray, "r"]
) -> Rows:
    sizes = replace(image, matrix=sp.csr_array(abs(image.matrix)))
    shape = (len(numbers), *image.adjoint(np.zeros(image.size)).shape)
    return Rows(
        numbers=np.array(numbers, dtype=np.int64),
        rows=np.array([image.adjoint(slope) for slope in slopes]).reshape(shape),
        constants=constants + slopes @ image.offset,
        magnitudes=np.array([sizes.adjoint(np.abs(slope)) for slope in slopes]).reshape(shape),
        terms=image.size + 2,
    )
