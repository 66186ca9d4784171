"""Partial minimisation: the user's other variables at a fixed image, so that f and g become functions of the image.

    F(y)  =  min over v of  f(y, v)   s.t.   g(y, v) <= 0 (or == 0)

is convex in y. With the values v_k at the corners y_k of a box, the mixture of the v_k with the weights of a point's
corners keeps every constraint as well as the worst of them, and f is there at most the mean of f(y_k, v_k).
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bidual.problem.convex._clarabel import run_clarabel
from bidual.problem.convex._conic import ConicForm

if TYPE_CHECKING:
    from bidual.problem.convex._program import ConvexProgram

_SAFE = 0.2  # share of a tolerance that a repaired constraint may use
_TURNS = 3


def minimise_over_rest(program: "ConvexProgram", y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "a"]:
    """Return the other variables at which f is least at an image; where none keep the constraints, of least violation.

    A cone solver's point keeps constraints to some eight digits. It is moved onto the equations and, as far as it
    takes, towards a point with room, so that violations are below the tolerance.
    """
    found = _solve(program, program.main, y)
    roomy = program.violation if program.margin is None else program.margin
    if found is None:
        return _require(_solve(program, program.violation, y))
    if roomy is None or not _is_over(program, y, found):
        return found
    inside = _solve(program, roomy, y)
    return found if inside is None else _move_inside(program, y, found, inside)


def _require(found: Float[np.ndarray, "a"] | None) -> Float[np.ndarray, "a"]:
    if found is None:
        raise np.linalg.LinAlgError("the cone solver finds no values of the problem's other variables at an image")
    return found


def _solve(
    program: "ConvexProgram", form: ConicForm | None, y: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "a"] | None:
    """Minimise a form over its other variables at an image; return the user's, which come first, or None."""
    if form is None:
        return None
    try:
        u, _ = run_clarabel(form.c_u, form.G_u, form.h - form.G_y @ y, form.cones, nonneg=0, zero=0)
    except np.linalg.LinAlgError:
        return None
    return _move_onto_equations(program, y, u[: program.num_auxiliary])


def _move_onto_equations(
    program: "ConvexProgram", y: Float[np.ndarray, "n"], v: Float[np.ndarray, "a"]
) -> Float[np.ndarray, "a"]:
    """Move v by the shortest step that solves the equalities."""
    form = program.main
    rows = np.flatnonzero(form.owner[: form.cones.zero] >= 0)
    if not rows.size:
        return v
    of_auxiliary = form.G_u[rows][:, : v.size].toarray()
    missing = form.h[rows] - form.G_y[rows] @ y - of_auxiliary @ v
    return v + np.linalg.lstsq(of_auxiliary, missing, rcond=None)[0]


def _is_over(program: "ConvexProgram", y: Float[np.ndarray, "n"], v: Float[np.ndarray, "a"]) -> bool:
    g = program.functions.values(y, v)[1]
    return bool(np.any(program.violations(g) > _SAFE * program.tolerances))


def _move_inside(
    program: "ConvexProgram", y: Float[np.ndarray, "n"], v: Float[np.ndarray, "a"], inside: Float[np.ndarray, "a"]
) -> Float[np.ndarray, "a"]:
    """Mix in as little of a point with room as makes the inequalities hold; the share follows from convexity."""
    room = np.where(program.equality, -1.0, program.functions.values(y, inside)[1])
    for _ in range(_TURNS):
        over = np.where(program.equality, 0.0, program.functions.values(y, v)[1])
        if not np.any(over > _SAFE * program.tolerances):
            break
        share = float(np.max(np.where(over > 0, over / np.maximum(over - room, 1e-300), 0.0)))
        share = min(1.0, 1.000001 * share + 1e-15)
        v = (1 - share) * v + share * inside
    return v
