"""Rounding errors of the value of a linear cost: derived, not guessed."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.convex import TOLERANCE, AbstractProgram, AffineProgram
from bidual.problem.features import Pieces, Psi
from bidual.world.mdp import TabularMDP

EPS = float(np.finfo(np.float64).eps)
_PRECISION = 1e-12  # of the optimistic planner's rows


def value_slack(mdp: TabularMDP, psi: Psi, magnitude: Float[np.ndarray, "n H d"], terms: int) -> Float[np.ndarray, "n"]:
    """Bound the rounding error of a backward pass, for n costs with coefficients of at most `magnitude`.

    The coefficients are themselves sums of `terms` products. A step then forms theta . psi (d terms), an
    expectation over K successors and at most one over A actions: each costs at most one unit of eps per term,
    relative to the sum of absolute values, and that is at most the largest |pay| summed over the steps. eps is
    twice the unit roundoff, which covers higher orders.
    """
    A, K = mdp.num_actions, mdp.successors.states.shape[3]
    with np.errstate(over="ignore"):
        total = np.sum(magnitude * psi.peaks(), axis=(1, 2))
    return (mdp.horizon * (A + K + 4) + psi.dimension + terms + 4) * EPS * total


def with_resolution(program: AffineProgram, resolution: Float[np.ndarray, "m"]) -> AffineProgram:
    """Set the resolution of the rows, and the units in which violations are measured."""
    units = np.maximum(np.maximum(1.0, np.abs(program.limits)), 4 * resolution / TOLERANCE)
    return replace(program, units=units, resolution=resolution)


def with_planner_resolution(program: AbstractProgram, pieces: Pieces) -> AbstractProgram:
    """Set the resolution of the optimistic planner: rows are exact to 1e-12 of their largest value."""

    def resolved(rows: AffineProgram) -> AffineProgram:
        largest = np.sum(np.abs(rows.rows) * pieces.peaks(), axis=(1, 2))
        return with_resolution(rows, _PRECISION * np.maximum(largest, np.abs(rows.limits)))

    return program.with_rows(resolved)


def with_rounding(program: AbstractProgram, psi: Psi, mdp: TabularMDP) -> AbstractProgram:
    """The program with the units and the resolution that its rows have over this model, where it is linear."""
    return program.with_rows(lambda rows: rows_with_rounding(rows, psi, mdp))


def rows_with_rounding(program: AffineProgram, psi: Psi, mdp: TabularMDP) -> AffineProgram:
    """The program with the units and the resolution of its rows over this model.

    A violation is measured in units of the limit (at least 1), or of what arithmetic on such large signals can
    resolve, if that is more; 1e-9 units still count as holding.
    """
    resolution = value_slack(mdp, psi, np.abs(program.rows), 1) + 4 * EPS * np.abs(program.limits)
    measured = with_resolution(program, resolution)
    scale = value_slack(mdp, psi, np.abs(program.objective)[None], 1)
    if not (np.all(np.isfinite(measured.units)) and np.all(np.isfinite(scale))):
        raise ProblemError(
            "signals times coefficients overflow double precision: rescale the signals to moderate numbers"
        )
    return measured


def with_sampled_resolution(program: AbstractProgram) -> AbstractProgram:
    """Set the resolution where embeddings are averages over sampled paths: to nine digits of units and limits."""
    return program.with_rows(lambda rows: replace(rows, resolution=1e-9 * np.maximum(rows.units, np.abs(rows.limits))))
