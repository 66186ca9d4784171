"""The interface of models: a set of transition laws that may be true, over the states worth planning for."""

import abc

import numpy as np
from jaxtyping import Array, Float, Int

from bidual.policies import DeterministicPolicy


class AbstractModel(abc.ABC):
    """What may be true of the transitions."""

    @abc.abstractmethod
    def restrict(self, psi: Float[np.ndarray, "steps d S A"]) -> Float[Array, "steps d A R"]:
        """Features over the model's own states, in the planner's layout."""

    @abc.abstractmethod
    def policy(self, actions: Int[Array, "H R"]) -> DeterministicPolicy:
        """Actions over the model's own states as a policy over all states."""
