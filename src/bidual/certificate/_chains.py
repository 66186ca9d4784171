"""Chains over an unbounded time, in plain NumPy and SciPy: their values and visits, with errors from residuals.

Whatever solves a system, the error of the answer is derived here. Where V nearly solves V = c + M V, it is off by at
most (I - M)^-1 of the residual, and rows of that sum to at most the number of steps that count, 1 / (1 - discount).
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.resolvent import Resolvent
from bidual.certificate._evaluate import list_kernels
from bidual.certificate._types import Evidence
from bidual.certificate.rounding import EPS
from bidual.world.mdp import Discounted, TabularMDP


class PolicyChain(NamedTuple):
    """The chain that a policy makes."""

    matrix: sp.csr_array  # (S, S): the law of the next state, times the chance that there is one
    solve: Resolvent
    terms: int  # rounding errors of a sum over actions and successors, in units of eps
    time: float  # no more steps than this count, from any state


def bound_time(mdp: TabularMDP) -> float:
    """Bound the number of steps that count, 1 / (1 - discount)."""
    assert isinstance(mdp.criterion, Discounted)  # the one criterion that there is
    return (1 + 4 * EPS) / (1 - mdp.criterion.discount)  # the difference of a number below 1 and 1 has one rounding


def list_pair_kernel(mdp: TabularMDP) -> sp.csr_array:
    """Return the law of the next state for every state and action (S A, S), times the chance that there is one."""
    assert isinstance(mdp.criterion, Discounted)  # the one criterion that there is
    (kernel,) = list_kernels(mdp)
    return mdp.criterion.discount * kernel


def follow(evidence: Evidence) -> PolicyChain:
    """Return the chain of the policy."""
    mdp = evidence.mdp
    S, A, K = mdp.successors.states.shape[1:]
    law = evidence.policy.table[0]
    mix = sp.csr_array((law.ravel(), np.arange(S * A), np.arange(S + 1) * A), shape=(S, S * A))
    matrix = sp.csr_array(mix @ list_pair_kernel(mdp))
    # Rows of the policy and of the law stand for themselves divided by their sums: 4 A and K roundings more.
    return PolicyChain(matrix, Resolvent(matrix), 6 * A + 2 * K + 12, bound_time(mdp))


def evaluate(chain: PolicyChain, pay: Float[np.ndarray, "S"], largest: float) -> tuple[Float[np.ndarray, "S"], float]:
    """Compute what a policy pays from every state on, and bound the error; no pair pays more than `largest`."""
    V = chain.solve(pay)
    residual = pay + chain.matrix @ V - V
    room = chain.terms * EPS * (largest + 2 * float(np.abs(V).max()))
    return V, chain.time * (float(np.abs(residual).max()) + room) * (1 + 8 * EPS)


def count_visits(chain: PolicyChain, initial: Float[np.ndarray, "S"]) -> tuple[Float[np.ndarray, "S"], float]:
    """Compute the expected number of visits to every state, and bound the sum of their errors."""
    visits = np.maximum(chain.solve(initial, transposed=True), 0.0)  # nearer to the truth, which is not negative
    arrived = chain.matrix.T @ visits
    residual = float(np.abs(initial + arrived - visits).sum())
    ways = int(np.bincount(chain.matrix.indices, minlength=1).max(initial=0))
    room = (chain.terms + ways + 4) * EPS * float(visits.sum() + arrived.sum() + 1)
    return visits, chain.time * (residual + room) * (1 + (visits.size + 8) * EPS)
