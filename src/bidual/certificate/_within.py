"""Bounds on a given policy over every law of a class, without a single episode of it.

They hold if the true law is in the class, like the bound on other policies: no probability is spent on them. Linear
functionals are followed backward like any cost. Convex functions are evaluated under all combinations of candidates
where these are few; otherwise those of a few numbers at the worst corner of the intervals that the class leaves them.
"""

import itertools
import math

import numpy as np
from jaxtyping import Float

from bidual.certificate._class import DenseLaws, bound_least_over_class, select_laws
from bidual.certificate._estimates import (
    MOST_NUMBERS,
    EstimateRows,
    Estimates,
    bound_over_box,
    evaluate_at,
    list_image_rows,
)
from bidual.certificate.rounding import EPS
from bidual.models import AbstractCounted, Plausible
from bidual.problem.convex import AbstractProgram, ConvexProgram
from bidual.problem.features import Pieces
from bidual.world.policies import MarkovPolicy

_MOST = 1000  # combinations under which functions are evaluated: CVXPY takes a millisecond for each
_WORK = 2e9  # multiplications on the way there

Ends = tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows"]]


def narrow_by_class(
    estimates: Estimates,
    program: AbstractProgram,
    rows: EstimateRows,
    policy: MarkovPolicy,
    knowledge: AbstractCounted,
    embedding: Float[np.ndarray, "H d"] | None,
) -> Estimates:
    """Narrow the estimates from episodes by the bounds over a class; return them unchanged where there is none.

    `embedding` is that of the policy in the learned model, the best guess. Raises `EnvError` where the two contradict.
    """
    laws = knowledge.find_policy_laws()
    if laws is None:
        return estimates
    guess = estimates.mean if embedding is None else evaluate_at(program, embedding)
    return estimates.narrow(guess, *bound_extreme_values(program, rows, policy.table, laws, knowledge.pieces))


def bound_extreme_values(
    program: AbstractProgram,
    rows: EstimateRows,
    table: Float[np.ndarray, "H S A"],
    model: Plausible,
    pieces: Pieces,
) -> Ends:
    """Bound f (number 0) and g (from 1 on) from both sides over the class; infinite where nothing is proved."""
    lower = np.full(1 + program.equality.size, -np.inf)
    upper = -lower
    if program.curved is not None:
        lower, upper = _bound_curved(program.curved, table, model, pieces)
    low, high = _enclose_linear(rows, table, model, pieces)
    lower[rows.numbers] = np.maximum(lower[rows.numbers], low)
    upper[rows.numbers] = np.minimum(upper[rows.numbers], high)
    return lower, upper


def _enclose_linear(rows: EstimateRows, table: Float[np.ndarray, "H S A"], model: Plausible, pieces: Pieces) -> Ends:
    low, high = np.zeros(rows.numbers.size), np.zeros(rows.numbers.size)
    for i, (row, magnitude, constant) in enumerate(zip(rows.rows, rows.magnitudes, rows.constants, strict=True)):
        least, most = (bound_least_over_class(model, pieces, one, magnitude, rows.terms, table) for one in (row, -row))
        room = 8 * EPS * abs(constant)
        low[i], high[i] = constant + least.value - least.error - room, constant - most.value + most.error + room
    return low, high


def _bound_curved(program: ConvexProgram, table: Float[np.ndarray, "H S A"], model: Plausible, pieces: Pieces) -> Ends:
    """Bound curved functions over the class: law by law where these are few, else through their image."""
    H, S, A = table.shape
    count = math.prod(int(inside.sum()) for inside in model.inside[:-1])  # there are no costs after the last action
    few = count <= _MOST and count * H * S * S * A <= _WORK and not program.num_auxiliary
    if few and model.initial is not None and not pieces.arrivals and not pieces.observed:
        return _bound_over_combinations(program, table, model, pieces, model.initial)
    lower = np.full(1 + program.equality.size, -np.inf)
    if program.image.size > MOST_NUMBERS:
        return lower, -lower
    low, high = _enclose_linear(list_image_rows(program), table, model, pieces)
    return bound_over_box(program, list(zip(low, high, strict=True)))


def _bound_over_combinations(
    program: ConvexProgram,
    table: Float[np.ndarray, "H S A"],
    model: Plausible,
    pieces: Pieces,
    initial: Float[np.ndarray, "S"],
) -> Ends:
    """Bound f and g over all combinations of candidates, with the errors of their sums."""
    steps = [select_laws(model, h, only=False) for h in range(len(table) - 1)]
    error = bound_image_error(program, table.shape, steps, pieces)
    found = []
    for laws in itertools.product(*(one.dense for one in steps)):
        y = program.image(_compute_embedding(table, laws, pieces, initial))
        found.append(bound_near_image(program, y, error))
    low, high = np.array(found).swapaxes(0, 1)
    return np.where(np.isnan(low), -np.inf, low).min(axis=0), np.where(np.isnan(high), np.inf, high).max(axis=0)


def _compute_embedding(
    table: Float[np.ndarray, "H S A"],
    laws: tuple[Float[np.ndarray, "S A S"], ...],
    pieces: Pieces,
    initial: Float[np.ndarray, "S"],
) -> Float[np.ndarray, "H d"]:
    """Compute the embedding of a policy under one law for every step but the last."""
    embedding, mu = np.empty((len(table), pieces.psi.dimension)), initial
    for h, actions in enumerate(table):
        occupancy = mu[:, None] * actions
        embedding[h] = pieces.psi.expect(occupancy, h)
        if h < len(laws):
            mu = occupancy.ravel() @ laws[h].reshape(occupancy.size, -1)
    return embedding


def bound_image_error(
    program: ConvexProgram, shape: tuple[int, ...], steps: list[DenseLaws], pieces: Pieces, plans: int = 0
) -> Float[np.ndarray, "n"]:
    """Bound the error of an image from rounding, the sum over several plans, and defects of the candidates as laws."""
    H, S, A = shape
    relative = H * (S * A + A + 4 + plans) * EPS + sum(one.defect for one in steps)
    size = np.broadcast_to(pieces.peaks(), (H, pieces.psi.dimension))
    terms = np.diff(program.image.matrix.indptr) + 2
    own = terms * EPS * (program.image.spread(size) + np.abs(program.image.offset))
    return program.image.spread(relative * size) + own


def bound_near_image(program: ConvexProgram, y: Float[np.ndarray, "n"], error: Float[np.ndarray, "n"]) -> Ends:
    """Bound f and g at an image that is known up to an error."""
    return program.functions.enclosures(y, np.zeros(0), error)
