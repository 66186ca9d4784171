"""Planners: the cheapest policy for a linear cost."""

from bidual.planners._backward_induction import BackwardInduction as BackwardInduction
from bidual.planners._base import AbstractPlanner as AbstractPlanner
from bidual.planners._base import AbstractSoftPlanner as AbstractSoftPlanner
from bidual.planners._base import Plan as Plan
from bidual.planners._class_search import ClassSearch as ClassSearch
from bidual.planners._extended_value_iteration import ExtendedValueIteration as ExtendedValueIteration
from bidual.planners._unseen import UnseenOptimism as UnseenOptimism
from bidual.planners._unseen import optimistic_planner_for as optimistic_planner_for

__all__ = [
    "AbstractPlanner",
    "AbstractSoftPlanner",
    "BackwardInduction",
    "ClassSearch",
    "ExtendedValueIteration",
    "Plan",
    "UnseenOptimism",
]
