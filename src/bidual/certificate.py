"""Bounds that are derived from scratch before anyone sees them.

The solver's own numbers are never printed. From the returned policy and a small record (multipliers) this module
computes both bounds anew, in plain NumPy and SciPy, sharing no code with the planner:

* lower: the record's theta, minimised by a fresh backward induction. For any gamma >= 0 (free in sign for
  equalities) this is at most the optimum: weak duality needs nothing else;
* upper: the policy's own value, and every constraint's, by evaluating the policy backward;
* the policy's visits, forward, as a second opinion on those values, and their mass.

Each bound is widened by a rounding slack that is derived, not guessed (`rounding`). What does not fit together raises.
"""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._errors import CertificateError
from bidual._types import at_step
from bidual.convex import AffineProgram
from bidual.features import Psi
from bidual.mdp import TabularMDP
from bidual.policies import MarkovPolicy
from bidual.rounding import EPS, value_slack


@final
@dataclass(frozen=True, eq=False)
class Record:
    """All that a dual bound needs: the multipliers, and how much of the objective they go with."""

    gamma: Float[np.ndarray, "m"]
    objective_weight: float  # 1: a bound on the optimum; 0: a bound on the least possible violation


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """A problem over a known model, a policy, and a record: all that `certify` looks at."""

    program: AffineProgram
    psi: Psi
    mdp: TabularMDP
    policy: MarkovPolicy
    record: Record


@final
@dataclass(frozen=True, eq=False)
class Certificate:
    """What has been shown, for the problem in its minimising form."""

    value: float
    upper: float  # the policy pays at most this
    lower: float | None  # no feasible policy pays less; None where the record bounds the violation instead
    conflict: float | None  # every policy violates some row by at least this, in its units, if positive
    g: Float[np.ndarray, "m"]
    violations: Float[np.ndarray, "m"]
    violations_upper: Float[np.ndarray, "m"]
    embedding: Float[np.ndarray, "H d"]
    visits: Float[np.ndarray, "H S"]

    def feasible(self, program: AffineProgram) -> bool:
        """Whether every row is shown to hold within its tolerance."""
        return bool(np.all(self.violations_upper <= program.tolerances))

    def bounds(self, program: AffineProgram, *, maximises: bool) -> tuple[float | None, float | None]:
        """Lower and upper in the user's sense; None for what is not shown.

        A policy that is not feasible bounds nothing. One that is, within tolerance, may undercut the optimum of the
        exact limits by a rounding: then the weaker of the two numbers is the bound.
        """
        if self.lower is None:
            return None, None
        feasible = self.feasible(program)
        lower, upper = (min(self.lower, self.upper), self.upper) if feasible else (self.lower, None)
        return (None if upper is None else -upper, -lower) if maximises else (lower, upper)


def certify(evidence: Evidence) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    program, record = evidence.program, evidence.record
    _check_numbers(evidence)
    _check_policy(evidence)
    _check_record(evidence)
    kernels = _kernels(evidence.mdp)
    value, g, value_slack, g_slack = _evaluate(evidence, kernels)
    visits, embedding = _roll_out(evidence, kernels)
    _check_second_opinion(evidence, embedding, value, g, value_slack, g_slack)
    violations = program.violations(g)
    shown = Certificate(
        value=value,
        upper=value + value_slack,
        lower=None,
        conflict=None,
        g=g,
        violations=violations,
        violations_upper=np.where(program.equality, violations + g_slack, np.maximum(g + g_slack, 0.0)),
        embedding=embedding,
        visits=visits,
    )
    bound = _dual_bound(evidence, kernels)
    if record.objective_weight == 0:
        return replace(shown, conflict=bound)
    _check_weak_duality(shown, record, bound)
    return replace(shown, lower=bound)


def _kernels(mdp: TabularMDP) -> list[sp.csr_array]:
    """The transition law of every step, or the one law of all steps, as a sparse (S A, S) matrix."""
    lists = mdp.successors
    S, A, K = lists.states.shape[1:]
    rows = np.arange(S * A + 1) * K
    return [
        sp.csr_array(
            (at_step(lists.probabilities, h).ravel(), at_step(lists.states, h).ravel(), rows), shape=(S * A, S)
        )
        for h in range(max(lists.states.shape[0], lists.probabilities.shape[0]))
    ]


def _dual_bound(evidence: Evidence, kernels: list[sp.csr_array]) -> float:
    """The least  w f(Psi) + gamma . g(Psi)  over all policies, from below.

    With w = 1 no feasible policy has a smaller f. With w = 0 and sum_i |gamma_i| units_i = 1 every policy
    violates some row by at least this many of its units.
    """
    program, mdp = evidence.program, evidence.mdp
    gamma, weight = evidence.record.gamma, evidence.record.objective_weight
    theta, forbidden = program.theta(gamma, weight), ~mdp.actions
    V = np.zeros(mdp.num_states)
    for h in reversed(range(mdp.horizon)):
        Q = evidence.psi.pay(theta[h], h) + (kernels[h % len(kernels)] @ V).reshape(forbidden.shape)
        V = np.where(forbidden, np.inf, Q).min(axis=1)
    magnitude = weight * np.abs(program.objective) + np.einsum("i,ihd->hd", np.abs(gamma), np.abs(program.rows))
    constants = abs(weight * program.offset) + (gamma.size + 1) * float(np.abs(gamma) @ np.abs(program.limits))
    slack = float(value_slack(mdp, evidence.psi, magnitude[None], gamma.size + 1)[0]) + 4 * EPS * constants
    return _expected_start(mdp, V) + weight * program.offset - float(gamma @ program.limits) - slack


def _evaluate(
    evidence: Evidence, kernels: list[sp.csr_array]
) -> tuple[float, Float[np.ndarray, "m"], float, Float[np.ndarray, "m"]]:
    """The policy's f and g, backward, each with its rounding slack.

    Backward because its sums are short (A K terms per state), so that the slack stays near the precision of the
    numbers; the forward sums run over all predecessors of a state.
    """
    program, mdp, psi = evidence.program, evidence.mdp, evidence.psi
    rows = np.concatenate([program.objective[None], program.rows])
    V, pay = np.zeros((mdp.num_states, len(rows))), np.zeros(0)
    for h in reversed(range(mdp.horizon)):
        if h == mdp.horizon - 1 or psi.signals.shape[0] > 1 or not np.array_equal(rows[:, h], rows[:, h + 1]):
            pay = np.stack([psi.pay(row[h], h) for row in rows], axis=-1)
        Q = (kernels[h % len(kernels)] @ V).reshape(pay.shape) + pay
        V = np.einsum("sa,sai->si", evidence.policy.table[h], Q)
    values = np.array([_expected_start(mdp, V[:, i]) for i in range(len(rows))])
    slack = value_slack(mdp, evidence.psi, np.abs(rows), 1) + 2 * EPS * np.abs(
        np.append(program.offset, program.limits)
    )
    return float(values[0]) + program.offset, values[1:] - program.limits, float(slack[0]), slack[1:]


def _roll_out(
    evidence: Evidence, kernels: list[sp.csr_array]
) -> tuple[Float[np.ndarray, "H S"], Float[np.ndarray, "H d"]]:
    mdp, psi, table = evidence.mdp, evidence.psi, evidence.policy.table
    transposed = [kernel.T for kernel in kernels]
    visits = np.empty((mdp.horizon, mdp.num_states))
    embedding = np.empty((mdp.horizon, psi.dimension))
    mu = mdp.initial
    for h in range(mdp.horizon):
        visits[h] = mu
        occupancy = mu[:, None] * table[h]
        embedding[h] = psi.expect(occupancy, h)
        mu = transposed[h % len(transposed)] @ occupancy.ravel()
    mass = visits.sum(axis=1)
    if not np.abs(mass - 1).max() <= 1e-9:
        h = int(np.argmax(np.abs(mass - 1)))
        raise CertificateError(f"the policy's visits at step {h} sum to {mass[h]:.12g}, not 1")
    return visits, embedding


def _expected_start(mdp: TabularMDP, V: Float[np.ndarray, "S"]) -> float:
    """E V(s_1), with an exactly rounded sum: the start law may have many states."""
    start = np.flatnonzero(mdp.initial)
    return math.fsum(mdp.initial[start] * V[start])


def _check_numbers(evidence: Evidence) -> None:
    program = evidence.program
    parts = (program.objective, program.rows, program.limits, evidence.psi.signals, np.array(program.offset))
    if not all(np.all(np.isfinite(part)) for part in parts):
        raise CertificateError("the problem itself contains NaN or infinity: nothing can be certified")


def _check_policy(evidence: Evidence) -> None:
    mdp, table = evidence.mdp, evidence.policy.table
    if table.shape != (mdp.horizon, mdp.num_states, mdp.num_actions):
        raise CertificateError(f"the policy has shape {table.shape} but the model is {mdp!r}")
    if not np.all(np.isfinite(table)) or table.min() < 0:
        raise CertificateError("the policy has a negative or non-finite probability")
    if not np.abs(table.sum(axis=-1) - 1).max() <= 4 * mdp.num_actions * EPS:
        raise CertificateError("the policy's probabilities do not sum to 1 somewhere")
    if np.any(table[:, ~mdp.actions] > 0):
        raise CertificateError("the policy takes an action that its state does not allow")


def _check_record(evidence: Evidence) -> None:
    gamma, weight = evidence.record.gamma, evidence.record.objective_weight
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(gamma)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    signed = np.where(evidence.program.equality, 0.0, gamma)
    if signed.min(initial=0.0) < 0:
        raise CertificateError(
            f"multiplier {signed.min():g} of inequality row {int(np.argmin(signed))} is negative: it proves nothing"
        )
    total = float(np.abs(gamma) @ evidence.program.units)
    if weight == 0 and abs(total - 1) > 8 * gamma.size * EPS:
        raise CertificateError(f"a ray's multipliers must sum to 1 in units; they sum to {total:g}")


def _check_second_opinion(
    evidence: Evidence,
    embedding: Float[np.ndarray, "H d"],
    value: float,
    g: Float[np.ndarray, "m"],
    value_slack: float,
    g_slack: Float[np.ndarray, "m"],
) -> None:
    f_forward, g_forward = evidence.program.values(embedding)
    # A forward sum has up to S A K terms where a backward one has A K: allow for them.
    widen = 2.0 + evidence.mdp.num_states
    # Written so that a NaN anywhere fails.
    if not (abs(f_forward - value) <= widen * value_slack and np.all(np.abs(g_forward - g) <= widen * g_slack)):
        raise CertificateError(f"two evaluations of the policy disagree: {value!r} backward, {f_forward!r} forward")


def _check_weak_duality(shown: Certificate, record: Record, bound: float) -> None:
    """Lower <= upper + sum_i |gamma_i| violation_i, whatever the policy: anything else is a bug."""
    room = shown.upper + float(np.abs(record.gamma) @ shown.violations_upper)
    if not bound <= room:
        raise CertificateError(f"the lower bound {bound!r} exceeds what the policy proves, {room!r}")
