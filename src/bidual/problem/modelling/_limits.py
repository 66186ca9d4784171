"""Constraints as the user wrote them, recovered from CVXPY's normal form."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import cvxpy as cp
import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.modelling._functions import Functions

Sense = Literal["<=", ">=", "=="]


class Line(NamedTuple):
    """A constraint as the user wrote it: value `sense` bounds, entry by entry.

    In the solver's form each entry is ``sign * (value - bound) <= 0`` (or == 0).
    """

    name: str
    sense: Sense
    sign: float
    bounds: Float[np.ndarray, "n"]  # in CVXPY's column order


class Limit(NamedTuple):
    """A constraint of CVXPY with its two sides in the user's order."""

    name: str
    sense: Sense
    sign: float
    value: cp.Expression
    limit: cp.Expression
    shape: tuple[int, ...]

    def line(self) -> Line:
        """Return the constraint with its limits as numbers, at the parameters' present values."""
        bounds = np.broadcast_to(np.asarray(self.limit.value, dtype=np.float64), self.shape).ravel(order="F")
        if not np.all(np.isfinite(bounds)):
            raise ProblemError(
                f"constraint {self.name!r} has the limit {bounds[~np.isfinite(bounds)][0]}: "
                "a limit must be a finite number (0 is fine); drop the constraint if there is none"
            )
        return Line(self.name, self.sense, self.sign, bounds)


def read_limit(name: str, sides: tuple[cp.Expression, cp.Expression], *, equal: bool) -> Limit:
    """Undo CVXPY's normal form: it stores ``a >= b`` as ``b <= a``."""
    left, right = sides
    sense, shape = "==" if equal else "<=", (left - right).shape
    if right.is_constant():
        return Limit(name, sense, 1.0, left, right, shape)
    if left.is_constant():
        return Limit(name, "==" if equal else ">=", -1.0, right, left, shape)
    return Limit(name, sense, 1.0, left - right, cp.Constant(0), shape)


def describe_lines(names: Sequence[str], functions: Functions) -> tuple[Line, ...]:
    """Return the constraints of functions without parameters, as the user wrote them."""
    pairs = zip(names, functions.sides, functions.equality, strict=True)
    return tuple(read_limit(name, sides, equal=equal).line() for name, sides, equal in pairs)


def slice_rows(lines: Sequence[Line]) -> Iterator[tuple[Line, slice]]:
    """Yield every constraint with the rows of g that hold its entries."""
    start = 0
    for line in lines:
        rows = slice(start, start + line.bounds.size)
        start = rows.stop
        yield line, rows
