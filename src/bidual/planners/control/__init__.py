"""Planning for vector states under controls: optimism, search, execution, and the embeddings of plans by rollouts."""

from bidual.planners.control._descent import Descent as Descent
from bidual.planners.control._describe import Given as Given
from bidual.planners.control._execution import AbstractExecution as AbstractExecution
from bidual.planners.control._execution import Feedback as Feedback
from bidual.planners.control._execution import Mpc as Mpc
from bidual.planners.control._execution import OpenLoop as OpenLoop
from bidual.planners.control._execution import law_of as law_of
from bidual.planners.control._files import MALFORMED as MALFORMED
from bidual.planners.control._files import read_control as read_control
from bidual.planners.control._files import read_controller as read_controller
from bidual.planners.control._files import read_controls as read_controls
from bidual.planners.control._optimism import AbstractOptimism as AbstractOptimism
from bidual.planners.control._optimism import BestOf as BestOf
from bidual.planners.control._optimism import Bonus as Bonus
from bidual.planners.control._optimism import Hallucinated as Hallucinated
from bidual.planners.control._optimism import Mean as Mean
from bidual.planners.control._optimism import PosteriorSample as Thompson
from bidual.planners.control._planner import Among as Among
from bidual.planners.control._planner import CheapestAmong as CheapestAmong
from bidual.planners.control._planner import ControlSequence as ControlSequence
from bidual.planners.control._planner import Regulator as Regulator
from bidual.planners.control._receding import Receding as Receding
from bidual.planners.control._relaxation import RiccatiOptimist as RiccatiOptimist
from bidual.planners.control._relaxation import lower_bound as lower_bound
from bidual.planners.control._riccati import LinearQuadratic as LinearQuadratic
from bidual.planners.control._riccati import RiccatiLaws as RiccatiLaws
from bidual.planners.control._riccati import expected as expected
from bidual.planners.control._riccati import linear_quadratic as linear_quadratic
from bidual.planners.control._rollouts import AbstractLaw as AbstractLaw
from bidual.planners.control._rollouts import embedding as embedding
from bidual.planners.control._sampling import Elites as Elites
from bidual.planners.control._sampling import Exponential as Exponential
from bidual.planners.control._sampling import Sampling as Sampling
from bidual.planners.control._sampling import cem as cem
from bidual.planners.control._sampling import dmd as dmd
from bidual.planners.control._sampling import icem as icem
from bidual.planners.control._sampling import mppi as mppi
from bidual.planners.control._search import AbstractSearch as AbstractSearch
from bidual.planners.control._search import Chain as Chain

__all__ = [
    "AbstractExecution",
    "AbstractLaw",
    "AbstractOptimism",
    "AbstractSearch",
    "BestOf",
    "Bonus",
    "Chain",
    "Descent",
    "Elites",
    "Exponential",
    "Feedback",
    "Given",
    "Hallucinated",
    "LinearQuadratic",
    "Mean",
    "Mpc",
    "OpenLoop",
    "Regulator",
    "Sampling",
    "Thompson",
    "cem",
    "dmd",
    "embedding",
    "expected",
    "icem",
    "law_of",
    "linear_quadratic",
    "lower_bound",
    "mppi",
    "read_controller",
    "read_controls",
]
