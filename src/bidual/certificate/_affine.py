"""The certificate of a linear problem.

* lower: the record's theta, minimised by a fresh backward induction. For any gamma >= 0 (free in sign for
  equalities) this is at most the optimum: weak duality needs nothing else;
* upper: the policy's own value, and every constraint's, by evaluating the policy backward;
* the policy's visits, forward, as a second opinion on those values, and their mass.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual.certificate._evaluate import average_starts, check_policy, compute_minimum, list_kernels, roll_out
from bidual.certificate._reachable import restrict_evidence, spread_visits
from bidual.certificate._types import Certificate, Evidence, Record, certify_policy, with_record_bound
from bidual.certificate.rounding import EPS, bound_value_slack
from bidual.problem.convex import AffineProgram


def certify_affine(evidence: Evidence, program: AffineProgram) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    check_rows(evidence, program)
    check_policy(evidence)
    record = normalise_record(evidence.record, program)
    num_states = evidence.mdp.num_states
    evidence, kept = restrict_evidence(replace(evidence, record=record))
    kernels = list_kernels(evidence.mdp)
    value, g, value_slack, g_slack = _evaluate(evidence, program, kernels)
    visits, embedding = roll_out(evidence, kernels)
    _check_second_opinion(evidence, program, embedding, value, g, value_slack, g_slack)
    if kept is not None:
        visits = spread_visits(visits, kept, num_states)
    certificate = certify_policy(program, (value, value_slack), (g, g_slack), embedding, visits)
    bound, slack = _bound_dual(evidence, program, kernels)
    if record.objective_weight != 0:
        _check_weak_duality(certificate, record, bound)
    return with_record_bound(certificate, record, bound, slack)


def _bound_dual(evidence: Evidence, program: AffineProgram, kernels: list[sp.csr_array]) -> tuple[float, float]:
    """Bound the least  w f(Psi) + gamma . g(Psi)  over all policies from below; return the slack in it as well.

    With w = 1 no feasible policy has a smaller f. With w = 0 and sum_i |gamma_i| units_i = 1 every policy
    violates some row by at least this many of its units.
    """
    mdp = evidence.mdp
    gamma, weight = evidence.record.gamma, evidence.record.objective_weight
    least = compute_minimum(evidence, kernels, program.theta(gamma, weight))
    magnitude = weight * np.abs(program.objective) + np.einsum("i,ihd->hd", np.abs(gamma), np.abs(program.rows))
    constants = abs(weight * program.offset) + (gamma.size + 1) * float(np.abs(gamma) @ np.abs(program.limits))
    slack = float(bound_value_slack(mdp, evidence.psi, magnitude[None], gamma.size + 1)[0]) + 4 * EPS * constants
    return least + weight * program.offset - float(gamma @ program.limits) - slack, slack


def _evaluate(
    evidence: Evidence, program: AffineProgram, kernels: list[sp.csr_array]
) -> tuple[float, Float[np.ndarray, "m"], float, Float[np.ndarray, "m"]]:
    """Compute the policy's f and g, backward, each with its rounding slack.

    Backward because its sums are short (A K terms per state), so that the slack stays near the precision of the
    numbers; the forward sums run over all predecessors of a state.
    """
    mdp, psi = evidence.mdp, evidence.psi
    rows = np.concatenate([program.objective[None], program.rows])
    V, pay = np.zeros((len(rows), mdp.num_states)), np.zeros(0)
    for h in reversed(range(mdp.horizon)):
        if h == mdp.horizon - 1 or psi.signals.shape[0] > 1 or not np.array_equal(rows[:, h], rows[:, h + 1]):
            pay = np.stack([psi.pay(row[h], h) for row in rows])
        for i in range(len(rows)):  # one product each: SciPy is faster with a vector than with several columns
            Q = (kernels[h % len(kernels)] @ V[i]).reshape(pay.shape[1:])
            Q += pay[i]
            V[i] = evidence.policy.expect(h, Q)
    values = average_starts(mdp, V)
    slack = bound_value_slack(mdp, evidence.psi, np.abs(rows), 1) + 2 * EPS * np.abs(
        np.append(program.offset, program.limits)
    )
    return float(values[0]) + program.offset, values[1:] - program.limits, float(slack[0]), slack[1:]


def check_rows(evidence: Evidence, program: AffineProgram) -> None:
    """Raise `CertificateError` where a number of the problem is not finite."""
    parts = (program.objective, program.rows, program.limits, evidence.psi.signals, np.array(program.offset))
    if not all(np.all(np.isfinite(part)) for part in parts):
        raise CertificateError("the problem itself contains NaN or infinity: nothing can be certified")


def normalise_record(record: Record, program: AffineProgram) -> Record:
    """Check a record, and scale a ray so that its multipliers sum to 1 in units: a positive multiple proves as much."""
    gamma, weight = record.gamma, record.objective_weight
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(gamma)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    signed = np.where(program.equality, 0.0, gamma)
    if signed.min(initial=0.0) < 0:
        raise CertificateError(
            f"multiplier {signed.min():g} of inequality row {int(np.argmin(signed))} is negative: it proves nothing"
        )
    if weight == 1:
        return record
    total = float(np.abs(gamma) @ program.units)
    if not (np.isfinite(total) and total > 0):
        raise CertificateError(f"a ray's multipliers must have a positive sum in units; they sum to {total:g}")
    # Rounded so that they sum to at most 1: the bound may be a rounding too low, never too high.
    return replace(record, gamma=gamma / (total * (1 + (gamma.size + 4) * EPS)))


def _check_second_opinion(
    evidence: Evidence,
    program: AffineProgram,
    embedding: Float[np.ndarray, "H d"],
    value: float,
    g: Float[np.ndarray, "m"],
    value_slack: float,
    g_slack: Float[np.ndarray, "m"],
) -> None:
    """Raise `CertificateError` where the sums over visits do not confirm the backward evaluation."""
    f_forward, g_forward = program.values(embedding)
    # A forward sum has up to S A K terms where a backward one has A K: allow for them.
    widen = 2.0 + evidence.mdp.num_states
    # Written so that a NaN anywhere fails.
    if not (abs(f_forward - value) <= widen * value_slack and np.all(np.abs(g_forward - g) <= widen * g_slack)):
        raise CertificateError(f"two evaluations of the policy disagree: {value!r} backward, {f_forward!r} forward")


def _check_weak_duality(certificate: Certificate, record: Record, bound: float) -> None:
    """Check that lower <= upper + sum_i |gamma_i| violation_i, which holds for every policy."""
    room = certificate.upper + float(np.abs(record.gamma) @ certificate.violations_upper)
    if not bound <= room:
        raise CertificateError(f"the lower bound {bound!r} exceeds what the policy proves, {room!r}")
