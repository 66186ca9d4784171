"""The master problem of column generation, as a linear program in standard form.

With plans k and their images f_k = f(Psi_k), g_k = g(Psi_k):

    min_w  sum_k w_k f_k   s.t.  sum_k w_k g_k <= 0,  w in the simplex.

While no mixture is feasible, phase 1 minimises the largest violation t instead, measured in each row's units.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bidual.dual._simplex import Vertex, exchange_out, solve_by_simplex
from bidual.problem.convex import AffineProgram


class WarmStart(NamedTuple):
    """The final basis of a master problem, as the start of the next."""

    basis: Int[np.ndarray, "r"]
    relaxation: Float[np.ndarray, "r"]  # rounding errors of phase 1, which phase 2 must allow


class MasterSolution(NamedTuple):
    """The best mixture of the plans, and the multipliers of the constraints."""

    weights: Float[np.ndarray, "k"]
    gamma: Float[np.ndarray, "m"]
    objective_weight: float  # 0: phase 1, gamma sums to 1 in units; 1: phase 2
    warm: WarmStart | None


def solve_master(
    program: AffineProgram,
    f: Float[np.ndarray, "k"],
    g: Float[np.ndarray, "k m"],
    warm: WarmStart | None,
    *,
    accept: Float[np.ndarray, "m"],
    lp: Callable[..., Vertex] = solve_by_simplex,
) -> MasterSolution:
    """Solve for the best mixture: phase 1 while every mixture violates more than `accept`, then phase 2.

    Raises `LinAlgError` where the rows are dependent up to rounding.

    Args:
        program: the rows.
        f: objective of every plan.
        g: constraints of every plan.
        warm: the basis of the last master.
        accept: violations that end phase 1.
        lp: `solve_by_simplex`, or `solve_by_highs` where it fails, which is rare; only the former can be continued.
    """
    # A row that is tight for every plan holds nothing but rounding errors: they must not be scaled up to a constraint.
    g = np.where(np.abs(g) <= program.resolution, 0.0, g)
    table = _build_tableau(program, g)
    basis, relaxation = warm or WarmStart(_start_basis(table.signed[0] / program.units[table.owner]), np.zeros(table.t))
    if table.t in basis:
        basis, values, prices = lp(table.A, table.right_side(relaxation), table.cost_of_violation(), basis)
        weights = table.weights(basis, values)
        mixed = weights @ g
        if np.any(program.violations(mixed) > accept):
            gamma = _normalise(table.gamma(prices, 1.0, program.limits.size), program.units)
            return MasterSolution(weights, gamma, 0.0, WarmStart(basis, relaxation) if lp is solve_by_simplex else None)
        if lp is solve_by_simplex and table.t in basis:
            basis = exchange_out(table.A, basis, table.t)
        relaxation = np.maximum(mixed[table.owner] * table.sign, 0.0)
    table.A[:, table.t] = 0.0  # t may not come back
    scale = float(np.ptp(f)) or 1.0
    cost = np.append(np.zeros(table.t + 1), (f - f.mean()) / scale)
    basis, values, prices = lp(table.A, table.right_side(relaxation), cost, basis)
    gamma = table.gamma(prices, scale, program.limits.size)
    return MasterSolution(
        table.weights(basis, values), gamma, 1.0, WarmStart(basis, relaxation) if lp is solve_by_simplex else None
    )


def _normalise(gamma: Float[np.ndarray, "m"], units: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
    """Normalise multipliers of phase 1: in exact arithmetic they sum to 1 in units, and other rows have none."""
    gamma = np.where(np.abs(gamma) * units < 1e-9, 0.0, gamma)
    if not gamma.any():
        raise np.linalg.LinAlgError("the violation cannot be resolved")
    return gamma / (np.abs(gamma) @ units)


class _Tableau(NamedTuple):
    """The rows of the master problem.

    Variables, in an order that survives new plans: one slack per row, the violation t, one weight per plan.
    Rows, each divided by its scale: the inequalities, every equality as two of them, the sum of weights.
    """

    A: Float[np.ndarray, "rows n"]
    signed: Float[np.ndarray, "k r"]
    scale: Float[np.ndarray, "r"]
    owner: Int[np.ndarray, "r"]  # the user's row each of ours belongs to, and with which sign
    sign: Float[np.ndarray, "r"]

    @property
    def t(self) -> int:
        """The index of the variable t, which is also the number of rows but one."""
        return self.scale.size

    def right_side(self, relaxation: Float[np.ndarray, "r"]) -> Float[np.ndarray, "rows"]:
        return np.append(relaxation / self.scale, 1.0)

    def cost_of_violation(self) -> Float[np.ndarray, "n"]:
        cost = np.zeros(self.A.shape[1])
        cost[self.t] = 1.0
        return cost

    def weights(self, basis: Int[np.ndarray, "n"], values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "k"]:
        weights = np.zeros(len(self.signed))
        plans = basis > self.t
        weights[basis[plans] - self.t - 1] = values[plans]
        if not weights.sum() > 0.5:
            raise np.linalg.LinAlgError("the weights of the master problem do not sum to 1")
        return weights / weights.sum()

    def gamma(self, prices: Float[np.ndarray, "rows"], cost_scale: float, m: int) -> Float[np.ndarray, "m"]:
        halves = np.maximum(-prices[:-1], 0.0) * cost_scale / self.scale
        gamma = np.zeros(m)
        np.add.at(gamma, self.owner, halves * self.sign)
        return gamma


def _build_tableau(program: AffineProgram, g: Float[np.ndarray, "k m"]) -> _Tableau:
    """Build the master over the values g of k plans, its rows scaled by their sizes."""
    equal = np.flatnonzero(program.equality)
    owner = np.append(np.arange(program.limits.size), equal)
    sign = np.ones(owner.size)
    sign[program.limits.size :] = -1.0
    signed = g[:, owner] * sign
    # A row with next to nothing in it must not be blown up to full size.
    size = np.abs(signed).max(axis=0)
    scale = np.where(size >= 100 * program.tolerances[owner], size, program.units[owner])
    return _Tableau(_build_matrix(signed, scale, program.units[owner]), signed, scale, owner, sign)


def _build_matrix(
    signed: Float[np.ndarray, "k r"], scale: Float[np.ndarray, "r"], units: Float[np.ndarray, "r"]
) -> Float[np.ndarray, "rows n"]:
    """Build the constraint matrix: a column for each slack, one for the violation, one for each plan."""
    k, r = signed.shape
    A = np.zeros((r + 1, r + 1 + k))
    np.fill_diagonal(A[:r, :r], 1.0)
    A[:r, r] = -units / scale
    A[:r, r + 1 :] = (signed / scale).T
    A[r, r + 1 :] = 1.0
    return A


def _start_basis(signed: Float[np.ndarray, "r"]) -> Int[np.ndarray, "rows"]:
    """Return the basis of all slacks and the only plan; t replaces the worst row's slack if the plan violates one."""
    r = signed.size
    basis = np.append(np.arange(r), r + 1)
    if r and signed.max() > 0:
        basis[int(np.argmax(signed))] = r
    return basis
