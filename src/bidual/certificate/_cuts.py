"""Linear functions below a convex problem, from multipliers or subgradients, with their rounding errors.

They come from multipliers of the cone form with a proof that a box around them contains an exactly dual-feasible vector
(`convex.movement`), or from subgradients of f and g at a point, as CVXPY evaluates them.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual.certificate._types import Record
from bidual.certificate.rounding import EPS
from bidual.problem.convex import AbstractProgram, ConvexProgram, movement


class AffineCut(NamedTuple):
    """A linear function below the problem: no feasible point costs less than constant + slope . y, up to `slack`."""

    constant: float
    slope: Float[np.ndarray, "n"]
    magnitude: Float[np.ndarray, "n"]  # sums of the absolute values that the slope was summed from
    terms: int  # and their number
    slack: float


def cut_of(program: ConvexProgram, record: Record, reach: Float[np.ndarray, "n"]) -> AffineCut | None:
    """Return the cut of a record, None where it has no multipliers; no image of a policy is above `reach`."""
    if record.point is not None:
        return _from_gradients(program, record, record.point, reach)
    return _from_multipliers(program, record, reach) if _has_multipliers(program, record) else None


def multipliers(program: AbstractProgram, record: Record) -> Float[np.ndarray, "m"]:
    """Return the multipliers of the scalar constraints, for every kind of record."""
    return program.multipliers(record.gamma, record.objective_weight, of_rows=record.point is not None)


def _has_multipliers(program: ConvexProgram, record: Record) -> bool:
    """Return whether there are multipliers; a form without rows and without other costs needs none."""
    form = program.form(record.objective_weight)
    return record.gamma.size > 0 or (form is not None and form.h.size == 0 and not np.any(form.c_u))


def _from_multipliers(program: ConvexProgram, record: Record, reach: Float[np.ndarray, "n"]) -> AffineCut:
    """Return the cut of multipliers of the cone form, which must have an exactly feasible vector nearby."""
    weight, lam = record.objective_weight, record.gamma
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(lam)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    form = program.form(weight)
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
    moved = float(room @ (np.abs(form.h) + abs(form.G_y) @ reach))
    magnitude = np.abs(form.c_y) + abs(form.G_y).T @ np.abs(lam)
    return AffineCut(form.constant(lam), form.slope(lam), magnitude, terms, rounding + moved)


def _from_gradients(
    program: ConvexProgram, record: Record, q: Float[np.ndarray, "n"], reach: Float[np.ndarray, "n"]
) -> AffineCut:
    """Return the cut of subgradients at a point: w f(q) + gamma . g(q) + slope . (y - q)."""
    weight, gamma = record.objective_weight, record.gamma
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
    rounding = 64 * EPS * float(np.abs(slope) @ (reach + np.abs(q)))
    evaluated = weight * max(1.0, f_largest) + float(np.abs(gamma) @ np.maximum(1.0, g_largest))
    rounding += 16 * EPS * math.sqrt(q.size) * evaluated
    return AffineCut(level - float(slope @ q), slope, np.abs(slope), 2, rounding)
