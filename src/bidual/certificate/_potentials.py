"""Potentials: functions V of the state that prove, row by row, that no policy is cheaper.

Over an unbounded time every V with V(s) <= c(s, a) + sum_k M_k(s, a) V(s'_k) for all pairs is at most the cost of
every policy. Where some row fails by a little, V is lowered by that times the number of steps that count. So V may come
from anywhere: from the search, from a file, or from the improvements here, and a poor one is a poor bound, never a
false one.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.resolvent import Resolvent
from bidual.certificate._chains import bound_time, follow, list_pair_kernel
from bidual.certificate._evaluate import average_start
from bidual.certificate._types import Evidence
from bidual.certificate.rounding import EPS

_MOST = 1000  # improvements


def bound_by_potential(
    evidence: Evidence,
    V: Float[np.ndarray, "S"],
    theta: Float[np.ndarray, "1 d"],
    magnitude: Float[np.ndarray, "1 d"],
    terms: int,
) -> tuple[float, float]:
    """Bound theta . Psi of every policy from below by a potential; return the rounding slack in it as well.

    The coefficients of theta are sums of `terms` products, of at most `magnitude` in absolute value.
    """
    mdp, psi = evidence.mdp, evidence.psi
    K = mdp.successors.states.shape[3]
    largest, V_largest = _measure(evidence, magnitude), float(np.abs(V).max())
    rows = _leave_rows(evidence, V, theta)
    room = (2 * K + psi.dimension + terms + 12) * EPS * (largest + 2 * V_largest)
    slack = room * bound_time(mdp) + 4 * EPS * V_largest
    least = float(rows.min())
    moved = least * bound_time(mdp) if least < 0 else least / (1 + 8 * EPS)
    return average_start(mdp, V) + moved - slack - 4 * EPS * abs(moved), slack


def find_potential(evidence: Evidence, theta: Float[np.ndarray, "1 d"]) -> Float[np.ndarray, "S"]:
    """Find the values of the cheapest policy, from those of the policy at hand; no code is shared with the planner."""
    mdp, chain = evidence.mdp, follow(evidence)
    cost, kernel = _place_cost(evidence, theta), list_pair_kernel(mdp)
    law, first = evidence.policy.table[0], np.arange(mdp.num_states) * mdp.num_actions
    V = chain.solve(np.einsum("sa,sa->s", law, np.where(law > 0, cost, 0.0)))
    for _ in range(_MOST):
        Q = cost + (kernel @ V).reshape(cost.shape)
        least = Q.min(axis=1)
        if not np.any(least < V - 64 * EPS * (np.abs(least) + np.abs(V).max())):
            break
        chosen = first + Q.argmin(axis=1)
        V = Resolvent(sp.csr_array(kernel[chosen]))(cost.ravel()[chosen], V)
    return V


def _place_cost(evidence: Evidence, theta: Float[np.ndarray, "1 d"]) -> Float[np.ndarray, "S A"]:
    return np.where(evidence.mdp.actions, evidence.psi.pay(theta[0], 0), np.inf)


def _leave_rows(
    evidence: Evidence, V: Float[np.ndarray, "S"], theta: Float[np.ndarray, "1 d"]
) -> Float[np.ndarray, "S"]:
    """Return by how much the worst row of every state holds."""
    Q = _place_cost(evidence, theta) + (list_pair_kernel(evidence.mdp) @ V).reshape(evidence.mdp.actions.shape)
    return Q.min(axis=1) - V


def _measure(evidence: Evidence, magnitude: Float[np.ndarray, "1 d"]) -> float:
    """Bound the sum of the absolute values that any pair's cost is summed from."""
    least, most = evidence.psi.mass
    del least
    return float(np.sum(magnitude * evidence.psi.peaks()) / most)
