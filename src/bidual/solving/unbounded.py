"""Problems without an optimum: auxiliary variables that may go on for ever while the objective improves.

The test is conservative. There must be no multipliers that could bound the cone form, and the user's own
functions, evaluated by CVXPY further and further along a direction, must keep improving and the constraints holding.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.status import Status
from bidual.problem.convex import ConvexProgram, find_falling_direction, find_interior
from bidual.problem.modelling import Functions
from bidual.solving.solution import Solution

_STEPS = (1e3, 1e6, 1e9, 1e12)
_SINGLE = 64  # variables that are tried one by one


def check_bounded(solution: Solution) -> None:
    """Raise `ProblemError` where no clash was found, nothing bounds the optimum, and there is none; else return.

    The policy need not be feasible: the directions along which convex functions never rise are the same everywhere.
    """
    program, auxiliary = solution.evidence.program.curved, solution.evidence.auxiliary
    maximises = solution.sense == "maximize"
    bound = solution.upper if maximises else solution.lower
    if solution.status is Status.INFEASIBLE or bound is not None or program is None:
        return
    functions = program.functions
    if not isinstance(functions, Functions) or auxiliary.size == 0 or find_interior(program.main) is not None:
        return
    y = program.image(solution.embedding[None] if program.image.total else solution.embedding)
    for direction in _list_candidates(program):
        reached = _follow_direction(program, y, auxiliary, direction)
        if reached is not None:
            raise ProblemError(
                f"the problem is unbounded: the objective {'grows' if maximises else 'falls'} without end along "
                f"{_describe_moves(functions, direction)} (far out it is "
                f"{-reached if maximises else reached:.3g}, with every constraint as it was). "
                "Add a constraint that bounds what moves, or check the sign of its term in the objective"
            )


def _list_candidates(program: ConvexProgram) -> Iterator[Float[np.ndarray, "a"]]:
    """Yield candidate directions of the auxiliary variables: that of the cone form, and each variable alone."""
    a = program.num_auxiliary
    found = find_falling_direction(program.main)
    if found is not None and np.any(np.abs(found[:a]) > 1e-6):
        direction = found[:a] / np.abs(found[:a]).max()
        yield np.round(direction, 6)  # most problems are written in simple numbers
        yield direction
    for i in range(min(a, _SINGLE)):
        for sign in (1.0, -1.0):
            yield sign * np.eye(1, a, i)[0]


def _follow_direction(
    program: ConvexProgram,
    y: Float[np.ndarray, "n"],
    auxiliary: Float[np.ndarray, "a"],
    direction: Float[np.ndarray, "a"],
) -> float | None:
    """Evaluate the objective far along the direction; None if it stops improving or a constraint breaks on the way."""
    allowed = program.violations(program.functions.values(y, auxiliary)[1]) + program.tolerances
    direction = direction * max(1.0, float(np.abs(auxiliary).max()))
    values, largest = [], 0.0
    for step in _STEPS:
        at = auxiliary + step * direction
        f, g = program.functions.values(y, at)
        largest, g_largest = program.functions.magnitudes(y, at)
        if not (np.isfinite(f) and np.all(program.violations(g) <= allowed + 1e-12 * g_largest)):
            return None
        values.append(f)
    return values[-1] if _keeps_falling(-np.diff(values), largest) else None


def _keeps_falling(drops: Float[np.ndarray, "k"], largest: float) -> bool:
    """Check whether the objective falls at an undiminished pace, beyond rounding of numbers as large as `largest`.

    Far out a bounded convex function falls less and less. A logarithm falls by the same amount from step to step.
    """
    steady = np.ptp(drops) <= 0.01 * drops.max()
    return bool(
        drops.min() > 1e-6 and np.all(drops[1:] >= 0.99 * drops[:-1]) and (steady or drops[-1] > 1e-9 * largest)
    )


def _describe_moves(functions: Functions, direction: Float[np.ndarray, "a"]) -> str:
    """Describe the variables that move, and their directions."""
    moves, start = [], 0
    for variable in functions.auxiliary:
        part = direction[start : start + variable.size]
        start += variable.size
        for i in np.flatnonzero(np.abs(part) > 1e-6):
            place = [int(j) for j in np.unravel_index(i, variable.shape, order="F")] if variable.shape else ""
            moves.append(f"{'rising' if part[i] > 0 else 'falling'} {variable.name() + str(place)!r}")
    return " and ".join(moves[:4]) + (f" and {len(moves) - 4} more" if len(moves) > 4 else "")
