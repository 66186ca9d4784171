"""Explorers: the choice of the next policy, while a model is being learned."""

from bidual.loop.explorers._base import AbstractExplorer as AbstractExplorer
from bidual.loop.explorers._base import AbstractInner as AbstractInner
from bidual.loop.explorers._base import Choice as Choice
from bidual.loop.explorers._base import Corrective as Corrective
from bidual.loop.explorers._base import PlanMixture as PlanMixture
from bidual.loop.explorers._bonus import CountBonus as CountBonus
from bidual.loop.explorers._bonus import Hoeffding as Hoeffding
from bidual.loop.explorers._controls import ControlPlans as ControlPlans
from bidual.loop.explorers._controls import Controls as Controls
from bidual.loop.explorers._controls import TurnState as TurnState
from bidual.loop.explorers._explorers import Alternating as Alternating
from bidual.loop.explorers._explorers import EpsilonGreedy as EpsilonGreedy
from bidual.loop.explorers._explorers import Greedy as Greedy
from bidual.loop.explorers._explorers import Optimistic as Optimistic
from bidual.loop.explorers._explorers import Thompson as Thompson
from bidual.loop.explorers._linearised import Average as Average
from bidual.loop.explorers._linearised import Linearised as Linearised
from bidual.loop.explorers._replanning import AbstractReplanning as AbstractReplanning
from bidual.loop.explorers._replanning import Always as Always
from bidual.loop.explorers._replanning import Growth as Growth
from bidual.loop.explorers._replanning import PlanOrigin as PlanOrigin
from bidual.loop.explorers._replanning import ReplanState as ReplanState
from bidual.loop.explorers._steps import DualSteps as DualSteps
from bidual.loop.explorers._steps import PrimalDual as PrimalDual

__all__ = [
    "AbstractExplorer",
    "AbstractInner",
    "AbstractReplanning",
    "Alternating",
    "Always",
    "Choice",
    "Controls",
    "Corrective",
    "EpsilonGreedy",
    "Greedy",
    "Growth",
    "Hoeffding",
    "Linearised",
    "Optimistic",
    "PrimalDual",
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
