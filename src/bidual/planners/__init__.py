"""The cheapest policy for a linear cost."""

from bidual.planners._backward_induction import BackwardInduction as BackwardInduction
from bidual.planners._base import AbstractPlanner as AbstractPlanner
from bidual.planners._base import AbstractSoftPlanner as AbstractSoftPlanner
from bidual.planners._base import Plan as Plan
from bidual.planners._extended_value_iteration import ExtendedValueIteration as ExtendedValueIteration
