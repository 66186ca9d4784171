"""When to plan again: a plan stays good while the counts it was made from have hardly grown."""

import abc
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual.models import Counts


class Planned(NamedTuple):
    """When a plan was made, and from what."""

    episodes: int
    pairs: Float[np.ndarray, "law S A"]


class AbstractReplanning(abc.ABC):
    """The replanning rule."""

    @abc.abstractmethod
    def due(self, planned: Planned, counts: Counts) -> bool:
        """Whether the plan made then has aged."""


@final
@dataclass(frozen=True)
class Growth(AbstractReplanning):
    """Plan again when some pair (s, a) was taken a quarter more often, or after 1 + t/10 episodes.

    The number of plans then grows like the logarithm of the number of episodes. Planning at powers of two instead
    explores badly: a wrong belief is acted on for as long as it took to form.

    Args:
        share: by how much some count must have grown.
        fraction: of the episodes so far, after which a plan is old in any case.
    """

    share: float = 0.25
    fraction: float = 0.1

    def __post_init__(self) -> None:
        """Check the settings."""
        if not (self.share > 0 and self.fraction > 0):
            raise ProblemError(f"share and fraction must be positive; got {self.share!r} and {self.fraction!r}")

    def due(self, planned: Planned, counts: Counts) -> bool:
        """Whether a count has grown or enough episodes have passed."""
        now = counts.episodes
        if now - planned.episodes > 1 + self.fraction * planned.episodes:
            return True
        return bool((counts.pairs > (1 + self.share) * planned.pairs).any())


@final
@dataclass(frozen=True)
class Always(AbstractReplanning):
    """Plan before every episode, as the paper does."""

    def due(self, planned: Planned, counts: Counts) -> bool:
        """After every episode."""
        return counts.episodes > planned.episodes
