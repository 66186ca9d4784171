"""Which policy next, while a model is being learned?"""

from bidual.explorers._base import AbstractExplorer as AbstractExplorer
from bidual.explorers._base import Choice as Choice
from bidual.explorers._bonus import Hoeffding as Hoeffding
from bidual.explorers._controls import Controlled as Controlled
from bidual.explorers._controls import Controls as Controls
from bidual.explorers._explorers import Alternating as Alternating
from bidual.explorers._explorers import EpsilonGreedy as EpsilonGreedy
from bidual.explorers._explorers import Greedy as Greedy
from bidual.explorers._explorers import Optimistic as Optimistic
from bidual.explorers._explorers import Thompson as Thompson
from bidual.explorers._inner import AbstractInner as AbstractInner
from bidual.explorers._inner import Corrective as Corrective
from bidual.explorers._inner import Mixed as Mixed
from bidual.explorers._linearised import Linearised as Linearised
from bidual.explorers._replanning import AbstractReplanning as AbstractReplanning
from bidual.explorers._replanning import Always as Always
from bidual.explorers._replanning import Growth as Growth
from bidual.explorers._replanning import Planned as Planned
from bidual.explorers._steps import PrimalDual as PrimalDual
