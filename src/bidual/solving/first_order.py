"""Solving with the paper's dual players, which need a bound on the multipliers and a point to repair mixtures."""

import math
from dataclasses import replace

import numpy as np

from bidual._base.status import Status
from bidual.dual import FollowTheLeader, GradientAscent, Reply
from bidual.planners import BackwardInduction
from bidual.problem.convex import AbstractProgram, SlaterPoint, VariationalProgram
from bidual.problem.modelling import Problem, make_variational
from bidual.solving.options import SolveOptions
from bidual.solving.result import build_mixture, build_solution
from bidual.solving.search import CompiledProblem, Instance, Search, search
from bidual.solving.slater import Slater, slater
from bidual.solving.solution import Solution
from bidual.world.policies import collapse
from bidual.world.policies import embedding as embedding_of

# Steps are proportional to Gamma, and the rule of the Slater point is often ten times too cautious: start below
# it, and double where the multipliers ask for more (those of equalities, which no such point bounds, included). Where
# there is no such point, start from 1.
_SMALLER = 1 / 8


def solve_first_order(
    problem: Problem, program: AbstractProgram, world: Instance, options: SolveOptions, started: float
) -> Solution:
    """Search for a Slater point, take Gamma from it, and run the loop from there.

    Where the constraints clash there is nothing to average: the corrective player proves the clash. Plans for the
    Slater point and for the ranges of images are not counted among the plans of the loop.
    """
    dual = options.dual
    assert isinstance(dual, GradientAscent | FollowTheLeader)  # the caller checks
    planner = options.best_planner(world.model)
    functions = make_variational(program, world.psi, lambda theta: planner(world.model, world.layout, theta).lower)
    point = slater(problem, world.mdp, time_limit=options.time_limit)
    compiled = CompiledProblem(program, problem.lines(), problem.maximises, problem.embedding.total)
    if point.status is Status.INFEASIBLE:
        options = replace(options, dual=None)
        found = search(compiled, world, options, (), started)
        return build_solution(compiled, world, found, found.goal, options.planner)
    if dual.Gamma is None:
        unbounded = point.Gamma is None or (math.isinf(point.room or 0.0) and functions.g)
        dual = replace(dual, Gamma=1.0 if unbounded else _SMALLER * (point.Gamma or 0.0), doubling=True)
    functions, known = _add_point(functions, point)
    options = replace(options, dual=dual)
    compiled = compiled._replace(variational=functions)
    found = _complete(program, world, search(compiled, world, options, known, started))
    return build_solution(compiled, world, found, found.goal, options.planner)


def _complete(program: AbstractProgram, world: Instance, found: Search) -> Search:
    """Return the search with the auxiliary variables at its mixture, which the dual player minimised over."""
    cones = program.curved
    if cones is None or not cones.num_auxiliary:
        return found
    plans = [None if reply is None else reply.plan for reply in found.replies]
    policy = collapse(build_mixture(world, BackwardInduction(), plans, found.duals.weights), world.mdp)
    auxiliary = cones.complete(cones.image(embedding_of(world.mdp, world.psi, policy)))
    return found._replace(duals=replace(found.duals, auxiliary=auxiliary))


def _add_point(functions: VariationalProgram, point: Slater) -> tuple[VariationalProgram, tuple[Reply, ...]]:
    """Return the program with the Slater point's weights, and the plans of that point as known ones."""
    if point.found is None or point.room is None:
        return functions, ()
    used = np.flatnonzero(point.found.duals.weights)
    replies = tuple(reply for i in used if (reply := point.found.replies[i]) is not None)
    weights = point.found.duals.weights[used]
    return replace(functions, slater=SlaterPoint(weights / weights.sum(), point.room)), replies
