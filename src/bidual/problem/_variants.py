"""Problems made from another by opening, dropping or optimising one of its constraints."""

import cvxpy as cp

from bidual.problem._limits import Limit
from bidual.problem._problem import Problem


def opened(problem: Problem, limit: Limit) -> tuple[Problem, cp.Parameter]:
    """The problem with a parameter in place of a limit, and that parameter."""
    level = cp.Parameter(name=f"limit of {limit.name}", value=0.0)
    sides: dict[str, cp.Constraint | bool] = {
        "<=": limit.value <= level,
        ">=": limit.value >= level,
        "==": limit.value == level,
    }
    constraints: dict[str, cp.Constraint | bool] = {**problem.constraints, limit.name: sides[limit.sense]}
    return Problem(problem.objective, constraints), level


def dropped(problem: Problem, limit: Limit) -> Problem:
    """The problem without the constraint."""
    objective, others = problem.objective, _others(problem, limit)
    mentioned = {v.id for part in (objective, *others.values()) for v in part.variables()}
    if problem.embedding.id not in mentioned:
        # Any policy will do; a problem must still say over which embedding it is.
        objective = type(objective)(objective.expr + 0 * cp.sum(problem.embedding))
    return Problem(objective, others)


def pushed(problem: Problem, limit: Limit, direction: float) -> Problem:
    """The left side itself, to be made as small (direction 1) or as large (-1) as the other constraints allow."""
    return Problem(cp.Minimize(direction * cp.sum(limit.value)), _others(problem, limit))


def _others(problem: Problem, limit: Limit) -> dict[str, cp.Constraint]:
    return {name: constraint for name, constraint in problem.constraints.items() if name != limit.name}
