"""Which member of a mixture is run next, so that what was run adds up to the mixtures that it was taken from.

Drawn by their weights, n members are off from the mixture by their spread / sqrt(n): over 64 episodes of a point mass
that was more than all other errors together. Here a debt is carried from episode to episode, what the mixtures expect
less what the members that were run expect, and the member is run that leaves the least of it (herding, Welling 2009).

Debts are in the numbers that the problem is about, each measured by how widely members were spread in it so far. Both
fade, so that plans in the bad models of the first episodes are not paid for later on.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual.convex import AffineProgram, ConvexProgram
from bidual.explorers._inner import Mixed

_FADES = 0.02  # of debt and spread with every mixture


class Owed(NamedTuple):
    """What the mixtures so far expected less what was run, and the variance of members within mixtures, added up."""

    debt: Float[np.ndarray, "k"]
    spread: Float[np.ndarray, "k"]


def in_turn(program: AffineProgram | ConvexProgram, mixed: Mixed, owed: Owed | None) -> tuple[int, Owed]:
    """The place of the member whose turn it is, and what is owed after it."""
    points, shares = _points(program, mixed)
    weights = mixed.weights / mixed.weights.sum()
    mean = weights @ points
    kept = 1 - _FADES
    before = Owed(np.zeros_like(mean), np.zeros_like(mean)) if owed is None else owed
    spread = kept * before.spread + weights @ (points - mean) ** 2
    debts = kept * before.debt + (mean - points)
    measured = np.where(spread > 0, debts**2 / np.where(spread > 0, spread, 1.0), 0.0)
    place = int(np.argmin(measured @ shares))
    return place, Owed(debts[place], spread)


def _points(
    program: AffineProgram | ConvexProgram, mixed: Mixed
) -> tuple[Float[np.ndarray, "members k"], Float[np.ndarray, "k"]]:
    """What every member pays, and what each number counts for: the objective, all of its image, as one constraint."""
    if isinstance(program, AffineProgram):
        values = [program.values(embedding) for embedding in mixed.expected]
        points = np.array([np.append(f, g) for f, g in values])
        return points, np.ones(points.shape[1])
    images = np.array([program.image(embedding) for embedding in mixed.expected])
    shares = np.full(images.shape[1], 1 / max(1, images.shape[1]))
    if program.num_auxiliary:  # constraints have no value without the other variables
        return images, shares
    # Curved constraints too: what is owed is the mean over the members, which can be run, not that of the mixture.
    rows = np.array([program.functions.values(image, np.zeros(0))[1] for image in images])
    return np.hstack([images, rows]), np.append(shares, np.ones(rows.shape[1]))
