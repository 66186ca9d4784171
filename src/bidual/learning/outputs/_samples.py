"""Values of episodes: linear functionals of single episodes, and the mean embedding of many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.types import Episode
from bidual.problem.features import Pieces


@final
@dataclass(frozen=True, eq=False)
class Payments:
    """Linear functionals row . psi + constant of an episode's own features."""

    pieces: Pieces
    rows: Float[np.ndarray, "r H d"]
    constants: Float[np.ndarray, "r"]

    def __call__(self, episodes: Sequence[Episode]) -> Float[np.ndarray, "n r"]:
        """Compute the values of every episode."""
        states, actions = np.stack([e.states for e in episodes]), np.stack([e.actions for e in episodes])
        signals = compute_signals(self.pieces, states, actions, np.stack([e.observed for e in episodes]))
        n, H = actions.shape
        d = signals.shape[2]
        totals = signals.reshape(n, H * d) @ self.rows[:, :, :d].reshape(len(self.rows), H * d).T
        steps, S = np.arange(H), self.pieces.stage.shape[2]
        if self.pieces.visits:
            totals = totals + self.rows[:, steps, d + states[:, :-1]].sum(axis=2).T
            d += S
        if self.pieces.occupancy:
            places = d + states[:, :-1] * self.pieces.stage.shape[3] + actions
            totals = totals + self.rows[:, steps, places].sum(axis=2).T
        return totals + self.constants

    def expected(self, embedding: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "r"]:
        """Compute the values at an embedding."""
        return np.tensordot(self.rows, embedding, axes=2) + self.constants


def compute_signals(
    pieces: Pieces,
    states: Int[np.ndarray, "n arrivals"],
    actions: Int[np.ndarray, "n H"],
    observed: Float[np.ndarray, "n H o"],
) -> Float[np.ndarray, "n H d"]:
    """Compute the signals of every step of every episode."""
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


def average_embedding(pieces: Pieces, episodes: Sequence[Episode]) -> Float[np.ndarray, "H d"]:
    """Average the features of the episodes."""
    states, actions = np.stack([e.states for e in episodes]), np.stack([e.actions for e in episodes])
    signals = compute_signals(pieces, states, actions, np.stack([e.observed for e in episodes]))
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


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of the features of `count` executed episodes, at which curved functions of the mixtures are evaluated.

    `latest` is over those after `since`, `following` over those after the last power of two: halves as those of
    `bounds.Restarts`. A stored run keeps these few numbers instead of its episodes.
    """

    count: int
    since: int
    whole: Float[np.ndarray, "H d"]
    latest: Float[np.ndarray, "H d"]
    following: Float[np.ndarray, "H d"]

    @classmethod
    def start(cls, horizon: int, dimension: int) -> "Sums":
        """Return the sums before the first episode."""
        nothing = np.zeros((horizon, dimension))
        return cls(0, 0, nothing, nothing, nothing)

    def add(self, pieces: Pieces, episodes: Sequence[Episode]) -> "Sums":
        """Add more episodes, in their order."""
        result, rest = self, episodes
        while rest:
            # Up to the next power of two no half ends.
            room = (1 << result.count.bit_length()) - result.count
            part, rest = rest[:room], rest[room:]
            result = result._advance(len(part), len(part) * average_embedding(pieces, part))
        return result

    def mean(self, *, latest: bool) -> Float[np.ndarray, "H d"]:
        """Return the mean embedding of all episodes, or of the last half; at least one must have been executed."""
        return self.latest / (self.count - self.since) if latest else self.whole / self.count

    def _advance(self, count: int, added: Float[np.ndarray, "H d"]) -> "Sums":
        total, whole, latest, following = (
            self.count + count,
            *(part + added for part in (self.whole, self.latest, self.following)),
        )
        if total & (total - 1):
            return Sums(total, self.since, whole, latest, following)
        return Sums(total, total // 2, whole, following, np.zeros_like(following))
