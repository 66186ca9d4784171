"""Planning for vector states under controls: optimism, search, execution, and the embeddings of plans by rollouts."""

from bidual.planners.control._cheapest import Cheapest
from bidual.planners.control._descent import Descent
from bidual.planners.control._describe import Given
from bidual.planners.control._execution import AbstractExecution, Feedback, Mpc, OpenLoop, PlannedControls, law_of
from bidual.planners.control._files import MALFORMED, read_control, read_controller, read_controls
from bidual.planners.control._optimism import AbstractOptimism, BestOf, Bonus, Hallucinated, Mean
from bidual.planners.control._optimism import PosteriorSample as Thompson
from bidual.planners.control._planner import Among, CheapestAmong, ControlSequence, Regulator
from bidual.planners.control._receding import Receding
from bidual.planners.control._relaxation import RiccatiOptimist, find_dither, lower_bound
from bidual.planners.control._riccati import LinearQuadratic, RiccatiLaws, expected, linear_quadratic
from bidual.planners.control._rollouts import AbstractLaw, embedding
from bidual.planners.control._sampling import Elites, Exponential, Sampling, cem, dmd, icem, mppi
from bidual.planners.control._search import AbstractSearch, Chain, Subproblem

__all__ = [
    "AbstractExecution",
    "AbstractLaw",
    "AbstractOptimism",
    "AbstractSearch",
    "BestOf",
    "Bonus",
    "Chain",
    "Cheapest",
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
    "PlannedControls",
    "Regulator",
    "Sampling",
    "Subproblem",
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
