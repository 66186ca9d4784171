"""The lower bound of a learned model: the least value of a record's linear cost over all laws that may be true."""

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual.certificate._ball import Least
from bidual.certificate._class import bound_least_over_class
from bidual.certificate._cuts import cut_of
from bidual.certificate._optimistic import bound_least_over_set
from bidual.certificate._quadratic import bound_least_over_laws
from bidual.certificate._types import Record
from bidual.certificate.rounding import EPS
from bidual.models import LinearLaws, Plausible, Rectangular
from bidual.problem.convex import AbstractProgram, AffineProgram, ConvexProgram
from bidual.problem.features import Pieces


def lower_bound(
    program: AbstractProgram, record: Record, model: Rectangular | Plausible | LinearLaws, pieces: Pieces
) -> float | None:
    """Return the bound of a record over all laws of a model: on the optimum, or with weight 0 on the violation.

    None where the record has no multipliers. It holds if the true law is among those of the model.
    """
    return program.dispatch(
        lambda rows: _bound_affine(rows, record, model, pieces),
        lambda cones: _bound_convex(cones, record, model, pieces),
    )


def _bound_convex(
    program: ConvexProgram, record: Record, model: Rectangular | Plausible | LinearLaws, pieces: Pieces
) -> float | None:
    """Bound a convex problem by the linear function that the multipliers prove; None where they prove none."""
    peaks = np.broadcast_to(pieces.peaks(), (program.horizon, pieces.psi.dimension))
    image = program.image
    cut = cut_of(program, record, np.abs(image.offset) + image.spread(peaks))
    if cut is None:
        return None
    theta = image.adjoint(cut.slope)
    magnitude = abs(image.matrix).T @ cut.magnitude
    magnitude = np.broadcast_to(magnitude, theta.shape) if image.total else magnitude.reshape(theta.shape)
    terms = cut.terms + int(np.diff(image.matrix.tocsc().indptr).max(initial=0))
    shifts = abs(cut.constant) + float(cut.magnitude @ np.abs(image.offset))
    least = _bound_least(model, pieces, theta, magnitude, terms)
    slack = cut.slack + least.error + (cut.slope.size + terms + 8) * EPS * shifts
    return least.value + cut.constant + float(cut.slope @ image.offset) - slack


def _bound_affine(
    program: AffineProgram, record: Record, model: Rectangular | Plausible | LinearLaws, pieces: Pieces
) -> float:
    """Bound a linear problem by its Lagrangian, whose cost is minimised over all laws."""
    gamma, weight = record.gamma, record.objective_weight
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(gamma)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    if np.where(program.equality, 0.0, gamma).min(initial=0.0) < 0:
        raise CertificateError("a multiplier of an inequality is negative: it proves nothing")
    if weight == 0 and abs(float(np.abs(gamma) @ program.units) - 1) > 8 * max(1, gamma.size) * EPS:
        raise CertificateError("the multipliers of a clash must sum to 1 in units")
    magnitude = weight * np.abs(program.objective) + np.einsum("i,ihd->hd", np.abs(gamma), np.abs(program.rows))
    constants = abs(weight * program.offset) + (gamma.size + 1) * float(np.abs(gamma) @ np.abs(program.limits))
    least = _bound_least(model, pieces, program.theta(gamma, weight), magnitude, gamma.size + 1)
    return least.value + weight * program.offset - float(gamma @ program.limits) - least.error - 4 * EPS * constants


def _bound_least(
    model: Rectangular | Plausible | LinearLaws,
    pieces: Pieces,
    theta: Float[np.ndarray, "H d"],
    magnitude: Float[np.ndarray, "H d"],
    terms: int,
) -> Least:
    """Bound the least theta . Psi over policies and laws."""
    if isinstance(model, LinearLaws):
        return bound_least_over_laws(model, theta, magnitude, terms)
    if isinstance(model, Plausible):
        return bound_least_over_class(model, pieces, theta, magnitude, terms)
    return bound_least_over_set(model, pieces, theta, magnitude, terms)
