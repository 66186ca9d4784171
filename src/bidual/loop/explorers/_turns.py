"""The choice of the next member of a mixture, so that the episodes add up to the mixtures.

If drawn by weight, n members deviate from the mixture by their spread / sqrt(n): over 64 episodes of a point mass
that was more than all other errors together. Here a debt is carried from episode to episode, the embeddings of the
mixtures less those of the members that were run, and the next member leaves the least of it (herding, Welling 2009).

Debts are in the values of the problem's functions, each relative to the spread of members in it so far. Both fade, so
that plans in the bad models of the first episodes are not compensated later on.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual.loop.explorers._inner import PlanMixture
from bidual.problem.convex import AbstractProgram, AffineProgram, ConvexProgram

_FADES = 0.02  # of debt and spread with every mixture


class TurnState(NamedTuple):
    """The sums of the mixtures so far less the members that were run, and of the variances within mixtures."""

    debt: Float[np.ndarray, "k"]
    spread: Float[np.ndarray, "k"]


def choose_member(program: AbstractProgram, mixed: PlanMixture, turn_state: TurnState | None) -> tuple[int, TurnState]:
    """Return the index of the next member, and the debt after it."""
    points, shares = _points(program, mixed)
    weights = mixed.weights / mixed.weights.sum()
    mean = weights @ points
    kept = 1 - _FADES
    before = TurnState(np.zeros_like(mean), np.zeros_like(mean)) if turn_state is None else turn_state
    spread = kept * before.spread + weights @ (points - mean) ** 2
    debts = kept * before.debt + (mean - points)
    measured = np.where(spread > 0, debts**2 / np.where(spread > 0, spread, 1.0), 0.0)
    place = int(np.argmin(measured @ shares))
    return place, TurnState(debts[place], spread)


def _points(
    program: AbstractProgram, mixed: PlanMixture
) -> tuple[Float[np.ndarray, "members k"], Float[np.ndarray, "k"]]:
    """Return the values of every member, and their weights: the objective's image counts as one constraint."""
    return program.dispatch(lambda rows: _values(rows, mixed), lambda cones: _images(cones, mixed))


def _values(
    program: AffineProgram, mixed: PlanMixture
) -> tuple[Float[np.ndarray, "members k"], Float[np.ndarray, "k"]]:
    points = np.array([np.append(*program.at(embedding)) for embedding in mixed.expected])
    return points, np.ones(points.shape[1])


def _images(
    program: ConvexProgram, mixed: PlanMixture
) -> tuple[Float[np.ndarray, "members k"], Float[np.ndarray, "k"]]:
    images = np.array([program.image(embedding) for embedding in mixed.expected])
    shares = np.full(images.shape[1], 1 / max(1, images.shape[1]))
    if program.num_auxiliary:  # constraints have no value without the other variables
        return images, shares
    # Curved constraints too: the target is the mean over the members, which can be run, not the mixture's value.
    rows = np.array([program.functions.values(image, np.zeros(0))[1] for image in images])
    return np.hstack([images, rows]), np.append(shares, np.ones(rows.shape[1]))
