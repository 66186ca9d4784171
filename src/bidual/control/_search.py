"""How a sequence of controls is searched: an interface, and one search after the other."""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax.random as jr
from jaxtyping import Array, Float, Int, Key

from bidual.features import Computed
from bidual.models import AbstractDynamics


class Gains(NamedTuple):
    """What to answer when a path is left: controls and extras change by rows[h] (s - states[h])."""

    states: Float[Any, "T n"]
    rows: Float[Any, "T q n"]


class Searched(NamedTuple):
    """A sequence of controls and extras, its cost under the mean dynamics, and how widely it was searched around."""

    nominal: Float[Array, "T q"]
    cost: Float[Array, ""]
    variance: Float[Array, "T q"]  # in halves of the range of each control
    gains: Gains | None = None  # where the search knows any


class AbstractSearch(abc.ABC):
    """A way to improve a sequence. Settings only, and hashable: compiled code is kept for each."""

    @property
    @abc.abstractmethod
    def continued(self) -> bool:
        """Whether replanning starts from the rest of the plan before."""

    @abc.abstractmethod
    def __call__(
        self,
        dynamics: AbstractDynamics,
        features: Computed,
        theta: Float[Array, "H p"],
        h: Int[Array, ""],
        s: Float[Array, "n"],
        key: Key[Array, ""],
        nominal: Float[Array, "T q"],
    ) -> Searched:
        """Improve a sequence for the T steps from step h on, or for those that are left. For use in compiled code."""


@final
@dataclass(frozen=True)
class Chain(AbstractSearch):
    """One search, and another from where it ended: sample, then descend.

    Args:
        first: begins.
        second: goes on from the sequence that the first one found.
    """

    first: AbstractSearch
    second: AbstractSearch

    @property
    def continued(self) -> bool:
        """As the first one is."""
        return self.first.continued

    def __call__(
        self,
        dynamics: AbstractDynamics,
        features: Computed,
        theta: Float[Array, "H p"],
        h: Int[Array, ""],
        s: Float[Array, "n"],
        key: Key[Array, ""],
        nominal: Float[Array, "T q"],
    ) -> Searched:
        """Both, each with noise of its own."""
        found = self.first(dynamics, features, theta, h, s, jr.fold_in(key, 0), nominal)
        return self.second(dynamics, features, theta, h, s, jr.fold_in(key, 1), found.nominal)._replace(
            variance=found.variance
        )
