"""Demonstrations of an expert as an embedding: the average over the episodes, step by step."""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import ProblemError
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP

Episode = Sequence[Sequence[int]] | Sequence[tuple[int, int]] | Int[np.ndarray, "n 2"]
Demonstrations = Sequence[Episode] | Int[np.ndarray, "episodes n 2"]

FORM = "demonstrations are a sequence of episodes, each a sequence of (state, action) pairs"


def is_demonstrations(expert: object) -> TypeGuard[Demonstrations]:
    """Return whether a value is nested like episodes of pairs, and is no array of at most two dimensions."""
    try:
        array = np.asarray(expert)
    except ValueError:  # episodes of different lengths
        return True
    return array.ndim == 3 or array.size == 0


def read_demonstrations(mdp: TabularMDP, psi: Psi, demonstrations: Demonstrations) -> Float[np.ndarray, "H d"]:
    """Average psi over the episodes.

    An episode that is shorter than the horizon counts nothing after its end; in a model from Gymnasium it stays in
    the added state, as the model's own ended episodes do.
    """
    episodes = [_episode(mdp, number, episode) for number, episode in enumerate(demonstrations)]
    if not episodes:
        raise ProblemError(f"there are no demonstrations: give at least one episode; {FORM}")
    steps = []
    for h in range(mdp.horizon):
        occupancy = np.zeros(mdp.actions.shape)
        for pairs in episodes:
            if h < len(pairs):
                occupancy[tuple(pairs[h])] += 1 / len(episodes)
        steps.append(psi.expect(occupancy, h))
    return np.stack(steps)


def _episode(mdp: TabularMDP, number: int, episode: Episode) -> Int[np.ndarray, "n 2"]:
    """Return the pairs as an array, checked, and completed where the model defines the end of episodes."""
    try:
        pairs = np.asarray(episode)
    except ValueError:
        raise ProblemError(f"episode {number} has entries that are no pairs: {FORM}") from None
    if pairs.size == 0:
        raise ProblemError(f"episode {number} is empty: drop it, or give its (state, action) pairs")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ProblemError(
            f"episode {number} must hold pairs of whole numbers; got shape {pairs.shape} of {pairs.dtype}: {FORM}"
        )
    if len(pairs) > mdp.horizon:
        raise ProblemError(f"episode {number} has {len(pairs)} steps, more than the horizon {mdp.horizon}: cut it off")
    _check_range(number, "state", pairs[:, 0], mdp.num_states)
    _check_range(number, "action", pairs[:, 1], mdp.num_actions)
    forbidden = np.flatnonzero(~mdp.actions[pairs[:, 0], pairs[:, 1]])
    if forbidden.size:
        h = int(forbidden[0])
        raise ProblemError(f"episode {number}, step {h}: state {pairs[h, 0]} does not allow action {pairs[h, 1]}")
    if mdp.table is None:
        return pairs
    return np.vstack([pairs, np.tile([mdp.num_states - 1, 0], (mdp.horizon - len(pairs), 1))])


def _check_range(number: int, what: str, values: Int[np.ndarray, "n"], count: int) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= count))
    if wrong.size:
        h = int(wrong[0])
        raise ProblemError(
            f"episode {number}, step {h}: there is no {what} {values[h]}; the model has {what}s 0 to {count - 1}"
        )
