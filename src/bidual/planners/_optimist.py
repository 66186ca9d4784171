"""The choice of the optimistic planner for a model."""

from typing import Any

from bidual.models import Latents, Plausible, Rectangular
from bidual.planners._base import AbstractPlanner
from bidual.planners._class_search import ClassSearch
from bidual.planners._extended_value_iteration import ExtendedValueIteration
from bidual.planners._unseen import UnseenOptimism


def optimistic_planner_for(model: Rectangular | Plausible | Latents, nodes: int = 0) -> AbstractPlanner[Any]:
    """Return the optimistic planner for a model; `nodes` limits the search where the minimum is hard."""
    if isinstance(model, Latents):
        return UnseenOptimism()
    return ClassSearch(nodes) if isinstance(model, Plausible) else ExtendedValueIteration()
