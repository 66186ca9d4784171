"""Policy evaluation and minimisation of a linear cost, in plain NumPy and SciPy: no code shared with the planner."""

import math
from functools import reduce

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual._base.types import select_step
from bidual.certificate._types import Evidence
from bidual.certificate.rounding import EPS
from bidual.world.mdp import TabularMDP
from bidual.world.policies import Choices


def compute_minimum(evidence: Evidence, kernels: list[sp.csr_array], theta: Float[np.ndarray, "H d"]) -> float:
    """Compute the least theta . Psi over all policies, up to rounding."""
    mdp, psi, forbidden = evidence.mdp, evidence.psi, ~evidence.mdp.actions
    V, pay = np.zeros(mdp.num_states), np.zeros(0)
    for h in reversed(range(mdp.horizon)):
        if h == mdp.horizon - 1 or psi.signals.shape[0] > 1 or not np.array_equal(theta[h], theta[h + 1]):
            pay = np.where(forbidden, np.inf, psi.pay(theta[h], h))
        Q = (kernels[h % len(kernels)] @ V).reshape(forbidden.shape)
        Q += pay
        V = reduce(np.minimum, Q.T)  # ``Q.min(axis=1)``, at a fifth of the time
    return average_start(mdp, V)


def evaluate_backward(evidence: Evidence, kernels: list[sp.csr_array], theta: Float[np.ndarray, "H d"]) -> float:
    """Compute theta . Psi of the policy, by evaluating it backward."""
    V = np.zeros(evidence.mdp.num_states)
    for h in reversed(range(evidence.mdp.horizon)):
        Q = evidence.psi.pay(theta[h], h) + (kernels[h % len(kernels)] @ V).reshape(evidence.mdp.actions.shape)
        V = evidence.policy.expect(h, Q)
    return average_start(evidence.mdp, V)


def bound_forward_error(mdp: TabularMDP, kernels: list[sp.csr_array]) -> float:
    """Bound the relative error of a state's visits after H steps forward.

    All terms are probabilities, so nothing cancels: a step sums as many products as the state has ways in (at most
    `ways`, of two roundings each), and the errors of the steps add up. eps is twice the unit roundoff.
    """
    ways = max(int(np.bincount(kernel.indices, minlength=1).max()) for kernel in kernels)
    return mdp.horizon * (ways + mdp.num_actions + 4) * EPS


def list_kernels(mdp: TabularMDP) -> list[sp.csr_array]:
    """Return the law of every step, or the one law of all steps, as a sparse (S A, S) matrix."""
    lists = mdp.successors
    S, A, K = lists.states.shape[1:]
    rows = np.arange(S * A + 1) * K
    return [
        sp.csr_array(
            (select_step(lists.probabilities, h).ravel(), select_step(lists.states, h).ravel(), rows), shape=(S * A, S)
        )
        for h in range(max(lists.states.shape[0], lists.probabilities.shape[0]))
    ]


def roll_out(
    evidence: Evidence, kernels: list[sp.csr_array]
) -> tuple[Float[np.ndarray, "H S"], Float[np.ndarray, "H d"]]:
    """Compute the visits and the embedding of the policy, step by step from the start."""
    mdp, psi = evidence.mdp, evidence.psi
    transposed = [kernel.T for kernel in kernels]
    visits = np.empty((mdp.horizon, mdp.num_states))
    embedding = np.empty((mdp.horizon, psi.dimension))
    mu = mdp.initial
    for h in range(mdp.horizon):
        visits[h] = mu
        occupancy = evidence.policy.spread(h, mu)
        embedding[h] = psi.expect(occupancy, h)
        mu = transposed[h % len(transposed)] @ occupancy.ravel()
    mass = visits.sum(axis=1)
    if not np.abs(mass - 1).max() <= 1e-9:
        h = int(np.argmax(np.abs(mass - 1)))
        raise CertificateError(f"the policy's visits at step {h} sum to {mass[h]:.12g}, not 1")
    return visits, embedding


def average_start(mdp: TabularMDP, V: Float[np.ndarray, "S"]) -> float:
    """Compute E V(s_1), with an exactly rounded sum: the start law may have many states."""
    return float(average_starts(mdp, V[None])[0])


def average_starts(mdp: TabularMDP, V: Float[np.ndarray, "n S"]) -> Float[np.ndarray, "n"]:
    """Compute E V(s_1) of n functions."""
    start = np.flatnonzero(mdp.initial)
    return np.array([math.fsum(terms) for terms in (mdp.initial[start] * V[:, start]).tolist()])


def check_policy(evidence: Evidence) -> None:
    """Raise `CertificateError` for a policy of another shape, or whose rows are no laws."""
    mdp, policy = evidence.mdp, evidence.policy
    if policy.shape != (mdp.horizon, mdp.num_states, mdp.num_actions):
        raise CertificateError(f"the policy has shape {policy.shape} but the model is {mdp!r}")
    laws = policy.table if policy.choices is None else policy.choices.shares.swapaxes(1, 2)
    if not np.all(np.isfinite(laws)) or laws.min() < 0:
        raise CertificateError("the policy has a negative or non-finite probability")
    if not np.abs(laws.sum(axis=-1) - 1).max() <= 4 * mdp.num_actions * EPS:
        raise CertificateError("the policy's probabilities do not sum to 1 somewhere")
    if np.any(laws[:, ~mdp.actions] > 0) if policy.choices is None else _is_forbidden(policy.choices, mdp):
        raise CertificateError("the policy takes an action that its state does not allow")


def _is_forbidden(choices: Choices, mdp: TabularMDP) -> bool:
    """Check whether choices name states or actions that there are not, or that do not belong together."""
    kept, actions, elsewhere = choices.kept, choices.actions, choices.elsewhere
    if kept.size and (kept[0] < 0 or kept[-1] >= mdp.num_states or np.any(np.diff(kept) <= 0)):
        return True
    if any(one.size and not 0 <= one.min() <= one.max() < mdp.num_actions for one in (actions, elsewhere)):
        return True
    allowed = mdp.actions.all() or mdp.actions[kept, actions][choices.shares > 0].all()
    return not (allowed and mdp.actions[np.arange(mdp.num_states), elsewhere].all())
