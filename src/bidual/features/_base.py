"""The interface of feature maps: names for the user, arrays for the planner."""

import abc
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._types import Successors

if TYPE_CHECKING:
    from bidual.features.embedding import Embedding


class Part(NamedTuple):
    """Where a named part of the embedding sits among the d features."""

    name: str
    position: int


class AbstractFeatures(abc.ABC):
    """A feature map psi: (step, state, action) -> R^d, with a name for each of its parts."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The named parts, in the order of the features."""

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """D."""

    @abc.abstractmethod
    def stage(self, successors: Successors) -> Float[np.ndarray, "steps d S A"]:
        """Psi as arrays over a known model: expected over the next state where it depends on it."""

    def embedding(self, horizon: int, *, total: bool = False) -> "Embedding":
        """The CVXPY variable for the expectation of psi: shape (H, d), or (d,) summed over time."""
        from bidual.features.embedding import Embedding

        return Embedding(self, horizon, total=total)
