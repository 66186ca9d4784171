"""Plans for vectors under controls: what to hope for, how to plan, how to act."""

from bidual.control._optimism import AbstractOptimism as AbstractOptimism
from bidual.control._optimism import BestOf as BestOf
from bidual.control._optimism import Bonus as Bonus
from bidual.control._optimism import Hallucinated as Hallucinated
from bidual.control._optimism import Mean as Mean
from bidual.control._optimism import Thompson as Thompson
