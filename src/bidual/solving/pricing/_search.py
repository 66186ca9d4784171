"""Certification of searches along a family: one by one, or for linear problems all at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bidual._base.status import Status
from bidual.certificate import MixtureBounds, Mixtures, certify_mixtures, to_user_sense
from bidual.certificate.constraints import Goal
from bidual.planners import Plan
from bidual.problem.convex import AffineProgram
from bidual.problem.modelling import Limit
from bidual.solving.pricing._family import AbstractFamily, ConicFamily, LinearFamily
from bidual.solving.result import build_solution
from bidual.solving.search import CompiledProblem, Instance, Search


class Point(NamedTuple):
    """The certified result at one limit, in the user's sense; None for values that are not proved."""

    status: Status
    lower: float | None
    upper: float | None
    price: float | None
    value: float | None  # of the constraint's left side
    plans: int


class CurveSearch(NamedTuple):
    """A search of a family: at a limit, or without the constraint."""

    level: float | None
    found: Search


def certify_searches(family: AbstractFamily, world: Instance, tried: Sequence[CurveSearch], goal: Goal) -> list[Point]:
    """Certify the searches, in their order."""
    linear = isinstance(family, LinearFamily) and world.mdp.criterion is None
    together = [linear and t.found.duals.feasible for t in tried]
    points = _certify_together(family, world, [t for t, yes in zip(tried, together, strict=True) if yes], goal)
    return [
        points.pop(0) if yes else _certify_alone(family, world, t, goal) for t, yes in zip(tried, together, strict=True)
    ]


def enclose(compiled: CompiledProblem, world: Instance, found: Search) -> tuple[float, float] | None:
    """Compute bounds on the optimum of a minimisation, lower and upper; None unless both are proved."""
    program = compiled.program.linear
    if program is not None and found.duals.feasible and world.mdp.criterion is None:
        mixture_bounds = _certify(world, program, [found], program.limits[None], found.duals.optimum.gamma[None])
        feasible = bool(np.all(mixture_bounds.violations_upper <= program.tolerances))
        bounds = to_user_sense(
            float(mixture_bounds.lower[0]), float(mixture_bounds.upper[0]) if feasible else None, maximises=False
        )
    else:
        solution = build_solution(compiled, world, found, Goal(np.inf, False))
        bounds = solution.lower, solution.upper
    return None if bounds[0] is None or bounds[1] is None else (bounds[0], bounds[1])


def _certify_alone(family: AbstractFamily, world: Instance, tried: CurveSearch, goal: Goal) -> Point:
    compiled = family.without() if tried.level is None else family.at(tried.level)
    solution = build_solution(compiled, world, tried.found, goal)
    if tried.level is None:
        value = _evaluate_free(family, solution.embedding)
        return Point(solution.status, solution.lower, solution.upper, 0.0, value, solution.plans)
    result = solution.constraint(family.name)
    return Point(solution.status, solution.lower, solution.upper, result.price, result.value, solution.plans)


def _certify_together(family: AbstractFamily, world: Instance, tried: Sequence[CurveSearch], goal: Goal) -> list[Point]:
    """Certify searches of linear problems: every plan is evaluated once, and all costs are minimised in one pass."""
    if not tried or not isinstance(family, LinearFamily):
        return []
    m = family.others.size
    gamma, limits, tolerances = np.zeros((len(tried), m)), np.zeros((len(tried), m)), np.full((len(tried), m), np.inf)
    for i, (level, found) in enumerate(tried):
        program = family.program if level is None else family.member(level)
        active = family.others if level is None else np.ones(m, dtype=bool)
        gamma[i, active], limits[i] = found.duals.optimum.gamma, program.limits
        tolerances[i, active] = program.tolerances[active]
    mixture_bounds = _certify(world, family.program, [t.found for t in tried], limits, gamma)
    feasible = np.all(mixture_bounds.violations_upper <= tolerances, axis=1)
    values = family.line.sign * (mixture_bounds.g + limits)[:, family.row] + family.line.sign * family.constant
    signs = family.line.sign if family.line.sense == "==" else 1.0
    maximises = family.without().maximises
    points = []
    for i, t in enumerate(tried):
        bounds = float(mixture_bounds.lower[i]), float(mixture_bounds.upper[i]) if feasible[i] else None
        status = _find_status(*bounds, goal)
        price = signs * float(gamma[i, family.row]) if status is Status.OPTIMAL else None
        points.append(
            Point(status, *to_user_sense(*bounds, maximises=maximises), price, float(values[i]), t.found.plans)
        )
    return points


def _find_status(lower: float, upper: float | None, goal: Goal) -> Status:
    if upper is None:
        return Status.UNDECIDED
    return Status.OPTIMAL if goal.is_met(lower, upper) else Status.FEASIBLE


def _certify(
    world: Instance, program: AffineProgram, found: Sequence[Search], limits: np.ndarray, gamma: np.ndarray
) -> MixtureBounds:
    """Certify the mixtures of all searches over the plans that any of them uses."""
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


def _evaluate_free(family: AbstractFamily, embedding: np.ndarray) -> float | None:
    """Evaluate the left side of the constraint that was left out."""
    if isinstance(family, ConicFamily):
        return _evaluate_left_side(family.limit, embedding)
    if isinstance(family, LinearFamily) and embedding.shape == family.program.rows.shape[1:]:
        return family.line.sign * (float(np.vdot(family.program.rows[family.row], embedding)) + family.constant)
    return None


def _evaluate_left_side(limit: Limit, embedding: np.ndarray) -> float | None:
    """Evaluate the left side by CVXPY; None where it depends on other variables too."""
    variables = limit.value.variables()
    if len(variables) != 1:
        return None
    variables[0].value, before = embedding, variables[0].value
    value = limit.value.value
    variables[0].value = before
    return None if value is None else float(np.sum(value))
