"""The linear functionals of a program, derived anew: a file cannot pass off a curved one as linear."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.certificate import EstimateRows
from bidual.problem.convex import AbstractProgram, AffineProgram, ConvexProgram, Image
from bidual.problem.modelling import Functions, extract_affine_rows


def collect_linear_rows(program: AbstractProgram) -> EstimateRows:
    """Return objective and constraints that are linear in the embedding, of a convex program as CVXPY proves it."""
    return program.dispatch(_take_all_rows, _collect_linear_functions)


def _take_all_rows(program: AffineProgram) -> EstimateRows:
    rows, constants = program.functionals()
    return EstimateRows(np.arange(len(rows)), rows, constants, np.abs(rows), 1)


def _collect_linear_functions(program: ConvexProgram) -> EstimateRows:
    """Return the linear entries of objective and constraints as functionals of the embedding."""
    functions = program.functions
    assert isinstance(functions, Functions)  # a file holds no others
    numbers, slopes, constants, start = [], [np.zeros((0, program.image.size))], [np.zeros(0)], 0
    for expression in (functions.objective, *functions.constraints):
        if _is_linear(expression, functions.images):
            matrix, offset = _read_over_image(expression, functions.images)
            numbers += range(start, start + expression.size)
            slopes.append(matrix)
            constants.append(offset)
        start += expression.size
    return _pull_back(program.image, numbers, np.concatenate(slopes), np.concatenate(constants))


def _is_linear(expression: cp.Expression, images: tuple[cp.Variable, ...]) -> bool:
    """Return whether an expression is a linear functional of the embedding: one of auxiliary variables alone is not."""
    known, own = {variable.id for variable in images}, expression.variables()
    return bool(own) and expression.is_affine() and all(variable.id in known for variable in own)


def _read_over_image(
    expression: cp.Expression, images: tuple[cp.Variable, ...]
) -> tuple[Float[np.ndarray, "r n"], Float[np.ndarray, "r"]]:
    """Return the coefficients of all numbers of the image, and the constants."""
    own = expression.variables()
    matrix, offset = extract_affine_rows(expression, own)
    columns = np.split(matrix.toarray(), np.cumsum([variable.size for variable in own])[:-1], axis=1)
    found = dict(zip((variable.id for variable in own), columns, strict=True))
    blocks = [found.get(variable.id, np.zeros((offset.size, variable.size))) for variable in images]
    return np.concatenate(blocks, axis=1), offset


def _pull_back(
    image: Image, numbers: list[int], slopes: Float[np.ndarray, "r n"], constants: Float[np.ndarray, "r"]
) -> EstimateRows:
    sizes = replace(image, matrix=sp.csr_array(abs(image.matrix)))
    shape = (len(numbers), *image.adjoint(np.zeros(image.size)).shape)
    return EstimateRows(
        numbers=np.array(numbers, dtype=np.int64),
        rows=np.array([image.adjoint(slope) for slope in slopes]).reshape(shape),
        constants=constants + slopes @ image.offset,
        magnitudes=np.array([sizes.adjoint(np.abs(slope)) for slope in slopes]).reshape(shape),
        terms=image.size + 2,
    )
