"""Chains over an unbounded time, in plain NumPy and SciPy: their values and visits, with errors from residuals.

Whatever solves a system, the error of the answer is derived here. Where V nearly solves V = c + M V, it is off by at
most (I - M)^-1 of the residual. Rows of that sum to at most w for every w >= 0 with w(s) >= 1 + sum_k M_k(s) w(s'_k):
the steps that count, 1 / (1 - discount) or a number that is proved row by row, which also proves that the chain ends.
Averages need no such number: where |g + h(s) - c(s) - sum_k P_k(s) h(s'_k)| <= r in all states, g is off by at most r.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from bidual._base.errors import CertificateError
from bidual._base.resolvent import Resolvent
from bidual.certificate._evaluate import average_start
from bidual.certificate._types import Evidence
from bidual.certificate.rounding import EPS
from bidual.world.mdp import Discounted, TabularMDP, reach

_ROOM = 1e-6  # by which a number of steps is rounded up, to be proved row by row


class PolicyChain(NamedTuple):
    """The chain that a policy makes, in the states that it reaches."""

    mdp: TabularMDP
    law: Float[np.ndarray, "S A"]  # of the actions; 0 in states that are not reached
    reached: Bool[np.ndarray, "S"]
    matrix: sp.csr_array  # (S, S): the law of the next state, as far as that counts
    solve: Resolvent
    terms: int  # rounding errors of a sum over actions and successors, in units of eps
    time: float  # no more steps than this count, from any state


def follow(evidence: Evidence) -> PolicyChain:
    """Return the chain of the policy; raise `CertificateError` where it is not shown to end, if it has to."""
    mdp, steps = evidence.mdp, evidence.mdp.steps
    S, A, K = mdp.successors.states.shape[1:]
    law = evidence.policy.table[0]
    matrix = _mix(np.where(steps.pairs, law, 0.0), steps.kernel)
    reached = reach(matrix, np.ones((S, 1), dtype=bool), (steps.start > 0) | (mdp.initial > 0)) & steps.live
    wrong = np.argwhere((law > 0) & ~steps.pairs & reached[:, None])
    if wrong.size:
        raise CertificateError(
            f"the policy takes action {wrong[0, 1]} in state {wrong[0, 0]}, from where nothing shows that it ends"
        )
    law = np.where(reached[:, None], law, 0.0)
    matrix = _mix(law, steps.kernel)
    # Rows of the policy and of the law stand for themselves divided by their sums: 4 A and K roundings more.
    terms, solve = 6 * A + 2 * K + 12, Resolvent(matrix)
    return PolicyChain(mdp, law, reached, matrix, solve, terms, _bound_time(mdp, reached, matrix, solve, terms))


def evaluate(chain: PolicyChain, pay: Float[np.ndarray, "S A"], largest: float) -> tuple[float, float]:
    """Compute what the policy pays of a linear cost, and bound the error; no pair pays more than `largest`."""
    paying = np.einsum("sa,sa->s", chain.law, np.where(chain.law > 0, pay, 0.0))
    V, gain = chain.solve(paying), 0.0
    anchor = chain.mdp.steps.anchor
    if anchor is not None:
        lengths = chain.solve(chain.reached.astype(float))
        gain = float(V[anchor] / lengths[anchor])
        V = V - gain * lengths
        V[anchor] = 0.0  # so that steps which arrive there may be left out
    residual = np.where(chain.reached, paying - gain + chain.matrix @ V - V, 0.0)
    size = largest + abs(gain) + 2 * float(np.abs(V).max())
    error = float(np.abs(residual).max()) + chain.terms * EPS * size
    if anchor is not None:
        return gain, error * (1 + 8 * EPS)
    return average_start(chain.mdp, V), chain.time * error * (1 + 8 * EPS) + 4 * EPS * float(np.abs(V).max())


def count_visits(chain: PolicyChain) -> tuple[Float[np.ndarray, "S"], float]:
    """Compute how often the policy is in every state, and bound the sum of the errors."""
    start = chain.mdp.steps.start * chain.reached
    visits = np.maximum(chain.solve(start, transposed=True), 0.0)  # nearer to the truth, which is not negative
    arrived = chain.matrix.T @ visits
    residual = float(np.abs(start + arrived - visits).sum())
    ways = int(np.bincount(chain.matrix.indices, minlength=1).max(initial=0))
    room = (chain.terms + ways + 4) * EPS * float(visits.sum() + arrived.sum() + 1)
    error = chain.time * (residual + room) * (1 + (visits.size + 8) * EPS)
    if chain.mdp.steps.anchor is None:
        return visits, error
    length = float(visits.sum())
    if not error < length:
        return visits / length, np.inf
    return visits / length, 2 * error / (length - error) + (visits.size + 8) * EPS


def _mix(law: Float[np.ndarray, "S A"], kernel: sp.csr_array) -> sp.csr_array:
    """Return the kernel of the chain that a law of actions makes."""
    S, A = law.shape
    mix = sp.csr_array((law.ravel(), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A))
    matrix = sp.csr_array(mix @ kernel)
    matrix.eliminate_zeros()  # of actions that are not taken: nothing is reached by them
    return matrix


def _bound_time(
    mdp: TabularMDP, reached: Bool[np.ndarray, "S"], matrix: sp.csr_array, solve: Resolvent, terms: int
) -> float:
    """Bound the number of steps that count from any state that is reached."""
    if isinstance(mdp.criterion, Discounted):
        return discounted_time(mdp.criterion)
    try:
        w = np.where(reached, solve(reached.astype(float)), 0.0) * (1 + _ROOM)
    except RuntimeError:  # a system without a solution
        w = np.full(reached.size, np.nan)
    with np.errstate(invalid="ignore"):
        rows = np.where(reached, w - matrix @ w, np.inf)
        proved = w.min() >= 0 and rows.min() - 2 * terms * EPS * w.max() >= 1 if reached.any() else True
    if not proved:
        raise CertificateError("the policy is not shown to end: it may go on for ever, and totals may be infinite")
    return float(w.max())


def discounted_time(criterion: Discounted) -> float:
    """Return 1 / (1 - discount), rounded up."""
    return (1 + 4 * EPS) / (1 - criterion.discount)  # the difference of a number below 1 and 1 has one rounding
