"""A small dense quadratic program over the simplex, by a primal active-set method from any feasible point.

The master's quadratic models have some dozens of columns, few of them used, and the last answer is nearly the next
one: a handful of linear systems of the size of the support.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_PIVOTS = 300


class QuadraticProgram(NamedTuple):
    """min c.w + w.M.w / 2  over  w >= lower, sum w = 1, A w <= b."""

    M: Float[np.ndarray, "k k"]
    c: Float[np.ndarray, "k"]
    A: Float[np.ndarray, "m k"]
    b: Float[np.ndarray, "m"]
    lower: Float[np.ndarray, "k"]


class Move(NamedTuple):
    """A step of the free weights, and its blocking bound or row."""

    step: Float[np.ndarray, "f"]
    prices: Float[np.ndarray, "t"]  # of the sum, then of the tight rows
    length: float
    blocking: int  # the weight that reaches its bound, or -1
    row: int  # the row that becomes tight, or -1


def solve_simplex_qp(
    quadratic: QuadraticProgram, start: Float[np.ndarray, "k"], *, tolerance: float, ridge: float
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "m"]]:
    """Solve for the weights and the multipliers of the rows A w <= b.

    Args:
        quadratic: the problem.
        start: a feasible point.
        tolerance: a column enters only if its reduced cost is below minus this.
        ridge: added to the diagonal, as a share of its mean: near-duplicates make M singular.
    """
    scale = np.maximum(np.ptp(quadratic.A, axis=1), 1e-300) if quadratic.b.size else np.ones(0)
    q = quadratic._replace(A=quadratic.A / scale[:, None], b=quadratic.b / scale)
    kkt = _build_conditions(q, ridge * max(float(np.mean(np.diag(q.M))), 1e-30))
    w = start.copy()
    free, tight = w > q.lower + 1e-14, np.zeros(q.b.size, dtype=bool)
    free[np.argmax(w)] = True
    gradient, prices = q.c + q.M @ w, np.zeros(q.b.size)
    barred, entered = np.zeros(w.size, dtype=bool), -1  # columns that entered and could not move would cycle
    for _ in range(_PIVOTS):
        F, R = np.flatnonzero(free), np.flatnonzero(tight)
        move = _move(q, kkt, w, gradient, F, R)
        w[F] += move.length * move.step
        gradient = gradient + move.length * (q.M[:, F] @ move.step)
        if move.row >= 0:
            tight[move.row] = True
            continue
        if move.blocking >= 0:
            w[move.blocking] = q.lower[move.blocking]
            free[move.blocking] = False
            barred[move.blocking] |= move.blocking == entered
            continue
        prices = np.zeros(q.b.size)
        prices[R] = move.prices[1:]
        reduced = np.where(free | barred, 0.0, gradient + move.prices[0] + prices @ q.A)
        best = int(np.argmin(reduced))
        if prices.size and -prices.min() > max(tolerance, -reduced[best]):
            tight[np.argmin(prices)] = False
        elif reduced[best] < -tolerance:
            free[best], entered = True, best
        else:
            break
    w = np.maximum(w, q.lower)
    return w / w.sum(), np.maximum(prices, 0.0) / scale


def _build_conditions(q: QuadraticProgram, ridge: float) -> Float[np.ndarray, "n n"]:
    """Build the optimality conditions with every weight free and every row tight; a step solves a part of them."""
    k, n = q.c.size, q.c.size + 1 + q.b.size
    kkt = np.zeros((n, n))
    kkt[:k, :k], kkt[k, :k], kkt[k + 1 :, :k] = q.M, 1.0, q.A
    kkt[:k, k:] = kkt[k:, :k].T
    diagonal = np.concatenate([np.full(k, ridge), [0.0], np.full(q.b.size, -1e-13 * max(ridge, 1e-30))])
    kkt[np.arange(n), np.arange(n)] += diagonal
    return kkt


def _move(
    q: QuadraticProgram,
    kkt: Float[np.ndarray, "n n"],
    w: Float[np.ndarray, "k"],
    gradient: Float[np.ndarray, "k"],
    F: Int[np.ndarray, "f"],
    R: Int[np.ndarray, "t"],
) -> Move:
    """Compute the Newton step of the free weights within the tight rows, cut at a bound or another row."""
    n = F.size
    part = np.concatenate([F, [w.size], w.size + 1 + R])
    right = np.zeros(part.size)
    right[:n] = -gradient[F]
    system = kkt[part[:, None], part]
    try:
        solution = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        solution = np.linalg.lstsq(system, right, rcond=None)[0]
    step, length, blocking, row = solution[:n], 1.0, -1, -1
    room = np.where(step < 0, w[F] - q.lower[F], np.inf) / np.maximum(-step, 1e-300)
    first = int(np.argmin(room))
    if room[first] < length:
        length, blocking = max(float(room[first]), 0.0), int(F[first])
    for i in set(range(q.b.size)).difference(R.tolist()):
        rise = float(q.A[i, F] @ step)
        if rise > 1e-15 and (left := max(float(q.b[i] - q.A[i] @ w), 0.0) / rise) < length:
            length, blocking, row = left, -1, i
    return Move(step, solution[n:], length, blocking, row)
