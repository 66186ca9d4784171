"""The interface of planners: min over policies (and models) of theta . Psi."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import numpy as np
from jaxtyping import Float, Int

from bidual._types import Placed
from bidual.models import AbstractModel, Layout
from bidual.policies import ControlPolicy

M = TypeVar("M", bound=AbstractModel)

if TYPE_CHECKING:
    Actions = Any  # only the model that was planned in knows which
else:
    Actions = Int[Placed, "H R"] | ControlPolicy | None  # over the model's states; for vectors a policy; soft: none


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """The answer to one linear cost theta: the cheapest policy or, where a soft one was asked for, the soft one."""

    actions: Actions  # ``model.policy`` makes a policy of them
    embedding: Float[np.ndarray, "H d"]  # (H, 0) once only its image is needed
    value: float  # theta . embedding, what this policy pays; for a soft policy the log-partition V_0
    lower: float  # no policy pays less (up to rounding); -inf from a heuristic planner and for soft policies
    soft_cost: Float[np.ndarray, "H n"] | None = None  # from which a soft policy is made again: it has no actions
    nominal: Float[np.ndarray, "T q"] | None = None  # controls that a search in the same model may start from


class AbstractPlanner(abc.ABC, Generic[M]):
    """The planner player: which policy is cheapest for this cost?"""

    @abc.abstractmethod
    def __call__(self, model: M, psi: Any, theta: Float[np.ndarray, "H d"]) -> Plan:  # noqa: ANN401
        """Minimise theta . Psi over policies and over what the model holds possible.

        Args:
            model: what may be true.
            psi: the features as ``model.restrict`` gives them: a `Layout` over its states, a `Stage` for vectors.
            theta: the linear cost per step and feature.
        """

    def after(self, plan: Plan) -> "AbstractPlanner[M]":
        """The planner for the next cost over the same model. A heuristic remembers its plans and starts from them."""
        del plan
        return self


class AbstractSoftPlanner(AbstractPlanner[M]):
    """A planner that can also trade cost against divergence, and tell the occupancies of its plans."""

    @abc.abstractmethod
    def soft(self, model: M, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """The policy that minimises theta . Psi + KL(policy, uniform policy) instead."""

    @abc.abstractmethod
    def occupancy(self, model: M, psi: Layout, plan: Plan) -> Float[np.ndarray, "H A R"]:
        """The probability of every action and state of the model at every step under a plan, made again if need be."""
