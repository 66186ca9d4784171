"""What episodes paid: linear functionals of single episodes, and the mean embedding of many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from bidual._types import Episode
from bidual.features import Pieces


@final
@dataclass(frozen=True, eq=False)
class Payments:
    """Linear functionals row . psi + constant of an episode's own features."""

    pieces: Pieces
    rows: Float[np.ndarray, "r H d"]
    constants: Float[np.ndarray, "r"]

    def __call__(self, episodes: Sequence[Episode]) -> Float[np.ndarray, "n r"]:
        """What every episode paid."""
        states, actions = np.stack([e.states for e in episodes]), np.stack([e.actions for e in episodes])
        signals = realised(self.pieces, states, actions, np.stack([e.observed for e in episodes]))
        n, H = actions.shape
        d = signals.shape[2]
        paid = signals.reshape(n, H * d) @ self.rows[:, :, :d].reshape(len(self.rows), H * d).T
        steps, S = np.arange(H), self.pieces.stage.shape[2]
        if self.pieces.visits:
            paid = paid + self.rows[:, steps, d + states[:, :-1]].sum(axis=2).T
            d += S
        if self.pieces.occupancy:
            places = d + states[:, :-1] * self.pieces.stage.shape[3] + actions
            paid = paid + self.rows[:, steps, places].sum(axis=2).T
        return paid + self.constants

    def expected(self, embedding: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "r"]:
        """What an embedding pays."""
        return np.tensordot(self.rows, embedding, axes=2) + self.constants


def realised(
    pieces: Pieces,
    states: Int[np.ndarray, "n arrivals"],
    actions: Int[np.ndarray, "n H"],
    observed: Float[np.ndarray, "n H o"],
) -> Float[np.ndarray, "n H d"]:
    """The signals of every step of every episode."""
    H = actions.shape[1]
    before, after = states[:, :-1], states[:, 1:]

    def steps(array: np.ndarray) -> np.ndarray | int:
        return np.arange(H) if array.shape[0] > 1 else 0

    stage = np.moveaxis(pieces.stage, 1, 3)
    signals = np.array(stage[steps(stage), before, actions])
    for position, values in pieces.arrivals:
        signals[..., position] += values[steps(values), before, actions, after]
    for number, (position, _) in enumerate(pieces.observed):
        signals[..., position] += observed[..., number]
    return signals


def mean_embedding(pieces: Pieces, episodes: Sequence[Episode]) -> Float[np.ndarray, "H d"]:
    """The features of the episodes, averaged."""
    states, actions = np.stack([e.states for e in episodes]), np.stack([e.actions for e in episodes])
    signals = realised(pieces, states, actions, np.stack([e.observed for e in episodes]))
    parts = [signals.mean(axis=0)]
    (n, H), (S, A) = actions.shape, pieces.stage.shape[2:]
    steps = np.broadcast_to(np.arange(H), (n, H)).ravel()
    if pieces.visits:
        visits = np.zeros((H, S))
        np.add.at(visits, (steps, states[:, :-1].ravel()), 1 / n)
        parts.append(visits)
    if pieces.occupancy:
        occupancy = np.zeros((H, S * A))
        np.add.at(occupancy, (steps, (states[:, :-1] * A + actions).ravel()), 1 / n)
        parts.append(occupancy)
    return np.concatenate(parts, axis=1)
