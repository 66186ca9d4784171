"""Potentials: functions V of the state that prove, row by row, that no policy is cheaper.

Every V with V(s) <= c(s, a) + sum_k M_k(s, a) V(s'_k) for all pairs is at most the cost of every policy that ends.
Where some row fails by a little, V is lowered by that times the number of steps that count, if that is bounded. For
averages the least of c(s, a) + sum_k P_k(s, a) h(s'_k) - h(s) is itself below the average of every policy. V may come
from anywhere, the search, a file or the improvements here, and a poor one is a poor bound, never a false
one.

Rows are summed as c + sum_k p_k (V(s'_k) - V(s)): where nothing is paid and V does not change, there is no rounding.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from scipy.sparse.csgraph import connected_components

from bidual._base.resolvent import Resolvent
from bidual.certificate._chains import discounted_time, follow
from bidual.certificate._evaluate import average_start
from bidual.certificate._types import Evidence
from bidual.certificate.rounding import EPS
from bidual.world.mdp import Discounted, find_successors

_MOST = 1000  # improvements


def bound_by_potential(
    evidence: Evidence,
    V: Float[np.ndarray, "S"],
    theta: Float[np.ndarray, "1 d"],
    magnitude: Float[np.ndarray, "1 d"],
    terms: int,
) -> tuple[float, float]:
    """Bound theta . Psi of every policy from below by a potential; return the rounding slack in it as well.

    The coefficients of theta are sums of `terms` products, of at most `magnitude` in absolute value. -inf where the
    potential proves nothing.
    """
    mdp, steps = evidence.mdp, evidence.mdp.steps
    V = np.where(steps.live, V, 0.0)
    rows, room = _leave_rows(evidence, V, theta, magnitude, terms)
    largest = 4 * EPS * float(np.abs(V).max(initial=0.0))
    least, slack = float((rows - room).min(initial=np.inf)), float(room.max(initial=0.0))
    if steps.anchor is not None:
        return least, slack
    time = discounted_time(mdp.criterion) if isinstance(mdp.criterion, Discounted) else mdp.mass[1]
    start = average_start(mdp, V) - largest
    if least >= 0:
        return start, largest
    if not np.isfinite(time):
        return -np.inf, 0.0
    moved = least * time * (1 + 4 * EPS)
    return start + moved - 4 * EPS * (abs(start) + abs(moved)), slack * time + largest


def find_potential(evidence: Evidence, theta: Float[np.ndarray, "1 d"]) -> Float[np.ndarray, "S"]:
    """Find the values of the cheapest policy; no code is shared with the planner."""
    steps = evidence.mdp.steps
    cost = np.where(steps.pairs, evidence.psi.pay(theta[0], 0), np.inf)
    if steps.proper is None:
        return _improve(evidence, cost, None)
    free = _find_free_cycles(evidence, cost)
    # Rows fail by roundings, and there is no number of steps to lower V by: so it is found for a little less.
    largest = np.abs(cost[steps.pairs]).max(initial=0.0) + 2 * np.abs(_improve(evidence, cost, steps.proper)).max()
    margin = (4 * evidence.mdp.successors.states.shape[3] + 200) * EPS * float(largest)
    V = _improve(evidence, np.where(free >= 0, cost, cost - margin), steps.proper)
    inside = free.max(axis=1)
    for group in np.unique(inside[inside >= 0]):
        V[inside == group] = V[inside == group].min()
    return V


def _improve(evidence: Evidence, cost: Float[np.ndarray, "S A"], actions: np.ndarray | None) -> Float[np.ndarray, "S"]:
    """Improve a policy until its values hold in every row up to rounding, and return them."""
    steps, live = evidence.mdp.steps, evidence.mdp.steps.live
    (S, A), V, gain = cost.shape, np.zeros(evidence.mdp.num_states), 0.0
    first = np.arange(S) * A
    if actions is None:
        chain = follow(evidence)
        V = chain.solve(np.einsum("sa,sa->s", chain.law, np.where(chain.law > 0, cost, 0.0)))
        actions = (cost + (steps.kernel @ V).reshape(S, A)).argmin(axis=1)
    for _ in range(_MOST):
        chosen = first + actions
        solve = Resolvent(sp.csr_array(steps.kernel[chosen]))
        V = solve(np.where(live, cost.ravel()[chosen], 0.0), V)
        if steps.anchor is not None:
            lengths = solve(live.astype(float))
            gain = float(V[steps.anchor] / lengths[steps.anchor])
            V = V - gain * lengths
        Q = cost - gain + (steps.kernel @ V).reshape(S, A)
        least, taken = Q.min(axis=1), Q.ravel()[chosen]
        better = live & (least < taken - 64 * EPS * (np.abs(np.where(live, least, 0.0)) + np.abs(V).max()))
        if not better.any():
            break
        actions = np.asarray(np.where(better, Q.argmin(axis=1), actions))
        if not np.all(np.isfinite(V)):
            return np.zeros(S)
    return V


def _find_free_cycles(evidence: Evidence, cost: Float[np.ndarray, "S A"]) -> np.ndarray:
    """Return for every pair the number of the set in which a policy can stay for ever by it and pay nothing, or -1."""
    steps, possible = evidence.mdp.steps, find_successors(evidence.mdp.successors)
    S, A = cost.shape
    inside: Bool[np.ndarray, "S A"] = steps.pairs & (cost == 0)
    labels = np.zeros(S, dtype=np.int64)
    while inside.any():
        pairs = np.flatnonzero(inside.ravel())
        flow = possible[pairs]
        starts = np.repeat(pairs // A, np.diff(flow.indptr))
        graph = sp.csr_array((np.ones(starts.size), (starts, flow.indices)), shape=(S, S))
        _, labels = connected_components(graph, directed=True, connection="strong")
        leaves = labels[starts] != labels[flow.indices]
        broken = np.unique(np.repeat(pairs, np.diff(flow.indptr))[leaves])
        if not broken.size:
            break
        inside.ravel()[broken] = False
    return np.where(inside, labels[:, None], -1)


def _leave_rows(
    evidence: Evidence,
    V: Float[np.ndarray, "S"],
    theta: Float[np.ndarray, "1 d"],
    magnitude: Float[np.ndarray, "1 d"],
    terms: int,
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Return by how much the row of every pair holds, and the rounding of that."""
    lists, pairs = evidence.mdp.successors, evidence.mdp.steps.pairs
    states, actions = np.nonzero(pairs)
    criterion = evidence.mdp.criterion
    factor = criterion.discount if isinstance(criterion, Discounted) else 1.0
    chances = lists.probabilities[0][states, actions]
    moves = V[lists.states[0][states, actions]] - V[states][:, None]
    pay = evidence.psi.pay(theta[0], 0)[pairs]
    sizes = replace(evidence.psi, signals=np.abs(evidence.psi.signals)).pay(magnitude[0], 0)[pairs]
    lost = (1 - factor) * V[states]
    rows = pay + factor * np.einsum("nk,nk->n", chances, moves) - lost
    sizes = sizes + factor * np.einsum("nk,nk->n", chances, np.abs(moves)) + np.abs(lost)
    return rows, (2 * chances.shape[1] + evidence.psi.dimension + terms + 12) * EPS * sizes
