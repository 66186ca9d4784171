"""A small dense primal simplex that starts from any feasible basis.

The master problems of column generation have a few rows, gain one column at a time and must be solved to the last
digit. Restarting from the previous basis takes a handful of pivots on a tiny inverse, some hundred microseconds;
a general solver spends milliseconds per call before its first pivot.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_REDUCED_COST = 1e-11  # costs and rows are scaled to about 1, so this is some thousand roundings
_PIVOT = 1e-9
_RESIDUAL = 1e-9
_REFACTOR = 40
_FRESH = 4  # so few updates keep the inverse accurate; the residual is checked in any case
_DEGENERATE = 50


class Vertex(NamedTuple):
    """A basic solution of min c.z s.t. A z = b, z >= 0, with the dual prices y of its rows."""

    basis: Int[np.ndarray, "n"]
    values: Float[np.ndarray, "n"]
    prices: Float[np.ndarray, "r"]


def solve_by_simplex(
    A: Float[np.ndarray, "r n"],
    b: Float[np.ndarray, "r"],
    c: Float[np.ndarray, "n"],
    basis: Int[np.ndarray, "r"],
) -> Vertex:
    """Minimise c.z over A z = b, z >= 0 from a feasible basis; `LinAlgError` where the basis degenerates.

    The most negative reduced cost enters; after a run of degenerate pivots the lowest index does (Bland),
    against cycling.
    """
    basis = basis.copy()
    inverse = np.linalg.inv(A[:, basis])
    degenerate = pivot = 0
    for pivot in range(1, 100 + 10 * (len(b) + len(c))):
        if pivot % _REFACTOR == 0:
            inverse = np.linalg.inv(A[:, basis])
        prices = c[basis] @ inverse
        reduced = c - prices @ A
        reduced[basis] = 0.0
        entering = _choose_entering(reduced, bland=degenerate > _DEGENERATE)
        if entering < 0:
            break
        direction = inverse @ A[:, entering]
        values = inverse @ b
        leaving, step = _choose_leaving(values, direction, basis, bland=degenerate > _DEGENERATE)
        if leaving < 0:
            raise np.linalg.LinAlgError("no variable leaves, though the weights are bounded: arithmetic has failed")
        degenerate = degenerate + 1 if step <= 1e-14 else 0
        _exchange(inverse, direction, leaving)
        basis[leaving] = entering
    else:
        raise np.linalg.LinAlgError("the pivots are used up")
    if pivot > _FRESH:
        inverse = np.linalg.inv(A[:, basis])
    values = inverse @ b
    size = 1.0 + np.abs(A[:, basis]) @ np.abs(values)
    sound = np.all(np.abs(A[:, basis] @ values - b) <= _RESIDUAL * size)
    if not (sound and values.min() >= -_RESIDUAL * max(1.0, np.abs(values).max())):
        raise np.linalg.LinAlgError("the basis has become singular")
    return Vertex(basis, np.maximum(values, 0.0), c[basis] @ inverse)


def solve_by_highs(
    A: Float[np.ndarray, "r n"],
    b: Float[np.ndarray, "r"],
    c: Float[np.ndarray, "n"],
    basis: Int[np.ndarray, "any"],
) -> Vertex:
    """Solve the same by a general solver: slower by far, for programs on which `solve_by_simplex` fails."""
    from scipy.optimize import linprog  # rarely needed, and slow to import

    del basis
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    answer = linprog(c, A_eq=A, b_eq=b, method="highs-ds", options=options)
    if answer.status != 0:
        raise np.linalg.LinAlgError(answer.message)
    return Vertex(np.arange(len(c)), np.maximum(answer.x, 0.0), answer.eqlin.marginals)


def exchange_out(A: Float[np.ndarray, "r n"], basis: Int[np.ndarray, "r"], variable: int) -> Int[np.ndarray, "r"]:
    """Exchange `variable`, which must be basic at value 0, for any other column."""
    row = int(np.flatnonzero(basis == variable)[0])
    combination = np.linalg.inv(A[:, basis])[row]
    coefficients = np.abs(combination / np.abs(combination).max() @ A)
    coefficients[basis] = 0.0
    if not coefficients.max() > _PIVOT:
        raise np.linalg.LinAlgError("no variable can take the place of one that must leave")
    basis = basis.copy()
    basis[row] = int(np.argmax(coefficients))
    return basis


def _choose_entering(reduced: Float[np.ndarray, "n"], *, bland: bool) -> int:
    if bland:
        negative = np.flatnonzero(reduced < -_REDUCED_COST)
        return int(negative[0]) if negative.size else -1
    best = int(np.argmin(reduced))
    return best if reduced[best] < -_REDUCED_COST else -1


def _choose_leaving(
    values: Float[np.ndarray, "r"], direction: Float[np.ndarray, "r"], basis: Int[np.ndarray, "r"], *, bland: bool
) -> tuple[int, float]:
    """Choose the basic variable that reaches zero first; at near ties the largest pivot or the lowest index (Bland).

    Bland's rule proper would take any pivot; one that is tiny beside the others would ruin the basis instead.
    """
    rows = np.flatnonzero(direction > _PIVOT)
    if rows.size == 0:
        return -1, 0.0
    ratios = np.maximum(values[rows], 0.0) / direction[rows]
    step = float(ratios.min())
    tied = rows[ratios <= step + 1e-13]
    if bland:
        tied = tied[direction[tied] >= 1e-4 * direction[tied].max()]
        return int(tied[np.argmin(basis[tied])]), step
    return int(tied[np.argmax(direction[tied])]), step


def _exchange(inverse: Float[np.ndarray, "r r"], direction: Float[np.ndarray, "r"], row: int) -> None:
    """Update the inverse of the basis in place for the column that enters at `row`."""
    inverse[row] /= direction[row]
    factors = direction.copy()
    factors[row] = 0.0
    inverse -= np.outer(factors, inverse[row])
