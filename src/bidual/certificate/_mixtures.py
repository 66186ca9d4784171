"""The certificate of many mixtures of the same plans, for linear problems that differ in their limits only.

A mixture draws one of its plans and follows it, so its f and g are the weighted means of theirs. Each plan is
evaluated once and each cost is minimised once, however many limits there are; the arithmetic is that of `_affine`,
with its rounding slack.
"""

from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from bidual._base.errors import CertificateError
from bidual._base.types import select_step
from bidual.certificate._evaluate import average_starts, list_kernels
from bidual.certificate.rounding import EPS, bound_value_slack
from bidual.problem.convex import AffineProgram
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP

_ENTRIES = 2_000_000  # of the model, times plans evaluated at once: some tens of megabytes


@final
@dataclass(frozen=True, eq=False)
class Mixtures:
    """n mixtures of k plans, each with limits and multipliers of its own, and the claimed embeddings of the plans."""

    program: AffineProgram  # its own limits are not used
    psi: Psi
    mdp: TabularMDP
    actions: Int[np.ndarray, "k H S"]
    embeddings: Float[np.ndarray, "k H d"]  # a second opinion on the plans
    weights: Float[np.ndarray, "n k"]
    limits: Float[np.ndarray, "n m"]
    gamma: Float[np.ndarray, "n m"]


@final
@dataclass(frozen=True, eq=False)
class MixtureBounds:
    """The proven bounds of every mixture, in the minimising form."""

    value: Float[np.ndarray, "n"]
    upper: Float[np.ndarray, "n"]  # on the value of the mixture
    lower: Float[np.ndarray, "n"]  # on the value of every policy within the limits
    g: Float[np.ndarray, "n m"]
    violations_upper: Float[np.ndarray, "n m"]


def certify_mixtures(evidence: Mixtures) -> MixtureBounds:
    """Derive the bounds of all mixtures and multipliers, and check that they agree."""
    program, weights, limits = evidence.program, evidence.weights, evidence.limits
    _check(evidence)
    rows = np.concatenate([program.objective[None], program.rows])
    slack = bound_value_slack(evidence.mdp, evidence.psi, np.abs(rows), 1)
    plans = _evaluate(evidence, rows)
    _check_second_opinion(evidence, rows, plans, slack)
    mixed = weights @ plans
    # The mean of k numbers: a rounding for each, and weights that sum to 1 only up to 4 k.
    slack = slack + (5 * weights.shape[1] + 2) * EPS * np.abs(plans).max(axis=0)
    value, g = mixed[:, 0] + program.offset, mixed[:, 1:] - limits
    upper = value + slack[0] + 2 * EPS * abs(program.offset)
    g_slack = slack[1:] + 2 * EPS * np.abs(limits)
    violations_upper = np.where(program.equality, np.abs(g) + g_slack, np.maximum(g + g_slack, 0.0))
    lower = _bound_duals(evidence)
    room = upper + np.sum(np.abs(evidence.gamma) * violations_upper, axis=1)
    if not np.all(lower <= room):
        i = int(np.argmin(room - lower))
        raise CertificateError(
            f"the lower bound {float(lower[i])!r} exceeds what the mixture proves, {float(room[i])!r}"
        )
    return MixtureBounds(value, upper, lower, g, violations_upper)


def _evaluate(evidence: Mixtures, rows: Float[np.ndarray, "r H d"]) -> Float[np.ndarray, "k r"]:
    """Evaluate every row of every plan, backward; some plans at a time, as the blocks of one sparse matrix."""
    size = max(1, _ENTRIES // evidence.mdp.successors.states[0].size)
    groups = [evidence.actions[i : i + size] for i in range(0, len(evidence.actions), size)]
    return np.concatenate([_evaluate_group(evidence, rows, actions) for actions in groups])


def _evaluate_group(
    evidence: Mixtures, rows: Float[np.ndarray, "r H d"], actions: Int[np.ndarray, "k H S"]
) -> Float[np.ndarray, "k r"]:
    """Compute the value of every row for some plans at once, backward in time."""
    mdp, psi, k = evidence.mdp, evidence.psi, len(actions)
    S, A, K = mdp.successors.states.shape[1:]
    first, block = np.tile(np.arange(S) * A, k), np.repeat(np.arange(k, dtype=np.int32) * S, S)[:, None]
    same_law = mdp.successors.states.shape[0] == mdp.successors.probabilities.shape[0] == 1
    # One matrix, of which every step replaces the rows whose action is another than one step later: SciPy's checks of
    # a new one would cost more than the product. And one product for each row of the problem: SciPy is faster with a
    # vector than with two columns.
    parts = np.zeros(k * S * K), np.zeros(k * S * K, np.int32), np.arange(k * S + 1, dtype=np.int32) * K
    law = sp.csr_array(parts, shape=(k * S, k * S))
    chances, arrivals = law.data.reshape(k * S, K), law.indices.reshape(k * S, K)
    V, pay, taken = np.zeros((len(rows), k * S)), np.zeros(0), np.full(k * S, -1)
    for h in reversed(range(mdp.horizon)):
        if h == mdp.horizon - 1 or psi.signals.shape[0] > 1 or not np.array_equal(rows[:, h], rows[:, h + 1]):
            pay = np.stack([psi.pay(row[h], h) for row in rows]).reshape(len(rows), S * A)
        later, taken = taken, first + actions[:, h].ravel()
        new = np.flatnonzero(taken != later) if same_law else np.arange(k * S)
        chances[new] = select_step(mdp.successors.probabilities, h).reshape(S * A, K).take(taken[new], axis=0)
        arrivals[new] = select_step(mdp.successors.states, h).reshape(S * A, K).take(taken[new], axis=0) + block[new]
        V = np.stack([law @ values for values in V]) + pay.take(taken, axis=1)
    return average_starts(mdp, V.reshape(len(rows) * k, S)).reshape(len(rows), k).T


def _bound_duals(evidence: Mixtures) -> Float[np.ndarray, "n"]:
    """Bound the least f + gamma . g over all policies from below, for every gamma at once."""
    mdp, psi, program, gamma = evidence.mdp, evidence.psi, evidence.program, evidence.gamma
    kernels, forbidden = list_kernels(mdp), ~mdp.actions
    thetas = np.stack([program.theta(multipliers, 1.0) for multipliers in gamma])
    V = np.zeros((mdp.num_states, len(gamma)))
    pay = np.zeros(0)
    for h in reversed(range(mdp.horizon)):
        if h == mdp.horizon - 1 or psi.signals.shape[0] > 1 or not np.array_equal(thetas[:, h], thetas[:, h + 1]):
            pay = np.stack([psi.pay(theta[h], h) for theta in thetas], axis=-1)
            pay[forbidden] = np.inf
        Q = (kernels[h % len(kernels)] @ V).reshape(pay.shape) + pay
        V = reduce(np.minimum, Q.swapaxes(0, 1))  # ``Q.min(axis=1)``, at a fifth of the time
    magnitude = np.abs(program.objective) + np.einsum("ni,ihd->nhd", np.abs(gamma), np.abs(program.rows))
    terms = gamma.shape[1] + 1
    constants = abs(program.offset) + terms * np.sum(np.abs(gamma) * np.abs(evidence.limits), axis=1)
    slack = bound_value_slack(mdp, psi, magnitude, terms) + 4 * EPS * constants
    least = average_starts(mdp, V.T)
    return least + program.offset - np.sum(gamma * evidence.limits, axis=1) - slack


def _check(evidence: Mixtures) -> None:
    """Raise `CertificateError` for numbers, multipliers or weights that can prove nothing."""
    program, mdp = evidence.program, evidence.mdp
    if mdp.criterion is not None:
        raise CertificateError("plans are evaluated step by step here, and this model has no last step")
    parts = (program.objective, program.rows, evidence.limits, evidence.psi.signals, evidence.gamma, evidence.weights)
    if not all(np.all(np.isfinite(part)) for part in parts) or not np.isfinite(program.offset):
        raise CertificateError("the problem or its mixtures contain NaN or infinity: nothing can be certified")
    if np.where(program.equality, 0.0, evidence.gamma).min(initial=0.0) < 0:
        raise CertificateError("a multiplier of an inequality is negative: it proves nothing")
    k = evidence.weights.shape[1]
    if evidence.weights.min() < 0 or not np.abs(evidence.weights.sum(axis=1) - 1).max() <= 4 * k * EPS:
        raise CertificateError("the weights of a mixture are not a distribution")
    actions = evidence.actions
    if actions.shape[1:] != (mdp.horizon, mdp.num_states) or actions.min() < 0 or actions.max() >= mdp.num_actions:
        raise CertificateError(f"the plans have shape {actions.shape} but the model is {mdp!r}")
    if not mdp.actions.all() and not mdp.actions[np.arange(mdp.num_states), actions].all():
        raise CertificateError("a plan takes an action that its state does not allow")


def _check_second_opinion(
    evidence: Mixtures,
    rows: Float[np.ndarray, "r H d"],
    plans: Float[np.ndarray, "k r"],
    slack: Float[np.ndarray, "r"],
) -> None:
    """Raise `CertificateError` where a plan's stored embedding disagrees with its backward evaluation."""
    forward = np.einsum("rhd,khd->kr", rows, evidence.embeddings)
    if not np.all(np.abs(forward - plans) <= (2.0 + evidence.mdp.num_states) * slack):
        k = int(np.argmax(np.abs(forward - plans).max(axis=1)))
        raise CertificateError(f"two evaluations of plan {k} disagree: {plans[k]} backward, {forward[k]} forward")
