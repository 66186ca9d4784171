"""The certificate of a convex problem.

* lower: a linear function of the image below the problem (`_cuts`), minimised by a fresh backward induction; or the
  floor, the least that the objective can be over the box of all images, in interval arithmetic;
* upper: the policy's embedding, forward, with the error of its sums, and f and g of it as CVXPY evaluates them;
* the linear cost evaluated backward under the policy, as a second opinion on the embedding.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.errors import CertificateError, ProblemError
from bidual.certificate._cuts import AffineCut, cut_of, read_multipliers
from bidual.certificate._evaluate import (
    bound_forward_error,
    check_policy,
    compute_minimum,
    evaluate_backward,
    list_kernels,
    roll_out,
)
from bidual.certificate._types import Certificate, Evidence, certify_policy, with_record_bound
from bidual.certificate.rounding import EPS, bound_value_slack
from bidual.problem.convex import ConvexProgram
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP

_FLOOR_DIGITS = 64 * EPS  # by which a floor is rounded down: elementary functions are not the same everywhere


def certify_convex(evidence: Evidence, program: ConvexProgram) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    check_cones(evidence, program)
    check_policy(evidence)
    kernels, record = list_kernels(evidence.mdp), evidence.record
    visits, embedding = roll_out(evidence, kernels)
    certificate = _evaluate(evidence, program, kernels, visits, embedding)
    floor = bound_floor(program, evidence.psi, evidence.mdp) if record.objective_weight == 1 else -np.inf
    if not floor <= certificate.upper:
        raise CertificateError(f"the objective is never below {floor!r}, but at most {certificate.upper!r} here")
    if np.isfinite(floor):
        certificate = with_record_bound(certificate, record, floor, _FLOOR_DIGITS * abs(floor))
    cut = cut_of(program, record, bound_image(evidence, program))
    if cut is None:
        return certificate  # and no other bound
    theta = program.image.adjoint(cut.slope)
    _check_second_opinion(evidence, kernels, theta, embedding)
    bound, slack = _bound_dual(evidence, program, cut, kernels, theta)
    if record.objective_weight == 0:
        if not bound <= float(np.max(certificate.violations_upper / program.units, initial=0.0)):
            raise CertificateError(f"every policy should violate a constraint by {bound!r} units; this one does not")
    else:
        check_weak_duality(certificate, read_multipliers(program, record), bound)
    return certificate if floor >= bound else with_record_bound(certificate, record, bound, slack)


def bound_floor(program: ConvexProgram, psi: Psi, mdp: TabularMDP) -> float:
    """Bound the objective over the box of all images from below, whatever the auxiliary variables are."""
    ends = (np.broadcast_to(end, (mdp.horizon, psi.dimension)) for end in psi.ends())
    floor = program.functions.floor(*program.image.box(*ends))
    return floor - _FLOOR_DIGITS * abs(floor) if np.isfinite(floor) else -np.inf


def bound_image(evidence: Evidence, program: ConvexProgram) -> Float[np.ndarray, "n"]:
    """Bound the absolute values of the images of all policies."""
    peaks = np.broadcast_to(evidence.psi.peaks(), (evidence.mdp.horizon, evidence.psi.dimension))
    return np.abs(program.image.offset) + program.image.spread(peaks)


def _evaluate(
    evidence: Evidence,
    program: ConvexProgram,
    kernels: list[sp.csr_array],
    visits: Float[np.ndarray, "H S"],
    embedding: Float[np.ndarray, "H d"],
) -> Certificate:
    """Evaluate objective and constraints at the policy's image, with the rounding errors of both."""
    y = program.image(embedding)
    value, g = program.functions.values(y, evidence.auxiliary)
    if not (np.isfinite(value) and np.all(np.isfinite(g))):
        raise ProblemError(
            "objective or constraints are not defined at any policy that was found (the logarithm of 0, for example): "
            "add a constraint that keeps the policy inside the domain"
        )
    error = _bound_image_error(evidence, program, kernels, embedding)
    # Interval arithmetic over the box of the image: derivatives are 0 or jump where optima like to be.
    low, high = program.functions.enclosures(y, evidence.auxiliary, error)
    values = np.append(value, g)
    slack = np.where(np.append(False, program.equality), np.maximum(high - values, values - low), high - values)
    slack = np.maximum(slack, 0.0) + 4 * EPS * np.abs(values)  # their differences are rounded, and the sum will be
    f_slack, g_slack = float(slack[0]), slack[1:]
    return certify_policy(program, (value, f_slack), (g, g_slack), embedding, visits)


def _bound_image_error(
    evidence: Evidence, program: ConvexProgram, kernels: list[sp.csr_array], embedding: Float[np.ndarray, "H d"]
) -> Float[np.ndarray, "n"]:
    """Bound the rounding error of the image of the policy."""
    relative = bound_forward_error(evidence.mdp, kernels)
    signals, *_ = evidence.psi.sizes
    size = np.abs(embedding)
    # A signal may cancel, so its error is relative to its largest value; a probability's is relative to itself.
    size[:, :signals] = evidence.psi.peaks()[:, :signals]
    terms = np.diff(program.image.matrix.indptr) + 2
    return program.image.spread(relative * size) + terms * EPS * (
        program.image.spread(size) + np.abs(program.image.offset)
    )


def _bound_dual(
    evidence: Evidence,
    program: ConvexProgram,
    cut: AffineCut,
    kernels: list[sp.csr_array],
    theta: Float[np.ndarray, "H d"],
) -> tuple[float, float]:
    """Bound the least value of the problem (or violation) over all policies from below; return the slack as well."""
    image = program.image
    magnitude = abs(image.matrix).T @ cut.magnitude
    magnitude = np.broadcast_to(magnitude, theta.shape) if image.total else magnitude.reshape(theta.shape)
    terms = cut.terms + int(np.diff(image.matrix.tocsc().indptr).max(initial=0))
    slack = cut.slack + float(bound_value_slack(evidence.mdp, evidence.psi, magnitude[None], terms)[0])
    shifts = abs(cut.constant) + float(cut.magnitude @ np.abs(image.offset))
    slack += (cut.slope.size + terms + 8) * EPS * shifts
    return compute_minimum(evidence, kernels, theta) + cut.constant + float(cut.slope @ image.offset) - slack, slack


def check_cones(evidence: Evidence, program: ConvexProgram) -> None:
    """Raise `CertificateError` where a number of the problem is not finite, or the record has other auxiliary ones."""
    parts = (program.image.matrix.data, program.image.offset, program.main.h, evidence.psi.signals, evidence.auxiliary)
    if not all(np.all(np.isfinite(part)) for part in parts):
        raise CertificateError("the problem itself contains NaN or infinity: nothing can be certified")
    if evidence.auxiliary.size != program.num_auxiliary:
        raise CertificateError(
            f"the problem has {program.num_auxiliary} auxiliary numbers, the record {evidence.auxiliary.size}"
        )


def _check_second_opinion(
    evidence: Evidence,
    kernels: list[sp.csr_array],
    theta: Float[np.ndarray, "H d"],
    embedding: Float[np.ndarray, "H d"],
) -> None:
    """Check that theta . Psi of the policy agrees forward and backward."""
    forward, backward = float(np.vdot(theta, embedding)), evaluate_backward(evidence, kernels, theta)
    slack = float(bound_value_slack(evidence.mdp, evidence.psi, np.abs(theta)[None], 1)[0])
    if not abs(forward - backward) <= (2.0 + evidence.mdp.num_states) * slack:
        raise CertificateError(f"two evaluations of the policy disagree: {backward!r} backward, {forward!r} forward")


def check_weak_duality(certificate: Certificate, gamma: Float[np.ndarray, "m"], bound: float) -> None:
    """Check that lower <= upper + sum_i |gamma_i| violation_i, which holds for every policy."""
    room = certificate.upper + float(np.abs(gamma) @ certificate.violations_upper)
    if not bound <= room:
        raise CertificateError(f"the lower bound {bound!r} exceeds what the policy proves, {room!r}")
