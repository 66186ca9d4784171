"""The interface of planners: min over policies (and models) of theta . Psi."""

import abc
from dataclasses import dataclass
from typing import Generic, TypeVar, final

import numpy as np
from jaxtyping import Array, Float, Int

from bidual.models import AbstractModel, Layout

M = TypeVar("M", bound=AbstractModel)


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """The answer to one linear cost theta."""

    actions: Int[Array, "H R"]  # over the model's states; ``model.policy`` makes a policy of them
    embedding: Float[np.ndarray, "H d"]
    value: float  # theta . embedding, what this policy pays
    lower: float  # no policy pays less (up to rounding); -inf from a heuristic planner


class AbstractPlanner(abc.ABC, Generic[M]):
    """The planner player: which policy is cheapest for this cost?"""

    @abc.abstractmethod
    def __call__(self, model: M, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Minimise theta . Psi over policies and over what the model holds possible.

        Args:
            model: what may be true.
            psi: the features over the model's states, from ``model.restrict``.
            theta: the linear cost per step and feature.
        """
