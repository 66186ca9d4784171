"""Planning over several dynamics, of which the one with the cheapest plan counts: optimism by several draws."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.models import AbstractDynamics, AbstractModel, Stage
from bidual.planners import AbstractPlanner, Plan
from bidual.planners.control._planner import Regulator
from bidual.world.policies import ControlPolicy


@final
@dataclass(frozen=True, eq=False)
class Among(AbstractModel):
    """A finite set of dynamics that may be true."""

    members: tuple[AbstractDynamics, ...]

    def restrict(self, psi: Stage) -> Stage:
        """Return the features unchanged: there is nothing to lay out."""
        return psi

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """Return the plan unchanged: a plan of controls is a policy already."""
        return actions


@final
@dataclass(frozen=True, eq=False)
class CheapestAmong(AbstractPlanner[Among]):
    """The planner that searches a sequence for every member, and executes and rolls out only the cheapest."""

    regulator: Regulator

    def __call__(self, model: Among, psi: Stage, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Search in all members, and execute the cheapest sequence."""
        found = [self.regulator.search(member, psi, theta) for member in model.members]
        best = min(range(len(found)), key=lambda i: found[i].cost)
        best_plan = self.regulator.execute(model.members[best], psi, theta, found[best])
        return self.regulator.cheapest(theta, best_plan)

    def after(self, plan: Plan) -> "CheapestAmong":
        """Return the planner with one more plan to start from."""
        return CheapestAmong(self.regulator.after(plan))
