"""Problems as plain data: rows of a linear one; the expressions and the image of a convex one.

The cone forms of a convex problem are not stored: whoever checks a file has CVXPY derive them again from the
expressions, so that a file cannot claim a bound on a problem other than the one it shows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from bidual._errors import CertificateError
from bidual.convex import AffineProgram, ConvexProgram, Image
from bidual.features import Psi
from bidual.mdp import TabularMDP
from bidual.problem import Forms, Functions, Line, lines_of, read_functions, write_functions
from bidual.rounding import with_rounding

Arrays = dict[str, np.ndarray]


def stored_program(program: AffineProgram | ConvexProgram) -> tuple[dict[str, Any], Arrays]:
    """The program as JSON values and arrays."""
    if isinstance(program, AffineProgram):
        names = ("objective", "rows", "limits", "equality")
        return {"offset": program.offset}, {name: getattr(program, name) for name in names}
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


def restored_program(
    stored: dict[str, Any], arrays: Arrays, psi: Psi, mdp: TabularMDP
) -> AffineProgram | ConvexProgram:
    """The program that `stored_program` stored; `ValueError` where it does not fit the model."""
    if "functions" in stored:
        functions = read_functions(stored["functions"], arrays)
        if sum(v.size for v in functions.images) != arrays["image_offset"].size:
            raise ValueError("the image does not fit the functions")
        return Forms(functions).program(_image(stored, arrays, psi, mdp))
    H, d = arrays["objective"].shape
    m = arrays["limits"].size
    for name, shape in {"rows": (m, H, d), "limits": (m,), "equality": (m,), "objective": (mdp.horizon, d)}.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shape}")
    if psi.dimension != d:
        raise ValueError(f"the problem is over {d} features, psi has {psi.dimension}")
    program = AffineProgram(
        objective=arrays["objective"],
        offset=float(stored["offset"]),
        rows=arrays["rows"],
        limits=arrays["limits"],
        equality=arrays["equality"],
        units=np.ones(m),
        resolution=np.zeros(m),
    )
    return with_rounding(program, psi, mdp)


def _image(stored: dict[str, Any], arrays: Arrays, psi: Psi, mdp: TabularMDP) -> Image:
    total, offset = stored["total"] is True, arrays["image_offset"]
    columns = psi.dimension * (1 if total else mdp.horizon)
    if stored["columns"] != columns:
        raise ValueError(f"the image is over {stored['columns']} numbers, the embedding has {columns}")
    matrix = sp.csr_array(
        (arrays["image_values"], arrays["image_columns"], arrays["image_starts"]), shape=(offset.size, columns)
    )
    matrix.check_format(full_check=True)
    return Image(matrix, offset, mdp.horizon, total)


def check_rows(lines: Sequence[Line], program: AffineProgram | ConvexProgram) -> None:
    """Raise `ValueError` where the constraints as told do not fit the rows of the program."""
    start = 0
    for line in lines:
        rows = slice(start, start + line.bounds.size)
        start = rows.stop
        sound = isinstance(line.name, str) and line.bounds.ndim == 1 and line.bounds.size > 0
        sound = sound and line.sign in {"<=": (1.0,), ">=": (-1.0,), "==": (1.0, -1.0)}[line.sense]
        if not (sound and np.all(program.equality[rows] == (line.sense == "=="))):
            raise ValueError(f"constraint {line.name!r} does not fit its rows")
    if start != program.equality.size:
        raise ValueError("constraints and rows do not match")


def check_limits(lines: Sequence[Line], program: AffineProgram | ConvexProgram) -> None:
    """Raise `CertificateError` where a limit, as told, is not the one in the expressions of a convex problem.

    Values are told relative to limits. The rows of a linear problem hold no constants of the left side, so that there
    the limit as told is part of the problem.
    """
    if isinstance(program, AffineProgram) or not isinstance(program.functions, Functions):
        return
    for told, line in zip(lines, lines_of([line.name for line in lines], program.functions), strict=True):
        if told.sense != line.sense or told.sign != line.sign or not np.array_equal(told.bounds, line.bounds):
            raise CertificateError(
                f"the file tells constraint {told.name!r} as {told.sense} {told.bounds.tolist()}, but its expression "
                f"says {line.sense} {line.bounds.tolist()}: nothing it tells of this constraint can be trusted"
            )
