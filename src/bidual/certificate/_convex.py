"""The certificate of a convex problem.

* lower: multipliers lam of the cone form, shown to have an exactly dual-feasible vector in a box around them
  (`convex.movement`). Then every feasible point costs at least a constant plus a linear cost of the embedding, and
  that is minimised by a fresh backward induction;
* upper: the policy's embedding, forward, with the error that its sums can have, and f and g of it as CVXPY evaluates
  them;
* the linear cost evaluated backward under the policy, as a second opinion on the embedding.
"""

import math
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._errors import CertificateError
from bidual.certificate._evaluate import backward_value, check_policy, forward_error, kernels_of, minimum, roll_out
from bidual.certificate._types import Certificate, Evidence, Record
from bidual.convex import ConicForm, ConvexProgram, movement
from bidual.rounding import EPS, value_slack


def certify_convex(evidence: Evidence, program: ConvexProgram) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    _check_numbers(evidence, program)
    check_policy(evidence)
    kernels = kernels_of(evidence.mdp)
    visits, embedding = roll_out(evidence, kernels)
    shown = _evaluate(evidence, program, kernels, visits, embedding)
    if evidence.record.gamma.size == 0:
        return shown  # no multipliers, no bound
    form = _form(program, evidence.record)
    theta = program.image.adjoint(form.slope(evidence.record.gamma))
    _check_second_opinion(evidence, program, kernels, theta, embedding)
    bound = _dual_bound(evidence, program, form, kernels, theta)
    if evidence.record.objective_weight == 0:
        return replace(shown, conflict=bound)
    _check_weak_duality(shown, evidence.record, form, bound)
    return replace(shown, lower=bound)


def _form(program: ConvexProgram, record: Record) -> ConicForm:
    weight, lam = record.objective_weight, record.gamma
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(lam)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    form = program.main if weight == 1 else program.violation
    if form is None or lam.shape != form.h.shape:
        raise CertificateError(f"the record has {lam.size} multipliers, which do not fit the problem's cone form")
    lost = form.cones.outside(lam, movement(form, lam))
    if lost:
        raise CertificateError(
            f"the multipliers from row {lost[0]} on are not shown to be in the dual cone: they prove nothing"
        )
    return form


def _evaluate(
    evidence: Evidence,
    program: ConvexProgram,
    kernels: list[sp.csr_array],
    visits: Float[np.ndarray, "H S"],
    embedding: Float[np.ndarray, "H d"],
) -> Certificate:
    y = program.image(embedding)
    value, g = program.functions.values(y, evidence.auxiliary)
    if not (np.isfinite(value) and np.all(np.isfinite(g))):
        raise CertificateError(f"objective or constraints are not finite at the policy: {value!r}, {g!r}")
    error = _image_error(evidence, program, kernels, embedding)
    f_error, g_error = program.functions.errors(y, evidence.auxiliary, error)
    # First-order errors are doubled; evaluating the functions themselves costs some roundings of its own.
    own = 16 * EPS * math.sqrt(y.size)
    f_slack = 2 * f_error + own * max(1.0, abs(value))
    g_slack = 2 * g_error + own * np.maximum(program.units, np.abs(g))
    violations = program.violations(g)
    return Certificate(
        value=value,
        upper=value + f_slack,
        lower=None,
        conflict=None,
        g=g,
        violations=violations,
        violations_upper=np.where(program.equality, violations + g_slack, np.maximum(g + g_slack, 0.0)),
        embedding=embedding,
        visits=visits,
    )


def _image_error(
    evidence: Evidence, program: ConvexProgram, kernels: list[sp.csr_array], embedding: Float[np.ndarray, "H d"]
) -> Float[np.ndarray, "n"]:
    """How far rounding can have moved the image of the policy."""
    relative = forward_error(evidence.mdp, kernels)
    signals, *_ = evidence.psi.sizes
    size = np.abs(embedding)
    # A signal may cancel, so its error is relative to its largest value; a probability's is relative to itself.
    size[:, :signals] = evidence.psi.peaks()[:, :signals]
    terms = np.diff(program.image.matrix.indptr) + 2
    return program.image.spread(relative * size) + terms * EPS * (
        program.image.spread(size) + np.abs(program.image.offset)
    )


def _dual_bound(
    evidence: Evidence,
    program: ConvexProgram,
    form: ConicForm,
    kernels: list[sp.csr_array],
    theta: Float[np.ndarray, "H d"],
) -> float:
    """The least value of the problem (or violation) over all policies, from below."""
    lam, image = evidence.record.gamma, program.image
    room = movement(form, lam)
    peaks = np.broadcast_to(evidence.psi.peaks(), theta.shape)
    reach = np.abs(image.offset) + image.spread(peaks)  # no image is larger than this
    heavy = np.abs(form.c_y) + abs(form.G_y).T @ np.abs(lam)
    magnitude = abs(image.matrix).T @ heavy
    magnitude = np.broadcast_to(magnitude, theta.shape) if image.total else magnitude.reshape(theta.shape)
    terms = int(np.diff(form.G_y.tocsc().indptr).max(initial=0)) + int(
        np.diff(image.matrix.tocsc().indptr).max(initial=0)
    )
    slack = float(value_slack(evidence.mdp, evidence.psi, magnitude[None], terms + 2)[0])
    slack += float(room @ (np.abs(form.h) + abs(form.G_y) @ reach))
    constants = abs(form.offset) + float(np.abs(lam) @ np.abs(form.h)) + float(heavy @ np.abs(image.offset))
    slack += (lam.size + terms + 8) * EPS * constants
    shift = float(form.slope(lam) @ image.offset)
    return minimum(evidence, kernels, theta) + form.constant(lam) + shift - slack


def _check_numbers(evidence: Evidence, program: ConvexProgram) -> None:
    parts = (program.image.matrix.data, program.image.offset, program.main.h, evidence.psi.signals, evidence.auxiliary)
    if not all(np.all(np.isfinite(part)) for part in parts):
        raise CertificateError("the problem itself contains NaN or infinity: nothing can be certified")
    if evidence.auxiliary.size != program.num_auxiliary:
        raise CertificateError(
            f"the problem has {program.num_auxiliary} auxiliary numbers, the record {evidence.auxiliary.size}"
        )


def _check_second_opinion(
    evidence: Evidence,
    program: ConvexProgram,
    kernels: list[sp.csr_array],
    theta: Float[np.ndarray, "H d"],
    embedding: Float[np.ndarray, "H d"],
) -> None:
    """Theta . Psi of the policy, forward and backward."""
    forward, backward = float(np.vdot(theta, embedding)), backward_value(evidence, kernels, theta)
    slack = float(value_slack(evidence.mdp, evidence.psi, np.abs(theta)[None], 1)[0])
    if not abs(forward - backward) <= (2.0 + evidence.mdp.num_states) * slack:
        raise CertificateError(f"two evaluations of the policy disagree: {backward!r} backward, {forward!r} forward")


def _check_weak_duality(shown: Certificate, record: Record, form: ConicForm, bound: float) -> None:
    """Lower <= upper + sum_i |gamma_i| violation_i, whatever the policy: anything else is a bug."""
    gamma = form.gamma(record.gamma, shown.g.size)
    room = shown.upper + float(np.abs(gamma) @ shown.violations_upper)
    if not bound <= room:
        raise CertificateError(f"the lower bound {bound!r} exceeds what the policy proves, {room!r}")
