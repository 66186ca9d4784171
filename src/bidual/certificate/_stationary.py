"""The certificate of a stationary policy over an unbounded time, for linear and convex problems.

* lower: a potential (`_potentials`) for the linear cost that the record's multipliers name, checked row by row; or the
  floor of a convex objective;
* upper: of linear rows the policy's values, from a system whose residual bounds their errors; of convex functions the
  policy's embedding, from its visits, likewise;
* each of the two as a second opinion on the other.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError, ProblemError
from bidual.certificate._affine import check_rows, normalise_record
from bidual.certificate._chains import PolicyChain, count_visits, evaluate, follow
from bidual.certificate._convex import bound_floor, bound_image, check_cones, check_weak_duality
from bidual.certificate._cuts import cut_of, read_multipliers
from bidual.certificate._evaluate import check_policy
from bidual.certificate._potentials import bound_by_potential, find_potential
from bidual.certificate._types import Certificate, Evidence, Record, certify_policy, with_record_bound
from bidual.certificate.rounding import EPS
from bidual.problem.convex import AffineProgram, ConvexProgram

_FLOOR_DIGITS = 64 * EPS  # by which a floor is rounded down: elementary functions are not the same everywhere


class _Cost(NamedTuple):
    """A linear cost that no feasible point undercuts: constant + theta . Psi, up to `slack`."""

    theta: Float[np.ndarray, "1 d"]
    magnitude: Float[np.ndarray, "1 d"]  # sums of the absolute values that theta was summed from
    terms: int  # and their number
    constant: float
    slack: float


class _Followed(NamedTuple):
    """The policy, followed forward: its visits and embedding, and the sum of the errors of its visits."""

    chain: PolicyChain
    visits: Float[np.ndarray, "1 S"]
    embedding: Float[np.ndarray, "1 d"]
    error: float


def certify_stationary(evidence: Evidence) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    _check_numbers(evidence)
    check_policy(evidence)
    followed = _follow(evidence)
    certificate = _evaluate(evidence, followed)
    record = evidence.record
    floor = -np.inf
    if evidence.program.curved is not None and record.objective_weight == 1:
        floor = bound_floor(evidence.program.curved, evidence.psi, evidence.mdp)
    if not floor <= certificate.upper:
        raise CertificateError(f"the objective is never below {floor!r}, but at most {certificate.upper!r} here")
    if np.isfinite(floor):
        certificate = with_record_bound(certificate, record, floor, _FLOOR_DIGITS * abs(floor))
    cost = _find_cost(evidence)
    if cost is None:
        return certificate  # and no other bound
    _check_second_opinion(evidence, followed, cost)
    bound, slack = _bound(evidence, cost)
    if not np.isfinite(bound):
        return certificate
    _check_agreement(evidence, certificate, bound)
    return certificate if floor >= bound else with_record_bound(certificate, record, bound, slack)


def with_potential(evidence: Evidence) -> Evidence:
    """Return the evidence with a potential for its multipliers, where time is unbounded and it has none yet."""
    if evidence.mdp.criterion is None or evidence.record.potential is not None:
        return evidence
    cost = _find_cost(evidence)
    if cost is None:
        return evidence
    return replace(evidence, record=replace(evidence.record, potential=find_potential(evidence, cost.theta)))


def _find_cost(evidence: Evidence) -> _Cost | None:
    """Return the linear cost that the record's multipliers name; None where it has none."""
    return evidence.program.dispatch(
        lambda rows: _sum_rows(normalise_record(evidence.record, rows), rows), lambda cones: _cut_cones(evidence, cones)
    )


def _sum_rows(record: Record, program: AffineProgram) -> _Cost:
    """Return w f + gamma . g."""
    gamma, weight = record.gamma, record.objective_weight
    magnitude = weight * np.abs(program.objective) + np.einsum("i,ihd->hd", np.abs(gamma), np.abs(program.rows))
    constants = abs(weight * program.offset) + (gamma.size + 1) * float(np.abs(gamma) @ np.abs(program.limits))
    constant = weight * program.offset - float(gamma @ program.limits)
    return _Cost(program.theta(gamma, weight), magnitude, gamma.size + 1, constant, 4 * EPS * constants)


def _cut_cones(evidence: Evidence, program: ConvexProgram) -> _Cost | None:
    """Return a linear function below the problem, from multipliers of its cone form."""
    cut, image = cut_of(program, evidence.record, bound_image(evidence, program)), program.image
    if cut is None:
        return None
    theta = image.adjoint(cut.slope)
    magnitude = (abs(image.matrix).T @ cut.magnitude).reshape(theta.shape)
    terms = cut.terms + int(np.diff(image.matrix.tocsc().indptr).max(initial=0))
    shifts = abs(cut.constant) + float(cut.magnitude @ np.abs(image.offset))
    slack = cut.slack + (cut.slope.size + terms + 8) * EPS * shifts
    return _Cost(theta, magnitude, terms, cut.constant + float(cut.slope @ image.offset), slack)


def _bound(evidence: Evidence, cost: _Cost) -> tuple[float, float]:
    """Bound the cost of every policy from below, by the record's potential or by one that is found here."""
    potential = evidence.record.potential
    V = find_potential(evidence, cost.theta) if potential is None else potential
    if V.shape != evidence.mdp.initial.shape or not np.all(np.isfinite(V)):
        raise CertificateError(f"the potential has shape {V.shape}, or a number that is not finite: it proves nothing")
    least, slack = bound_by_potential(evidence, V, cost.theta, cost.magnitude, cost.terms)
    return least + cost.constant - cost.slack, slack + cost.slack


def _follow(evidence: Evidence) -> _Followed:
    chain = follow(evidence)
    visits, error = count_visits(chain)
    embedding = evidence.psi.expect(visits[:, None] * chain.law, 0)
    return _Followed(chain, visits[None], embedding[None], error)


def _evaluate(evidence: Evidence, followed: _Followed) -> Certificate:
    f, g = evidence.program.dispatch(
        lambda rows: _evaluate_rows(evidence, rows, followed), lambda cones: _evaluate_cones(evidence, cones, followed)
    )
    return certify_policy(evidence.program, f, g, followed.embedding, followed.visits)


_Values = tuple[tuple[float, float], tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]]


def _evaluate_rows(evidence: Evidence, program: AffineProgram, followed: _Followed) -> _Values:
    """Compute f and g from the policy's values, each with its error; check them against its embedding."""
    constants = np.append(program.offset, -program.limits)
    values, errors = np.zeros(constants.size), np.zeros(constants.size)
    for i, row in enumerate((program.objective, *program.rows)):
        values[i], errors[i] = _evaluate_row(evidence, row, followed)
    errors += 2 * EPS * np.abs(constants)
    values += constants
    f_forward, g_forward = program.values(followed.embedding)
    forward = np.append(f_forward, g_forward)
    rows = np.concatenate([program.objective[None], program.rows])
    room = np.abs(rows[:, 0]) @ _bound_embedding_error(evidence, followed)[0] + 8 * EPS * np.abs(constants)
    if not np.all(np.abs(values - forward) <= errors + room):
        raise CertificateError(f"two evaluations of the policy disagree: {values[0]!r} backward, {f_forward!r} forward")
    return (float(values[0]), float(errors[0])), (values[1:], errors[1:])


def _evaluate_row(evidence: Evidence, row: Float[np.ndarray, "1 d"], followed: _Followed) -> tuple[float, float]:
    """Compute what the policy pays of a linear cost, and bound the error."""
    # A pair's cost is a sum of d products.
    largest = (1 + evidence.psi.dimension) * float(np.abs(row[0]) @ evidence.psi.peaks(1.0)[0])
    return evaluate(followed.chain, evidence.psi.pay(row[0], 0), largest)


def _evaluate_cones(evidence: Evidence, program: ConvexProgram, followed: _Followed) -> _Values:
    """Evaluate objective and constraints at the policy's image, in interval arithmetic around it."""
    y = program.image(followed.embedding)
    value, g = program.functions.values(y, evidence.auxiliary)
    if not (np.isfinite(value) and np.all(np.isfinite(g))):
        raise ProblemError(
            "objective or constraints are not defined at any policy that was found (the logarithm of 0, for example): "
            "add a constraint that keeps the policy inside the domain"
        )
    terms = np.diff(program.image.matrix.indptr) + 2
    error = program.image.spread(_bound_embedding_error(evidence, followed))
    error += terms * EPS * (program.image.spread(np.abs(followed.embedding)) + np.abs(program.image.offset))
    low, high = program.functions.enclosures(y, evidence.auxiliary, error)
    values = np.append(value, g)
    slack = np.where(np.append(False, program.equality), np.maximum(high - values, values - low), high - values)
    slack = np.maximum(slack, 0.0) + 4 * EPS * np.abs(values)  # their differences are rounded, and the sum will be
    return (value, float(slack[0])), (g, slack[1:])


def _bound_embedding_error(evidence: Evidence, followed: _Followed) -> Float[np.ndarray, "1 d"]:
    """Bound the error of every entry of the embedding: that of the visits, and that of the sums over them."""
    psi, table = evidence.psi, evidence.policy.table[0]
    peaks = psi.peaks(1.0)[:1]
    pairs = (4 * table.size + 8) * EPS * float(followed.visits.sum())
    return peaks * (followed.error + pairs)


def _check_numbers(evidence: Evidence) -> None:
    evidence.program.dispatch(lambda rows: check_rows(evidence, rows), lambda cones: check_cones(evidence, cones))


def _check_second_opinion(evidence: Evidence, followed: _Followed, cost: _Cost) -> None:
    """Check that theta . Psi of the policy is the same from its values and from its visits."""
    backward, error = _evaluate_row(evidence, cost.theta, followed)
    forward = float(np.vdot(cost.theta, followed.embedding))
    room = error + float(np.vdot(np.abs(cost.theta), _bound_embedding_error(evidence, followed)))
    room += (cost.theta.size + 4) * EPS * float(np.vdot(np.abs(cost.theta), np.abs(followed.embedding)))
    if not abs(forward - backward) <= room:
        raise CertificateError(f"two evaluations of the policy disagree: {backward!r} backward, {forward!r} forward")


def _check_agreement(evidence: Evidence, certificate: Certificate, bound: float) -> None:
    """Check that no bound exceeds what the policy itself proves."""
    program, record = evidence.program, evidence.record
    if record.objective_weight == 0:
        if not bound <= float(np.max(certificate.violations_upper / program.units, initial=0.0)):
            raise CertificateError(f"every policy should violate a constraint by {bound!r} units; this one does not")
        return
    check_weak_duality(certificate, read_multipliers(program, record), bound)
