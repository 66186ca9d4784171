"""How far floating-point arithmetic can move the value of a linear cost: derived, not guessed."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual.convex import TOLERANCE, AffineProgram, ConvexProgram
from bidual.features import Pieces, Psi
from bidual.mdp import TabularMDP

EPS = float(np.finfo(np.float64).eps)
_PRECISION = 1e-12  # of the optimistic planner's rows


def value_slack(mdp: TabularMDP, psi: Psi, magnitude: Float[np.ndarray, "n H d"], terms: int) -> Float[np.ndarray, "n"]:
    """Bounds on the rounding error of a backward pass, for n costs with coefficients of at most `magnitude`.

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
    """The program with this resolution of its rows, and units in which violations are measured."""
    units = np.maximum(np.maximum(1.0, np.abs(program.limits)), 4 * resolution / TOLERANCE)
    return replace(program, units=units, resolution=resolution)


def with_planner_resolution(program: AffineProgram, pieces: Pieces) -> AffineProgram:
    """The program with what the optimistic planner can resolve: its rows meet to 1e-12 of what they can pay."""
    largest = np.sum(np.abs(program.rows) * pieces.peaks(), axis=(1, 2))
    return with_resolution(program, _PRECISION * np.maximum(largest, np.abs(program.limits)))


def with_rounding(program: AffineProgram, psi: Psi, mdp: TabularMDP) -> AffineProgram:
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


def with_sampled_resolution(program: AffineProgram | ConvexProgram) -> AffineProgram | ConvexProgram:
    """The same where embeddings are averages over sampled paths: violations beyond nine digits mean nothing."""
    if not isinstance(program, AffineProgram):
        return program
    return replace(program, resolution=1e-9 * np.maximum(program.units, np.abs(program.limits)))
