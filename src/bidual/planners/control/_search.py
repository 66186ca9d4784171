"""The interface of searches for a sequence of controls, and the chain of two of them."""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax.random as jr
from jaxtyping import Array, Float, Int, Key

from bidual.models import AbstractDynamics
from bidual.problem.features import Computed


class Gains(NamedTuple):
    """Feedback against deviations from a path: controls and extras change by rows[h] (s - states[h])."""

    states: Float[Any, "T n"]
    rows: Float[Any, "T q n"]


class Searched(NamedTuple):
    """A sequence of controls and extras, its cost under the mean dynamics, and the variance of the search around it."""

    nominal: Float[Array, "T q"]
    cost: Float[Array, ""]
    variance: Float[Array, "T q"]  # in halves of the range of each control
    gains: Gains | None = None  # where the search computes any


class AbstractSearch(abc.ABC):
    """A search that improves a sequence. Settings only, and hashable: compiled code is kept for each."""

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
        """Improve a sequence for the T steps from step h on, or for the remaining ones. For use in compiled code."""


@final
@dataclass(frozen=True)
class Chain(AbstractSearch):
    """Two searches in a row, the second from the result of the first: sample, then descend.

    Args:
        first: the first search.
        second: the search that starts from the sequence of the first.
    """

    first: AbstractSearch
    second: AbstractSearch

    @property
    def continued(self) -> bool:
        """Whether the first one is."""
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
        """Run both searches, each with noise of its own."""
        found = self.first(dynamics, features, theta, h, s, jr.fold_in(key, 0), nominal)
        return self.second(dynamics, features, theta, h, s, jr.fold_in(key, 1), found.nominal)._replace(
            variance=found.variance
        )
