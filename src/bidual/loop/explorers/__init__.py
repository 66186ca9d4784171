"""Explorers: the choice of the next policy, while a model is being learned."""

from bidual.loop.explorers._base import AbstractExplorer, AbstractInner, Choice, Corrective, PlanMixture
from bidual.loop.explorers._bonus import CountBonus, Hoeffding
from bidual.loop.explorers._conic import Conic
from bidual.loop.explorers._controls import ControlPlans, Controls, TurnState
from bidual.loop.explorers._explorers import Alternating, EpsilonGreedy, Greedy, Optimistic, Thompson
from bidual.loop.explorers._linearised import Average, Linearised
from bidual.loop.explorers._replanning import AbstractReplanning, Always, Growth, PlanOrigin, ReplanState
from bidual.loop.explorers._riccati import Riccati
from bidual.loop.explorers._steps import DualSteps, PrimalDual

__all__ = [
    "AbstractExplorer",
    "AbstractInner",
    "AbstractReplanning",
    "Alternating",
    "Always",
    "Choice",
    "Conic",
    "Controls",
    "Corrective",
    "EpsilonGreedy",
    "Greedy",
    "Growth",
    "Hoeffding",
    "Linearised",
    "Optimistic",
    "PrimalDual",
    "Riccati",
    "Thompson",
]

# Classes of stored states, by their names in files, which never change.
STORED = {
    "Controlled": ControlPlans,
    "Owed": TurnState,
    "Lazy": ReplanState,
    "Planned": PlanOrigin,
    "Mixed": PlanMixture,
    "Average": Average,
    "Bonus": CountBonus,
    "Steps": DualSteps,
}
