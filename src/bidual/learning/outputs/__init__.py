"""Outputs of learning: policies from the learned model, bounds in the final confidence set, estimates from episodes."""

from bidual.certificate import Estimates as Estimates
from bidual.learning.outputs._bound import DualBound as DualBound
from bidual.learning.outputs._bound import FinalBound as FinalBound
from bidual.learning.outputs._certainty import CertaintyEquivalent as CertaintyEquivalent
from bidual.learning.outputs._certainty import ReturnedPolicy as ReturnedPolicy
from bidual.learning.outputs._functionals import Corners as Corners
from bidual.learning.outputs._functionals import Functionals as Functionals
from bidual.learning.outputs._functionals import corners as corners
from bidual.learning.outputs._functionals import estimate_executed as estimate_executed
from bidual.learning.outputs._functionals import estimate_in_model as estimate_in_model
from bidual.learning.outputs._functionals import estimate_policy as estimate_policy
from bidual.learning.outputs._functionals import fresh_episodes as fresh_episodes
from bidual.learning.outputs._functionals import functionals as functionals
from bidual.learning.outputs._functionals import spans_of as spans_of
from bidual.learning.outputs._regret import Regret as Regret
from bidual.learning.outputs._regret import regret_of as regret_of
from bidual.learning.outputs._regulated import Regulated as Regulated
from bidual.learning.outputs._samples import Payments as Payments
from bidual.learning.outputs._samples import Sums as Sums
from bidual.learning.outputs._samples import mean_embedding as mean_embedding

# Classes of stored states, by their names in files, which never change.
STORED = {
    "Shown": DualBound,
    "Sums": Sums,
}
