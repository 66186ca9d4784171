"""Mixtures of plans as points of a convex problem: what they are worth, and which of them is returned."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bidual.dual._base import Duals
from bidual.problem.convex import ConvexProgram

KEPT = 0.2  # share of the tolerance that a mixture may use: the certificate needs a little itself


class MixturePoint(NamedTuple):
    """A mixture of the plans with the user's other variables, and their objective and constraint values."""

    weights: Float[np.ndarray, "k"]
    auxiliary: Float[np.ndarray, "a"]
    f: float
    g: Float[np.ndarray, "m"]


def keep_better(program: ConvexProgram, duals: Duals[Any], point: MixturePoint) -> MixturePoint:
    """Return the mixture known before where the new one is worse: the last digits of a cone solver go up and down."""
    feasible = bool(np.all(program.violations(point.g) <= program.tolerances))
    if not duals.feasible or not duals.weights.size or (feasible and duals.f >= point.f):
        return point
    known = np.append(duals.weights, np.zeros(len(point.weights) - len(duals.weights)))
    return MixturePoint(known, duals.auxiliary, duals.f, duals.g)


def mix_in(
    program: ConvexProgram, Y: Float[np.ndarray, "k n"], point: MixturePoint, *inside: MixturePoint | None
) -> MixturePoint:
    """Mix in as little of one of the inner points as satisfies every inequality: of that which costs least."""
    found = [_mix_in(program, Y, point, inner) for inner in inside if inner is not None] or [point]
    return min(found, key=lambda p: (bool(np.any(program.violations(p.g) > program.tolerances)), p.f))


def _mix_in(
    program: ConvexProgram, Y: Float[np.ndarray, "k n"], point: MixturePoint, inner: MixturePoint
) -> MixturePoint:
    """Mix in as little of an inner point as satisfies every inequality; the share follows from convexity."""
    for _ in range(3):
        over = ~program.equality & (point.g > 0)
        if not np.any(point.g[over] > KEPT * program.tolerances[over]):
            break
        share = float(np.max(point.g[over] / (point.g[over] - np.minimum(inner.g[over], 0.0))))
        share = min(1.0, 1.000001 * share + 1e-15)
        at_inner = np.append(inner.weights, np.zeros(len(point.weights) - len(inner.weights)))
        weights = (1 - share) * point.weights + share * at_inner
        auxiliary = (1 - share) * point.auxiliary + share * inner.auxiliary
        point = MixturePoint(weights, auxiliary, *program.functions.values(weights @ Y, auxiliary))
    return point
