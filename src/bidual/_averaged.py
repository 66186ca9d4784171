"""Solving with the paper's dual players, which need a bound on the multipliers and a point to repair mixtures with."""

from dataclasses import replace

import numpy as np

from bidual._conclude import conclude
from bidual._effort import Effort
from bidual._search import Stated, World, search
from bidual._slater import Slater, slater
from bidual._status import Status
from bidual.convex import AffineProgram, ConvexProgram, SlaterPoint, VariationalProgram
from bidual.dual import FollowTheLeader, GradientAscent, Reply
from bidual.problem import Problem, variational
from bidual.solution import Solution

# Steps are as long as Gamma is large, and the rule of the Slater point is often ten times too cautious: start below
# it, and double where the multipliers ask for more (those of equalities, which no such point bounds, included). Where
# there is no such point, start from 1.
_SMALLER = 1 / 8


def averaged(
    problem: Problem, program: AffineProgram | ConvexProgram, world: World, effort: Effort, started: float
) -> Solution:
    """Look for a Slater point, take Gamma from it, and run the loop from there.

    Where the constraints clash there is nothing to average: the corrective player shows that they do. Plans made for
    the Slater point and for the ranges of images are not counted among the plans of the loop.
    """
    dual = effort.dual
    assert isinstance(dual, GradientAscent | FollowTheLeader)  # the caller has looked
    planner = effort.best_planner()
    functions = variational(program, world.psi, lambda theta: planner(world.model, world.layout, theta).lower)
    point = slater(problem, world.mdp, time_limit=effort.time_limit)
    stated = Stated(program, problem.lines(), problem.maximises, problem.embedding.total)
    if point.status is Status.INFEASIBLE:
        effort = replace(effort, dual=None)
        return conclude(stated, world, search(stated, world, effort, (), started), effort.goal, effort.planner)
    if dual.Gamma is None:
        dual = replace(dual, Gamma=1.0 if point.Gamma is None else _SMALLER * point.Gamma, doubling=True)
    functions, known = _with_point(functions, point)
    effort = replace(effort, dual=dual)
    stated = stated._replace(variational=functions)
    return conclude(stated, world, search(stated, world, effort, known, started), effort.goal, effort.planner)


def _with_point(functions: VariationalProgram, point: Slater) -> tuple[VariationalProgram, tuple[Reply, ...]]:
    """The plans of the Slater point as known ones, and their weights."""
    if point.found is None or point.room is None:
        return functions, ()
    used = np.flatnonzero(point.found.duals.weights)
    replies = tuple(reply for i in used if (reply := point.found.replies[i]) is not None)
    weights = point.found.duals.weights[used]
    return replace(functions, slater=SlaterPoint(weights / weights.sum(), point.room)), replies
