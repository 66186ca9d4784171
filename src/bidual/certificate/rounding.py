"""Rounding errors of the value of a linear cost: derived, not guessed."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.convex import TOLERANCE, AbstractProgram, AffineProgram, ConvexProgram
from bidual.problem.features import Pieces, Psi
from bidual.world.mdp import TabularMDP

EPS = float(np.finfo(np.float64).eps)
_LEAST_UNIT = 1e-3  # of what a convex constraint can reach: finer than a billionth of this no cone solver is
_NOTHING = 1e-290  # enclosures of 0 are wider than 0: by less than this
_PRECISION = 1e-12  # of the optimistic planner's rows


def bound_value_slack(
    mdp: TabularMDP, psi: Psi, magnitude: Float[np.ndarray, "n H d"], terms: int
) -> Float[np.ndarray, "n"]:
    """Bound the rounding error of a backward pass, for n costs with coefficients of at most `magnitude`.

    The coefficients are themselves sums of `terms` products. A step then forms theta . psi (d terms), an
    expectation over K successors and at most one over A actions: each costs at most one unit of eps per term,
    relative to the sum of absolute values, and that is at most the largest |pay| summed over the steps. eps is
    twice the unit roundoff, which covers higher orders.
    """
    A, K = mdp.num_actions, mdp.successors.states.shape[3]
    with np.errstate(over="ignore"):
        total = np.sum(magnitude * psi.peaks(mdp.scale), axis=(1, 2))
    steps = mdp.horizon * mdp.scale  # over an unbounded time, the expected number of those that count
    return (steps * (A + K + 4) + psi.dimension + terms + 4) * EPS * total


def reach(mdp: TabularMDP, psi: Psi, rows: Float[np.ndarray, "n H d"]) -> Float[np.ndarray, "n"]:
    """Bound what linear functionals can pay in absolute value: the sum over the steps of the largest |pay|."""
    total, largest = np.zeros(len(rows)), np.zeros(len(rows))
    for h in range(mdp.horizon):
        if h == 0 or psi.signals.shape[0] > 1 or not np.array_equal(rows[:, h], rows[:, h - 1]):
            with np.errstate(over="ignore", invalid="ignore"):  # `round_rows` refuses what is not finite
                largest = np.array([np.max(np.abs(psi.pay(row[h], h))[mdp.actions]) for row in rows])
        total += largest
    return mdp.scale * total


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
    """Return the program with the units, and where it is linear the resolution, that its rows have over this model."""
    return program.dispatch(lambda rows: round_rows(rows, psi, mdp), lambda cones: round_cones(cones, psi, mdp))


def round_cones(program: ConvexProgram, psi: Psi, mdp: TabularMDP) -> ConvexProgram:
    """Return a convex program with units of at most what its constraints can reach over this model.

    Units are at most 1 or the limit, as cone solvers have absolute tolerances, and at most what g can be over the box
    of all images. Where the limit is smaller than that, so is its unit, down to a thousandth. Other variables may be
    anything, so that with them there is nothing to compare with.
    """
    if program.num_auxiliary or program.violation is None:
        return program
    peaks = np.broadcast_to(psi.peaks(mdp.scale), (mdp.horizon, psi.dimension))
    low, high = program.functions.enclosures(program.image.offset, np.zeros(0), program.image.spread(peaks))
    largest = np.maximum(np.abs(low), np.abs(high))[1:]
    known = np.isfinite(largest) & (largest > _NOTHING)
    limits = np.abs(program.main.limits(program.units.size))
    small = np.where(limits > 0, np.maximum(limits, _LEAST_UNIT * largest), np.inf)
    units = np.where(known, np.minimum(np.minimum(program.units, largest), small), program.units)
    return program if np.array_equal(units, program.units) else program.with_units(units)


def round_rows(program: AffineProgram, psi: Psi, mdp: TabularMDP) -> AffineProgram:
    """The program with the units and the resolution of its rows over this model.

    A violation is measured in units of the limit, at most of what the row can pay, or of what arithmetic on such
    signals can resolve, if that is more; 1e-9 units still count as holding. So signals in other units are the same
    problem, and the smallest limit is one.
    """
    resolution = bound_value_slack(mdp, psi, np.abs(program.rows), 1) + 4 * EPS * np.abs(program.limits)
    largest, sizes = reach(mdp, psi, program.rows), np.abs(program.limits)
    units = np.maximum(np.where(largest > 0, np.minimum(sizes, largest), sizes), 4 * resolution / TOLERANCE)
    measured = replace(program, units=np.where(units > 0, units, 1.0), resolution=resolution)
    scale = bound_value_slack(mdp, psi, np.abs(program.objective)[None], 1)
    if not (np.all(np.isfinite(measured.units)) and np.all(np.isfinite(scale))):
        raise ProblemError(
            "signals times coefficients overflow double precision: rescale the signals to moderate numbers"
        )
    return measured


def with_sampled_resolution(program: AbstractProgram) -> AbstractProgram:
    """Set the resolution where embeddings are averages over sampled paths: to nine digits of units and limits."""
    return program.with_rows(lambda rows: replace(rows, resolution=1e-9 * np.maximum(rows.units, np.abs(rows.limits))))
