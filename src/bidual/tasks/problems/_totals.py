"""Problems over the expected totals of a few signals: rewards, costs, goods of several groups."""

from collections.abc import Callable, Mapping

import cvxpy as cp
import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.modelling import Problem
from bidual.tasks.problems._declare import AnySignal, Limits, Number, Written, check_named, declare, is_number, merge
from bidual.tasks.problems._sources import Source

Of = Callable[[cp.Expression], cp.Expression | Number]
Limited = Callable[[cp.Expression], cp.Expression | Written]


def constrained(mdp: Source, objective: AnySignal, limits: Limits | None = None, *, maximise: bool = True) -> Problem:
    """The classic constrained problem: as much reward as possible within budgets.

    ``constrained(mdp, reward, {"damage": (damage, 0.1), "served": (served, ">=", 3)})``

    Args:
        mdp: the model, an environment or an embedding, as the module says.
        objective: the signal whose expected total counts, ``x.objective`` in the embedding.
        limits: the constraints by name, as the module says.
        maximise: False to minimise instead.
    """
    declared = declare(mdp, {"objective": objective}, limits)
    return Problem(_optimise(declared.quantities.total("objective"), maximise), declared.constraints)


def multi_objective(
    mdp: Source,
    h1: Of,
    h2: Limited | Mapping[str, Limited] | None = None,
    *,
    maximise: bool = False,
    limits: Limits | None = None,
    **signals: AnySignal,
) -> Problem:
    """Several objectives: minimise h1 of the expected totals subject to h2 of them at most 0.

    ``multi_objective(mdp, lambda y: cp.norm(y - [5, 1]), lambda y: y[1] - y[0], reward=reward, effort=effort)``

    Args:
        mdp: the model, an environment or an embedding, as the module says.
        h1: a convex function of the vector of totals, in the order of `signals`.
        h2: what must be at most 0: one such function, whose constraint is called "h2", or several by name. A function
            may also give a constraint: ``lambda y: y[0] >= 2``.
        maximise: True to maximise a concave h1 instead.
        limits: further constraints by name, as the module says.
        **signals: the signals by name.
    """
    if not signals:
        raise ProblemError("multi_objective needs at least one signal by name, for example reward=r, effort=e")
    declared = declare(mdp, signals, limits)
    y = declared.quantities.totals(tuple(signals))
    objective = _optimise(_require_scalar(_call("h1", h1, y)), maximise)
    names = tuple(declared.quantities.parts[name] for name in signals)
    return Problem(objective, merge(_read_limited(h2, y), declared.constraints), totals=names)


def fair(
    mdp: Source,
    groups: Mapping[str, AnySignal],
    *,
    weights: Mapping[str, Number] | None = None,
    limits: Limits | None = None,
) -> Problem:
    """Fairness: maximise the expected total of the group that is worst off.

    ``fair(mdp, {"north": reward_north, "south": reward_south})``

    Args:
        mdp: the model, an environment or an embedding, as the module says.
        groups: the reward of each group, a signal by name.
        weights: a positive number for each group, by which its total is multiplied; 1 by default.
        limits: the constraints by name, as the module says.
    """
    check_named("groups", groups)
    if not groups:
        raise ProblemError('fair needs at least one group, for example {"north": reward_north}')
    declared = declare(mdp, groups, limits)
    totals = declared.quantities.totals(tuple(groups))
    worst = cp.min(cp.multiply(_check_weights(groups, weights), totals))
    names = tuple(declared.quantities.parts[name] for name in groups)
    return Problem(cp.Maximize(worst), declared.constraints, totals=names)


def _optimise(expression: cp.Expression, maximise: bool) -> cp.Minimize | cp.Maximize:
    if not isinstance(maximise, bool):
        raise ProblemError(f"maximise is True or False; got {maximise!r}")
    return cp.Maximize(expression) if maximise else cp.Minimize(expression)


def _call(what: str, function: Of | Limited, y: cp.Expression) -> cp.Expression | Written | Number:
    if not callable(function):
        raise ProblemError(
            f"{what} must be a function of the vector of totals, for example lambda y: cp.norm(y); "
            f"got {type(function).__name__}"
        )
    return function(y)


def _require_scalar(value: object) -> cp.Expression:
    if is_number(value):
        return cp.Constant(value)
    if not isinstance(value, cp.Expression):
        raise ProblemError(f"h1 must give a CVXPY expression of the totals; got {type(value).__name__}")
    if value.size != 1:
        raise ProblemError(f"h1 must give one number; got shape {value.shape}: take its norm, its maximum or its sum")
    return value


def _read_limited(h2: Limited | Mapping[str, Limited] | None, y: cp.Expression) -> dict[str, Written]:
    if h2 is None:
        return {}
    if not isinstance(h2, Mapping):
        h2 = {"h2": h2}
    check_named("h2", h2)
    return {name: _require_at_most_zero(name, _call(f"h2 {name!r}", function, y)) for name, function in h2.items()}


def _require_at_most_zero(name: str, value: cp.Expression | Written | Number) -> Written:
    if isinstance(value, cp.Constraint):
        return value
    if not isinstance(value, cp.Expression):
        raise ProblemError(f"h2 {name!r} must give a CVXPY expression of the totals; got {value!r}")
    return value <= 0


def _check_weights(
    groups: Mapping[str, AnySignal], weights: Mapping[str, Number] | None
) -> Float[np.ndarray, "groups"]:
    """Return the weights of the groups, 1 where none are given."""
    if weights is None:
        return np.ones(len(groups))
    check_named("weights", weights)
    if set(weights) != set(groups):
        odd = sorted(set(weights) ^ set(groups))[0]
        raise ProblemError(f"weights must have one number for each of {', '.join(groups)}; look at {odd!r}")
    for name, weight in weights.items():
        if not (is_number(weight) and 0 < weight < np.inf):
            raise ProblemError(f"the weight of {name!r} must be a positive number; got {weight!r}")
    return np.array([float(weights[name]) for name in groups])
