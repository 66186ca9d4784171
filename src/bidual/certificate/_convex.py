"""The certificate of a convex problem.

* lower: a linear function of the image below the problem (a cut), minimised by a fresh backward induction. It comes
  from multipliers of the cone form, shown to have an exactly dual-feasible vector in a box around them
  (`convex.movement`), or from subgradients of f and g at a point, as CVXPY evaluates them;
* upper: the policy's embedding, forward, with the error that its sums can have, and f and g of it as CVXPY evaluates
  them;
* the linear cost evaluated backward under the policy, as a second opinion on the embedding.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._errors import CertificateError, ProblemError
from bidual.certificate._evaluate import backward_value, check_policy, forward_error, kernels_of, minimum, roll_out
from bidual.certificate._types import Certificate, Evidence, Record, of_policy
from bidual.convex import ConvexProgram, movement
from bidual.rounding import EPS, value_slack


class Cut(NamedTuple):
    """A linear function below the problem: no feasible point costs less than constant + slope . y, up to `slack`."""

    constant: float
    slope: Float[np.ndarray, "n"]
    magnitude: Float[np.ndarray, "n"]  # sums of the absolute values that the slope was summed from
    terms: int  # and their number
    slack: float


def certify_convex(evidence: Evidence, program: ConvexProgram) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    _check_numbers(evidence, program)
    check_policy(evidence)
    kernels, record = kernels_of(evidence.mdp), evidence.record
    visits, embedding = roll_out(evidence, kernels)
    shown = _evaluate(evidence, program, kernels, visits, embedding)
    if record.point is None and not _has_multipliers(program, record):
        return shown  # and no bound
    cut = _from_multipliers(evidence, program) if record.point is None else _from_gradients(evidence, program)
    theta = program.image.adjoint(cut.slope)
    _check_second_opinion(evidence, kernels, theta, embedding)
    bound = _dual_bound(evidence, program, cut, kernels, theta)
    if record.objective_weight == 0:
        if not bound <= float(np.max(shown.violations_upper / program.units, initial=0.0)):
            raise CertificateError(f"every policy should violate a constraint by {bound!r} units; this one does not")
        return replace(shown, conflict=bound)
    _check_weak_duality(shown, multipliers(program, record), bound)
    return replace(shown, lower=bound)


def multipliers(program: ConvexProgram, record: Record) -> Float[np.ndarray, "m"]:
    """The multipliers of the scalar constraints."""
    if record.point is not None:
        return record.gamma
    form = program.main if record.objective_weight == 1 else program.violation
    return np.zeros(program.units.size) if form is None else form.gamma(record.gamma, program.units.size)


def _has_multipliers(program: ConvexProgram, record: Record) -> bool:
    """Whether there are any; a form without rows and without other costs has none and needs none."""
    form = program.main if record.objective_weight == 1 else program.violation
    return record.gamma.size > 0 or (form is not None and form.h.size == 0 and not np.any(form.c_u))


def _from_multipliers(evidence: Evidence, program: ConvexProgram) -> Cut:
    """The cut of multipliers of the cone form, which must have an exactly feasible vector close by."""
    weight, lam = evidence.record.objective_weight, evidence.record.gamma
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(lam)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    form = program.main if weight == 1 else program.violation
    if form is None or lam.shape != form.h.shape:
        raise CertificateError(f"the record has {lam.size} multipliers, which do not fit the problem's cone form")
    room = movement(form, lam)
    lost = form.cones.outside(lam, room)
    if lost:
        raise CertificateError(
            f"the multipliers from row {lost[0]} on are not shown to be in the dual cone: they prove nothing"
        )
    terms = int(np.diff(form.G_y.tocsc().indptr).max(initial=0)) + 2
    rounding = (lam.size + 4) * EPS * (abs(form.offset) + float(np.abs(lam) @ np.abs(form.h)))
    moved = float(room @ (np.abs(form.h) + abs(form.G_y) @ _reach(evidence, program)))
    magnitude = np.abs(form.c_y) + abs(form.G_y).T @ np.abs(lam)
    return Cut(form.constant(lam), form.slope(lam), magnitude, terms, rounding + moved)


def _from_gradients(evidence: Evidence, program: ConvexProgram) -> Cut:
    """The cut of subgradients at a point: w f(q) + gamma . g(q) + slope . (y - q)."""
    weight, gamma, q = evidence.record.objective_weight, evidence.record.gamma, evidence.record.point
    assert q is not None  # the caller has looked
    finite = np.all(np.isfinite(gamma)) and np.all(np.isfinite(q))
    if weight not in (0.0, 1.0) or not finite or q.shape != program.image.offset.shape or program.num_auxiliary:
        raise CertificateError(f"a record needs a finite point, finite multipliers and weight 0 or 1; got {weight}")
    if gamma.shape != program.units.shape or np.any(np.where(program.equality, 0.0, gamma) < 0):
        raise CertificateError("a multiplier of an inequality is negative or missing: it proves nothing")
    if weight == 0 and abs(float(np.abs(gamma) @ program.units) - 1) > 16 * max(1, gamma.size) * EPS:
        raise CertificateError("the multipliers of a clash must sum to 1 in units")
    f, g = program.functions.values(q, np.zeros(0))
    slope = program.functions.slope(q, gamma, weight)
    if slope is None or not (np.all(np.isfinite(slope)) and np.isfinite(f) and np.all(np.isfinite(g))):
        raise CertificateError("objective or constraints have no derivative at the record's point: it proves nothing")
    level = weight * f + float(gamma @ g)
    # The derivatives of the functions are good to some roundings; y is at most `reach`.
    f_largest, g_largest = program.functions.magnitudes(q, np.zeros(0))
    rounding = 64 * EPS * float(np.abs(slope) @ (_reach(evidence, program) + np.abs(q)))
    evaluated = weight * max(1.0, f_largest) + float(np.abs(gamma) @ np.maximum(1.0, g_largest))
    rounding += 16 * EPS * math.sqrt(q.size) * evaluated
    return Cut(level - float(slope @ q), slope, np.abs(slope), 2, rounding)


def _reach(evidence: Evidence, program: ConvexProgram) -> Float[np.ndarray, "n"]:
    """No image of a policy is larger than this."""
    peaks = np.broadcast_to(evidence.psi.peaks(), (evidence.mdp.horizon, evidence.psi.dimension))
    return np.abs(program.image.offset) + program.image.spread(peaks)


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
        raise ProblemError(
            "objective or constraints are not defined at any policy that was found (the logarithm of 0, for example): "
            "add a constraint that keeps the policy inside the domain"
        )
    error = _image_error(evidence, program, kernels, embedding)
    f_error, g_error = program.functions.errors(y, evidence.auxiliary, error)
    # First-order errors are doubled; evaluating the functions themselves costs some roundings of its own.
    own = 16 * EPS * math.sqrt(y.size)
    f_largest, g_largest = program.functions.magnitudes(y, evidence.auxiliary)
    f_slack = 2 * f_error + own * max(1.0, f_largest)
    g_slack = 2 * g_error + own * np.maximum(1.0, g_largest)
    return of_policy(program, (value, f_slack), (g, g_slack), embedding, visits)


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
    evidence: Evidence, program: ConvexProgram, cut: Cut, kernels: list[sp.csr_array], theta: Float[np.ndarray, "H d"]
) -> float:
    """The least value of the problem (or violation) over all policies, from below."""
    image = program.image
    magnitude = abs(image.matrix).T @ cut.magnitude
    magnitude = np.broadcast_to(magnitude, theta.shape) if image.total else magnitude.reshape(theta.shape)
    terms = cut.terms + int(np.diff(image.matrix.tocsc().indptr).max(initial=0))
    slack = cut.slack + float(value_slack(evidence.mdp, evidence.psi, magnitude[None], terms)[0])
    shifts = abs(cut.constant) + float(cut.magnitude @ np.abs(image.offset))
    slack += (cut.slope.size + terms + 8) * EPS * shifts
    return minimum(evidence, kernels, theta) + cut.constant + float(cut.slope @ image.offset) - slack


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
    kernels: list[sp.csr_array],
    theta: Float[np.ndarray, "H d"],
    embedding: Float[np.ndarray, "H d"],
) -> None:
    """Theta . Psi of the policy, forward and backward."""
    forward, backward = float(np.vdot(theta, embedding)), backward_value(evidence, kernels, theta)
    slack = float(value_slack(evidence.mdp, evidence.psi, np.abs(theta)[None], 1)[0])
    if not abs(forward - backward) <= (2.0 + evidence.mdp.num_states) * slack:
        raise CertificateError(f"two evaluations of the policy disagree: {backward!r} backward, {forward!r} forward")


def _check_weak_duality(shown: Certificate, gamma: Float[np.ndarray, "m"], bound: float) -> None:
    """Lower <= upper + sum_i |gamma_i| violation_i, whatever the policy: anything else is a bug."""
    room = shown.upper + float(np.abs(gamma) @ shown.violations_upper)
    if not bound <= room:
        raise CertificateError(f"the lower bound {bound!r} exceeds what the policy proves, {room!r}")
