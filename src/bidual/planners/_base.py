"""The interface of planners: min over policies (and models) of theta . Psi."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.types import DeviceArray
from bidual.models import AbstractModel, Layout
from bidual.world.policies import ControlPolicy

M = TypeVar("M", bound=AbstractModel)

if TYPE_CHECKING:
    Actions = Any  # their type depends on the model
else:
    Actions = (
        Int[DeviceArray, "H R"] | ControlPolicy | None
    )  # over the model's states; for vectors a policy; soft: none


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """The answer to one linear cost theta: the cheapest policy or, on request, the soft one."""

    __repr__ = describe_briefly

    actions: Actions  # ``model.policy`` turns them into a policy
    embedding: Float[np.ndarray, "H d"]  # (H, 0) once only its image is needed
    value: float  # theta . embedding, the cost of this policy; for a soft policy the log-partition V_0
    lower: float  # a bound for all policies (up to rounding); -inf from a heuristic planner and for soft policies
    soft_cost: Float[np.ndarray, "H n"] | None = None  # the cost that determines a soft policy, without actions
    nominal: Float[np.ndarray, "T q"] | None = None  # controls that a search in the same model may start from
    image: Float[np.ndarray, "r"] | None = None  # totals of the objective and the rows, instead of the embedding


class AbstractPlanner(abc.ABC, Generic[M]):
    """The planner player: the cheapest policy for a linear cost."""

    @abc.abstractmethod
    def __call__(self, model: M, psi: Any, theta: Float[np.ndarray, "H d"]) -> Plan:  # noqa: ANN401
        """Minimise theta . Psi over policies and over the laws that the model allows.

        Args:
            model: one law, or a set of laws that may be true.
            psi: the features as ``model.restrict`` returns them: a `Layout` over its states, a `Stage` for vectors.
            theta: the linear cost per step and feature.
        """

    def after(self, plan: Plan) -> "AbstractPlanner[M]":
        """Return the planner for the next cost over the same model. A heuristic keeps its plans to start from."""
        del plan
        return self


class AbstractSoftPlanner(AbstractPlanner[M]):
    """A planner that can also trade cost against divergence, and compute the occupancies of its plans."""

    @abc.abstractmethod
    def soft(self, model: M, psi: Layout, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Minimise theta . Psi + KL(policy, uniform policy) over policies instead."""

    @abc.abstractmethod
    def occupancy(self, model: M, psi: Layout, plan: Plan) -> Float[np.ndarray, "H A R"]:
        """Compute the probability of every action and state of the model at every step under a plan."""
