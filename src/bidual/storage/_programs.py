"""Problems as plain data: rows of a linear one; the expressions and the image of a convex one.

The cone forms of a convex problem are not stored: the checker has CVXPY derive them again from the
expressions, so that a file cannot claim a bound on a problem other than the one it holds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from bidual._base.errors import CertificateError
from bidual.problem.convex import AbstractProgram, AffineProgram, ConvexProgram, Image
from bidual.problem.modelling import Forms, Functions, Line, describe_lines, read_functions, write_functions

Arrays = dict[str, np.ndarray]


def pack_program(program: AbstractProgram) -> tuple[dict[str, Any], Arrays]:
    """Return the program as JSON values and arrays."""
    return program.dispatch(_pack_rows, _pack_functions)


def _pack_rows(program: AffineProgram) -> tuple[dict[str, Any], Arrays]:
    names = ("objective", "rows", "limits", "equality")
    return {"offset": program.offset}, {name: getattr(program, name) for name in names}


def _pack_functions(program: ConvexProgram) -> tuple[dict[str, Any], Arrays]:
    """Encode the functions of a convex program as trees, and its image as arrays."""
    if not isinstance(program.functions, Functions):
        raise TypeError("only functions written in CVXPY can be saved")
    image = program.image
    arrays = {
        "image_values": image.matrix.data,
        "image_columns": image.matrix.indices,
        "image_starts": image.matrix.indptr,
        "image_offset": image.offset,
    }
    tree = write_functions(program.functions, arrays)
    return {"functions": tree, "total": image.total, "columns": image.columns}, arrays


def restore_program(stored: dict[str, Any], arrays: Arrays, horizon: int, dimension: int) -> AbstractProgram:
    """Restore the program that `pack_program` stored, from the arrays called ``problem_...``; rows are in units of 1.

    Raise `ValueError` where it is not over `dimension` features of `horizon` steps.
    """
    own = {name.removeprefix("problem_"): array for name, array in arrays.items() if name.startswith("problem_")}
    if "functions" in stored:
        try:
            return _read_convex(stored, own, horizon, dimension)
        except Exception as error:  # CVXPY raises whatever it likes at expressions that make no sense
            raise ValueError(f"the problem cannot be read, {type(error).__name__}: {error}") from error
    m = own["limits"].size
    shapes = {"rows": (m, horizon, dimension), "limits": (m,), "equality": (m,), "objective": (horizon, dimension)}
    for name, shape in shapes.items():
        if own[name].shape != shape or own[name].dtype != (np.bool_ if name == "equality" else np.float64):
            raise ValueError(f"{name} has shape {own[name].shape} of {own[name].dtype}, not {shape}")
    return AffineProgram(
        objective=own["objective"],
        offset=float(stored["offset"]),
        rows=own["rows"],
        limits=own["limits"],
        equality=own["equality"],
        units=np.ones(m),
        resolution=np.zeros(m),
    )


def _read_convex(stored: dict[str, Any], arrays: Arrays, horizon: int, dimension: int) -> ConvexProgram:
    functions = read_functions(stored["functions"], arrays)
    if sum(v.size for v in functions.images) != arrays["image_offset"].size:
        raise ValueError("the image does not fit the functions")
    program = Forms(functions).program(_read_image(stored, arrays, horizon, dimension))
    program.functions.values(
        program.image.offset, np.zeros(program.num_auxiliary)
    )  # functions that cannot be evaluated fail here
    return program


def _read_image(stored: dict[str, Any], arrays: Arrays, horizon: int, dimension: int) -> Image:
    """Read the image; raise `ValueError` where it is not one of this embedding."""
    total, offset = stored["total"] is True, arrays["image_offset"]
    columns = dimension * (1 if total else horizon)
    if stored["columns"] != columns:
        raise ValueError(f"the image is over {stored['columns']} numbers, the embedding has {columns}")
    if offset.ndim != 1 or offset.dtype != np.float64 or arrays["image_values"].dtype != np.float64:
        raise ValueError("the image is not a list of numbers")
    matrix = sp.csr_array(
        (arrays["image_values"], arrays["image_columns"], arrays["image_starts"]), shape=(offset.size, columns)
    )
    matrix.check_format(full_check=True)
    return Image(matrix, offset, horizon, total)


def check_rows(lines: Sequence[Line], program: AbstractProgram) -> None:
    """Raise `ValueError` where the constraints as stated do not fit the rows of the program."""
    start = 0
    for line in lines:
        rows = slice(start, start + line.bounds.size)
        start = rows.stop
        sound = isinstance(line.name, str) and line.bounds.ndim == 1 and line.bounds.size > 0
        sound = sound and line.sign in {"<=": (1.0,), ">=": (-1.0,), "==": (1.0, -1.0)}[line.sense]
        if not (sound and np.all(program.equality[rows] == (line.sense == "=="))):
            raise ValueError(f"constraint {line.name!r} does not fit its rows")
    functions = None if program.curved is None else program.curved.functions
    as_many = not isinstance(functions, Functions) or len(functions.sides) == len(lines)
    if start != program.equality.size or not as_many:
        raise ValueError("constraints and rows do not match")


def check_limits(lines: Sequence[Line], program: AbstractProgram) -> None:
    """Raise `CertificateError` where a limit, as stated, is not the one in the expressions of a convex problem.

    Values are relative to limits. The rows of a linear problem hold no constants of the left side, so that there the
    stated limit is part of the problem.
    """
    functions = None if program.curved is None else program.curved.functions
    if not isinstance(functions, Functions):
        return
    for stated, line in zip(lines, describe_lines([line.name for line in lines], functions), strict=True):
        if stated.sense != line.sense or stated.sign != line.sign or not np.array_equal(stated.bounds, line.bounds):
            raise CertificateError(
                f"the file states constraint {stated.name!r} as {stated.sense} {stated.bounds.tolist()}, but its "
                f"expression says {line.sense} {line.bounds.tolist()}: nothing it states about this "
                "constraint can be trusted"
            )
