"""Searches for a sequence of controls: the problem that they solve, their interface, and the chain of two of them."""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, Key

from bidual.models import AbstractDynamics
from bidual.planners.control._extras import split_extras
from bidual.problem.features import Computed


class Subproblem(NamedTuple):
    """The problem of controls from state s on: the dynamics, and the cost of every step ahead.

    Not a cost of the embedding but of one path, under the mean dynamics; in compiled code.
    """

    dynamics: AbstractDynamics
    features: Computed
    theta: Float[Array, "T p"]  # 0 beyond the horizon
    length: Int[Array, ""]  # the number of steps before the horizon
    s: Float[Array, "n"]

    @staticmethod
    def ahead(
        dynamics: AbstractDynamics,
        features: Computed,
        theta: Float[Array, "H p"],
        h: Int[Array, ""],
        s: Float[Array, "n"],
        T: int,
    ) -> "Subproblem":
        """Return the problem of the T steps from step h on, or of the remaining ones."""
        steps = jax.lax.dynamic_slice_in_dim(jnp.pad(theta, ((0, T), (0, 0))), h, T)
        return Subproblem(dynamics, features, steps, jnp.minimum(T, theta.shape[0] - h), s)

    def step(
        self, theta: Float[Array, "p"], s: Float[Array, "n"], z: Float[Array, "q"]
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """Compute one step of the mean dynamics under controls and extras z, and its cost."""
        u, e = split_extras(z, self.dynamics.sizes[1])
        after, bonus = self.dynamics.step(s, u, e, jnp.zeros_like(s))
        return after, theta @ self.features.values(s, self.dynamics.project_control(u), after) - bonus


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
    def __call__(self, problem: Subproblem, key: Key[Array, ""], nominal: Float[Array, "T q"]) -> Searched:
        """Improve a sequence for the steps of the problem. For use in compiled code."""


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

    def __call__(self, problem: Subproblem, key: Key[Array, ""], nominal: Float[Array, "T q"]) -> Searched:
        """Run both searches, each with noise of its own."""
        found = self.first(problem, jr.fold_in(key, 0), nominal)
        return self.second(problem, jr.fold_in(key, 1), found.nominal)._replace(variance=found.variance)
