"""Several dynamics of which the one with the cheapest plan counts: optimism by drawing more than once."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.control._planner import Regulator
from bidual.models import AbstractDynamics, AbstractModel, Stage
from bidual.planners import AbstractPlanner, Plan
from bidual.policies import ControlPolicy


@final
@dataclass(frozen=True, eq=False)
class Among(AbstractModel):
    """Any of these dynamics may be true."""

    members: tuple[AbstractDynamics, ...]

    def restrict(self, psi: Stage) -> Stage:
        """Nothing to lay out."""
        return psi

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """A plan of controls is a policy already."""
        return actions


@final
@dataclass(frozen=True, eq=False)
class CheapestAmong(AbstractPlanner[Among]):
    """A sequence for every member; only the cheapest is executed and rolled out."""

    regulator: Regulator

    def __call__(self, model: Among, psi: Stage, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Search in all, execute one."""
        found = [self.regulator.search(member, psi, theta) for member in model.members]
        best = min(range(len(found)), key=lambda i: found[i].cost)
        made = self.regulator.executed(model.members[best], psi, theta, found[best])
        return self.regulator.cheapest(theta, made)

    def after(self, plan: Plan) -> "CheapestAmong":
        """With one more plan to start from."""
        return CheapestAmong(self.regulator.after(plan))
