"""Solving with the paper's dual players, which need a bound on the multipliers and a point to repair mixtures."""

from dataclasses import replace

import numpy as np

from bidual._base.status import Status
from bidual.dual import FollowTheLeader, GradientAscent, Reply
from bidual.problem.convex import AbstractProgram, SlaterPoint, VariationalProgram
from bidual.problem.modelling import Problem, make_variational
from bidual.solving.options import SolveOptions
from bidual.solving.result import build_solution
from bidual.solving.search import CompiledProblem, Instance, search
from bidual.solving.slater import Slater, slater
from bidual.solving.solution import Solution

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
        dual = replace(dual, Gamma=1.0 if point.Gamma is None else _SMALLER * point.Gamma, doubling=True)
    functions, known = _add_point(functions, point)
    options = replace(options, dual=dual)
    compiled = compiled._replace(variational=functions)
    found = search(compiled, world, options, known, started)
    return build_solution(compiled, world, found, found.goal, options.planner)


def _add_point(functions: VariationalProgram, point: Slater) -> tuple[VariationalProgram, tuple[Reply, ...]]:
    """Return the program with the Slater point's weights, and the plans of that point as known ones."""
    if point.found is None or point.room is None:
        return functions, ()
    used = np.flatnonzero(point.found.duals.weights)
    replies = tuple(reply for i in used if (reply := point.found.replies[i]) is not None)
    weights = point.found.duals.weights[used]
    return replace(functions, slater=SlaterPoint(weights / weights.sum(), point.room)), replies
