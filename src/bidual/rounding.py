"""How far floating-point arithmetic can move the value of a linear cost: derived, not guessed."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from bidual.convex import AffineProgram
from bidual.mdp import TabularMDP

EPS = float(np.finfo(np.float64).eps)


def value_slack(
    mdp: TabularMDP, psi: Float[np.ndarray, "steps d S A"], magnitude: Float[np.ndarray, "*n H d"], terms: int
) -> Float[np.ndarray, "*n"]:
    """A bound on the rounding error of a backward pass for a cost with coefficients of at most `magnitude`.

    The cost's coefficients are themselves sums of `terms` products. A step then forms theta . psi (d terms), an
    expectation over K successors and at most one over A actions: each costs at most one unit of eps per term,
    relative to the sum of absolute values, and that is at most the largest |pay| summed over the steps. eps is
    twice the unit roundoff, which covers higher orders.
    """
    A, K = mdp.num_actions, mdp.successors.states.shape[3]
    peak = np.abs(psi).max(axis=(2, 3))
    total = np.asarray(np.sum(magnitude * peak, axis=(-2, -1)))
    return (mdp.horizon * (A + K + 4) + psi.shape[1] + terms + 4) * EPS * total


def with_tolerances(program: AffineProgram, psi: Float[np.ndarray, "steps d S A"], mdp: TabularMDP) -> AffineProgram:
    """The program with the violations that count as rounding over this model.

    1e-9 of the limit (at least 1e-9), or what arithmetic on such large signals can resolve, if that is more.
    """
    resolved = 4 * value_slack(mdp, psi, np.abs(program.rows), 1)
    return replace(program, tolerances=np.maximum(1e-9 * np.maximum(1.0, np.abs(program.limits)), resolved))
