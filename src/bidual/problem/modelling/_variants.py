"""Problems derived from another by opening, dropping or optimising one of its constraints."""

import cvxpy as cp
import numpy as np

from bidual.problem.modelling._limits import Limit
from bidual.problem.modelling._problem import Problem


def open_limit(problem: Problem, limit: Limit) -> tuple[Problem, cp.Parameter]:
    """Replace a limit by a parameter; return the problem and that parameter."""
    level = cp.Parameter(name=f"limit of {limit.name}", value=0.0)
    sides: dict[str, cp.Constraint | bool] = {
        "<=": limit.value <= level,
        ">=": limit.value >= level,
        "==": limit.value == level,
    }
    constraints: dict[str, cp.Constraint | bool] = {**problem.constraints, limit.name: sides[limit.sense]}
    return Problem(problem.objective, constraints), level


def drop_limit(problem: Problem, limit: Limit) -> Problem:
    """Return the problem without the constraint."""
    objective, others = problem.objective, _select_others(problem, limit)
    mentioned = {v.id for part in (objective, *others.values()) for v in part.variables()}
    if problem.embedding.id not in mentioned:
        # Any policy is optimal; a problem must still mention its embedding.
        objective = type(objective)(objective.expr + 0 * cp.sum(problem.embedding))
    return Problem(objective, others)


def optimise_limit(problem: Problem, limit: Limit, direction: float) -> Problem:
    """Return the problem of minimising (direction 1) or maximising (-1) the left side under the other constraints."""
    return Problem(cp.Minimize(direction * cp.sum(limit.value)), _select_others(problem, limit))


def tighten_limits(problem: Problem) -> tuple[Problem, dict[str, cp.Parameter]]:
    """Add a parameter to every inequality that tightens its limit; return the problem and these by constraint."""
    constraints: dict[str, cp.Constraint | bool] = dict(problem.constraints)
    parameters = {}
    for limit in problem.limits:
        if limit.sense == "==" or limit.name not in constraints:
            continue
        room = cp.Parameter(limit.shape, name=f"tightening of {limit.name}", value=np.zeros(limit.shape))
        parameters[limit.name] = room
        constraints[limit.name] = (
            limit.value + room <= limit.limit if limit.sense == "<=" else limit.value - room >= limit.limit
        )
    return Problem(problem.objective, constraints), parameters


def extract_linear_part(problem: Problem) -> tuple[Problem, list[str]] | None:
    """Return the problem without its curved parts, and the names of the other constraints; None if nothing remains."""
    x = problem.embedding
    straight = {
        limit.name: problem.constraints[limit.name]
        for limit in problem.limits
        if limit.name in problem.constraints and _is_linear_in(limit.value, x)
    }
    objective = problem.objective
    if not _is_linear_in(objective.expr, x):
        objective = type(objective)(0 * cp.sum(x))
    elif not straight:
        return Problem(objective), []
    return (Problem(objective, dict(straight)), list(straight)) if straight else None


def _is_linear_in(expression: cp.Expression, x: cp.Variable) -> bool:
    """Return whether an expression is affine in x alone; compared by id, for == between variables is a constraint."""
    return expression.is_affine() and [variable.id for variable in expression.variables()] == [x.id]


def _select_others(problem: Problem, limit: Limit) -> dict[str, cp.Constraint]:
    return {name: constraint for name, constraint in problem.constraints.items() if name != limit.name}
