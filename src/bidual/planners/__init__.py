"""Planners: the cheapest policy for a linear cost."""

from bidual.planners._backward_induction import BackwardInduction
from bidual.planners._base import AbstractPlanner, AbstractSoftPlanner, Plan
from bidual.planners._class_search import ClassSearch
from bidual.planners._extended_value_iteration import ExtendedValueIteration
from bidual.planners._policy_iteration import PolicyIteration
from bidual.planners._sparse_induction import SparseInduction, choose_exact_planner
from bidual.planners._totals import Totals, can_carry, is_large, lay_out_totals
from bidual.planners._unseen import UnseenOptimism, choose_optimistic_planner

__all__ = [
    "AbstractPlanner",
    "AbstractSoftPlanner",
    "BackwardInduction",
    "ClassSearch",
    "ExtendedValueIteration",
    "Plan",
    "PolicyIteration",
    "SparseInduction",
    "UnseenOptimism",
]
