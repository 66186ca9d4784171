"""The interface of dual players: from the embeddings seen so far to the next linear cost."""

import abc
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Float

from bidual.convex import AffineProgram

Memory = TypeVar("Memory")


class Bound(NamedTuple):
    """A lower bound and the multipliers that prove it."""

    value: float
    gamma: Float[np.ndarray, "m"]


@final
@dataclass(frozen=True, eq=False, slots=True)
class Duals(Generic[Memory]):
    """What a dual player carries from plan to plan; `memory` is its own business."""

    gamma: Float[np.ndarray, "m"]  # where the next plan is wanted
    objective_weight: float  # 0 while only the violation is being minimised (phase 1)
    weights: Float[np.ndarray, "k"]  # the best mixture of the k plans seen
    f: float  # objective of that mixture
    g: Float[np.ndarray, "m"]  # constraints of that mixture
    optimum: Bound  # on f*
    conflict: Bound  # on the least possible violation
    stalled: bool  # the last plan taught nothing: more plans will not help
    memory: Memory


class AbstractDual(abc.ABC, Generic[Memory]):
    """The dual player: which linear cost theta should the planner answer next?"""

    @abc.abstractmethod
    def init(self, program: AffineProgram) -> Duals[Memory]:
        """The state before the first plan."""

    @abc.abstractmethod
    def step(self, program: AffineProgram, duals: Duals[Memory], psi: Float[np.ndarray, "H d"]) -> Duals[Memory]:
        """Learn from the embedding of the cheapest policy for the current theta."""
