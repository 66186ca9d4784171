"""What learning gives: policies made from what is known, bounds in the final set, estimates from episodes."""

from bidual.certificate import Estimates as Estimates
from bidual.outputs._bound import FinalBound as FinalBound
from bidual.outputs._bound import Shown as Shown
from bidual.outputs._certainty import CertaintyEquivalent as CertaintyEquivalent
from bidual.outputs._certainty import Made as Made
from bidual.outputs._corners import Corners as Corners
from bidual.outputs._corners import corners as corners
from bidual.outputs._estimates import evaluated as evaluated
from bidual.outputs._estimates import executed as executed
from bidual.outputs._estimates import fresh_episodes as fresh_episodes
from bidual.outputs._estimates import in_model as in_model
from bidual.outputs._estimates import spans_of as spans_of
from bidual.outputs._functionals import Functionals as Functionals
from bidual.outputs._functionals import functionals as functionals
from bidual.outputs._regret import Regret as Regret
from bidual.outputs._regret import regret_of as regret_of
from bidual.outputs._regulated import Regulated as Regulated
from bidual.outputs._samples import Payments as Payments
from bidual.outputs._samples import mean_embedding as mean_embedding
from bidual.outputs._sums import Sums as Sums
