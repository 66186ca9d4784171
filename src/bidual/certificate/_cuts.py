"""Linear functions below a convex problem, from multipliers of its cone form, with their rounding errors.

There is one kind of proof: multipliers lam with a box around them that contains an exactly dual-feasible vector
(`convex.bound_movement`). Weak duality proves f(y) >= constant + slope . y of it for every y, whatever the functions
are. Derivatives at a point are none: a library may return one that is no subgradient, as CVXPY does for `sum_largest`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError
from bidual.certificate._types import Record
from bidual.certificate.rounding import EPS
from bidual.problem.convex import AbstractProgram, ConicForm, ConvexProgram, bound_movement


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
        raise CertificateError(
            "the bound rests on derivatives at a point, which prove nothing where they are no subgradients (earlier "
            "versions wrote such files for functions of many numbers): solve again, and save that"
        )
    return _cut_from_multipliers(program, record, reach) if _has_multipliers(program, record) else None


def read_multipliers(program: AbstractProgram, record: Record) -> Float[np.ndarray, "m"]:
    """Return the multipliers of the scalar constraints, for every kind of record."""
    return program.multipliers(record.gamma, record.objective_weight, of_rows=record.point is not None)


def _has_multipliers(program: ConvexProgram, record: Record) -> bool:
    """Return whether there are multipliers; a form without rows and without other costs needs none."""
    form = program.form(record.objective_weight)
    return record.gamma.size > 0 or (form is not None and form.h.size == 0 and not np.any(form.c_u))


def _cut_from_multipliers(program: ConvexProgram, record: Record, reach: Float[np.ndarray, "n"]) -> AffineCut:
    """Return the cut of multipliers of the cone form, which must have an exactly feasible vector nearby."""
    weight, lam = record.objective_weight, record.gamma
    if weight not in (0.0, 1.0) or not np.all(np.isfinite(lam)):
        raise CertificateError(f"a record needs finite multipliers and weight 0 or 1; got weight {weight}")
    form = program.form(weight)
    if form is None or lam.shape != form.h.shape:
        raise CertificateError(f"the record has {lam.size} multipliers, which do not fit the problem's cone form")
    if weight == 0:
        lam = _scale_to_units(form, lam)
    room = bound_movement(form, lam)
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


def _scale_to_units(form: ConicForm, lam: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
    """Scale multipliers of a least violation to this form's units: files may hold those of other units.

    The violation is the one variable with a cost, and every other equation is homogeneous.
    """
    t = int(np.argmax(np.abs(form.c_u)))
    total = -float((form.G_u.T @ lam)[t]) / float(form.c_u[t])
    return lam / total if total > 0 and abs(total - 1) > 1e-6 else lam
