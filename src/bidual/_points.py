"""What searches along a family have shown: one by one, or for linear problems all at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bidual._conclude import conclude
from bidual._families import AbstractFamily, Cones, Rows
from bidual._search import Search, Stated, World
from bidual._status import Status
from bidual.certificate import MixtureBounds, Mixtures, certify_mixtures, users_bounds
from bidual.constraints import Goal
from bidual.convex import AffineProgram
from bidual.planners import Plan
from bidual.problem import Limit


class Point(NamedTuple):
    """What was shown at one limit, in the user's sense; None for what was not."""

    status: Status
    lower: float | None
    upper: float | None
    price: float | None
    value: float | None  # of the constraint's left side
    plans: int


class Tried(NamedTuple):
    """A search of a family: at a limit, or without the constraint."""

    level: float | None
    found: Search


def certified(family: AbstractFamily, world: World, tried: Sequence[Tried], goal: Goal) -> list[Point]:
    """What the searches have shown, in their order."""
    together = [isinstance(family, Rows) and t.found.duals.feasible for t in tried]
    points = _together(family, world, [t for t, yes in zip(tried, together, strict=True) if yes], goal)
    return [points.pop(0) if yes else _alone(family, world, t, goal) for t, yes in zip(tried, together, strict=True)]


def enclosed(stated: Stated, world: World, found: Search) -> tuple[float, float] | None:
    """Bounds on the optimum of a minimisation, lower and upper, if both were shown."""
    program = stated.program
    if isinstance(program, AffineProgram) and found.duals.feasible:
        shown = _certify(world, program, [found], program.limits[None], found.duals.optimum.gamma[None])
        feasible = bool(np.all(shown.violations_upper <= program.tolerances))
        bounds = users_bounds(float(shown.lower[0]), float(shown.upper[0]) if feasible else None, maximises=False)
    else:
        solution = conclude(stated, world, found, Goal(np.inf, False))
        bounds = solution.lower, solution.upper
    return None if bounds[0] is None or bounds[1] is None else (bounds[0], bounds[1])


def _alone(family: AbstractFamily, world: World, tried: Tried, goal: Goal) -> Point:
    stated = family.without() if tried.level is None else family.at(tried.level)
    solution = conclude(stated, world, tried.found, goal)
    if tried.level is None:
        value = _left_side(family.limit, solution.embedding) if isinstance(family, Cones) else None
        return Point(solution.status, solution.lower, solution.upper, 0.0, value, solution.plans)
    result = solution.constraint(family.name)
    return Point(solution.status, solution.lower, solution.upper, result.price, result.value, solution.plans)


def _together(family: AbstractFamily, world: World, tried: Sequence[Tried], goal: Goal) -> list[Point]:
    """Linear problems: every plan is evaluated once, and all costs are minimised in one pass."""
    if not tried or not isinstance(family, Rows):
        return []
    m = family.others.size
    gamma, limits, tolerances = np.zeros((len(tried), m)), np.zeros((len(tried), m)), np.full((len(tried), m), np.inf)
    for i, (level, found) in enumerate(tried):
        program = family.program if level is None else family.member(level)
        held = family.others if level is None else np.ones(m, dtype=bool)
        gamma[i, held], limits[i] = found.duals.optimum.gamma, program.limits
        tolerances[i, held] = program.tolerances[held]
    shown = _certify(world, family.program, [t.found for t in tried], limits, gamma)
    feasible = np.all(shown.violations_upper <= tolerances, axis=1)
    values = family.line.sign * (shown.g + limits)[:, family.row] + family.line.sign * family.constant
    signs = family.line.sign if family.line.sense == "==" else 1.0
    maximises = family.without().maximises
    points = []
    for i, t in enumerate(tried):
        bounds = float(shown.lower[i]), float(shown.upper[i]) if feasible[i] else None
        status = _status(*bounds, goal)
        price = signs * float(gamma[i, family.row]) if status is Status.OPTIMAL else None
        points.append(
            Point(status, *users_bounds(*bounds, maximises=maximises), price, float(values[i]), t.found.plans)
        )
    return points


def _status(lower: float, upper: float | None, goal: Goal) -> Status:
    if upper is None:
        return Status.UNDECIDED
    return Status.OPTIMAL if goal.met(lower, upper) else Status.FEASIBLE


def _certify(
    world: World, program: AffineProgram, found: Sequence[Search], limits: np.ndarray, gamma: np.ndarray
) -> MixtureBounds:
    """The mixtures over all plans that any of them uses."""
    plans: dict[int, tuple[int, Plan]] = {}
    for search in found:
        for i in np.flatnonzero(search.duals.weights):
            reply = search.replies[i]
            assert reply is not None  # a plan with weight is kept
            plans.setdefault(id(reply), (len(plans), reply.plan))
    weights = np.zeros((len(found), len(plans)))
    for row, search in zip(weights, found, strict=True):
        for i in np.flatnonzero(search.duals.weights):
            row[plans[id(search.replies[i])][0]] += search.duals.weights[i]
    used = [plan for _, plan in plans.values()]
    actions = [plan.actions for plan in used if plan.actions is not None]  # linear problems have no soft plans
    return certify_mixtures(
        Mixtures(
            program=program,
            psi=world.psi,
            mdp=world.mdp,
            actions=np.stack([world.model.policy(one).actions for one in actions]),
            embeddings=np.stack([plan.embedding for plan in used]),
            weights=weights,
            limits=limits,
            gamma=gamma,
        )
    )


def _left_side(limit: Limit, embedding: np.ndarray) -> float | None:
    """The left side as CVXPY evaluates it; None where it depends on other variables too."""
    variables = limit.value.variables()
    if len(variables) != 1:
        return None
    variables[0].value, before = embedding, variables[0].value
    value = limit.value.value
    variables[0].value = before
    return None if value is None else float(np.sum(value))
