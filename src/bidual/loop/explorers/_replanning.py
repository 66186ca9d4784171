"""Replanning rules: a plan stays good while the counts behind it have hardly grown."""

import abc
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.models import Counts


class PlanOrigin(NamedTuple):
    """The episodes and counts at the time of a plan."""

    episodes: int
    pairs: Float[np.ndarray, "law S A"]


class AbstractReplanning(abc.ABC):
    """The replanning rule."""

    @abc.abstractmethod
    def due(self, planned: PlanOrigin, counts: Counts) -> bool:
        """Check whether a plan of that time is out of date."""


@final
@dataclass(frozen=True)
class Growth(AbstractReplanning):
    """Replanning when some pair (s, a) was taken a quarter more often, or after 1 + t/10 episodes.

    The number of plans then grows like the logarithm of the number of episodes. Planning at powers of two instead
    explores badly: a wrong estimate stays in use for as long as it took to form.

    Args:
        share: relative growth of some count that makes a plan out of date.
        fraction: share of the episodes so far after which a plan is out of date in any case.
    """

    share: float = 0.25
    fraction: float = 0.1

    def __post_init__(self) -> None:
        """Check the settings."""
        if not (self.share > 0 and self.fraction > 0):
            raise ProblemError(f"share and fraction must be positive; got {self.share!r} and {self.fraction!r}")

    def due(self, planned: PlanOrigin, counts: Counts) -> bool:
        """Check whether a count has grown or enough episodes have passed."""
        now = counts.episodes
        if now - planned.episodes > 1 + self.fraction * planned.episodes:
            return True
        return bool((counts.pairs > (1 + self.share) * planned.pairs).any())


@final
@dataclass(frozen=True)
class Always(AbstractReplanning):
    """Replanning before every episode, as in the paper."""

    def due(self, planned: PlanOrigin, counts: Counts) -> bool:
        """Check whether there was an episode since."""
        return counts.episodes > planned.episodes
