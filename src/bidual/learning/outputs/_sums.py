"""Sums of the features of executed episodes: of all of them, and of the last half.

Curved functions of the mixtures are evaluated at them. A stored run keeps these few numbers instead of its episodes.
Halves are taken as in `bounds.Restarts`: at powers of two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.types import Episode
from bidual.learning.outputs._samples import mean_embedding
from bidual.problem.features import Pieces


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """`count` episodes; `latest` is over those after `since`, `following` over those after the last power of two."""

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
            result = result._advance(len(part), len(part) * mean_embedding(pieces, part))
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
