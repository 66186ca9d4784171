"""Mixtures of plans as points of a convex problem: what they are worth, and which of them is returned."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bidual.dual._base import Duals
from bidual.problem.convex import ConvexProgram


class MixturePoint(NamedTuple):
    """A mixture of the plans with the user's other variables, and their objective and constraint values."""

    weights: Float[np.ndarray, "k"]
    auxiliary: Float[np.ndarray, "a"]
    f: float
    g: Float[np.ndarray, "m"]


def keep_better(duals: Duals[Any], point: MixturePoint) -> MixturePoint:
    """Return the mixture known before where the new one is worse: the last digits of a cone solver go up and down."""
    if not duals.feasible or duals.f >= point.f or not duals.weights.size:
        return point
    known = np.append(duals.weights, np.zeros(len(point.weights) - len(duals.weights)))
    return MixturePoint(known, duals.auxiliary, duals.f, duals.g)


def repair(
    program: ConvexProgram, slater: MixturePoint | None, Y: Float[np.ndarray, "k n"], point: MixturePoint
) -> MixturePoint:
    """Mix in as little of the Slater point as satisfies every inequality; the share follows from convexity."""
    if slater is None:
        return point
    for _ in range(3):
        over = np.where(program.equality, 0.0, point.g)
        if not np.any(over > 0.2 * program.tolerances):  # the certificate needs a little of the tolerance itself
            break
        inside = np.where(program.equality, -1.0, slater.g)
        share = float(np.max(np.where(over > 0, over / (over - inside), 0.0)))
        share = min(1.0, 1.000001 * share + 1e-15)
        at_slater = np.append(slater.weights, np.zeros(len(point.weights) - len(slater.weights)))
        weights = (1 - share) * point.weights + share * at_slater
        auxiliary = (1 - share) * point.auxiliary + share * slater.auxiliary
        point = MixturePoint(weights, auxiliary, *program.functions.values(weights @ Y, auxiliary))
    return point
