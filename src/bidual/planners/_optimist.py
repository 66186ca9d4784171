"""Which planner goes with what may be true."""

from typing import Any

from bidual.models import Plausible, Rectangular
from bidual.planners._base import AbstractPlanner
from bidual.planners._class_search import ClassSearch
from bidual.planners._extended_value_iteration import ExtendedValueIteration


def optimist(model: Rectangular | Plausible, nodes: int = 0) -> AbstractPlanner[Any]:
    """The optimistic planner for a model; `nodes` is how long to search where the minimum is hard."""
    return ClassSearch(nodes) if isinstance(model, Plausible) else ExtendedValueIteration()
