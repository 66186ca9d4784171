"""`solve`: a search over a known model, with budgets, an output policy and a certificate."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.certificate.rounding import with_rounding
from bidual.dual import AbstractDual, FollowTheLeader, GradientAscent, Reply
from bidual.planners import AbstractSoftPlanner
from bidual.problem.convex import AbstractProgram
from bidual.problem.modelling import Problem, Value, assign_values
from bidual.solving.first_order import solve_first_order
from bidual.solving.options import SolveOptions
from bidual.solving.result import build_solution
from bidual.solving.search import CompiledProblem, Instance, prepare, search, select_worth_keeping
from bidual.solving.solution import AbstractSession, Progress, Solution
from bidual.solving.unbounded import check_bounded
from bidual.world.mdp import TabularMDP

_LOG = logging.getLogger("bidual.solve")
_LOG.addHandler(logging.NullHandler())


def solve(
    problem: Problem,
    mdp: TabularMDP,
    *,
    gap: float | None = None,
    relative: bool = False,
    time_limit: float | None = None,
    max_plans: int | None = None,
    dual: AbstractDual[Any, Any] | None = None,
    planner: AbstractSoftPlanner[Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Solve `problem` in a known model, to a certified gap.

    Afterwards the problem's embedding and its other variables have values, those at the policy of the solution:
    ``x.damage.value``. Every later call that returns a result for a problem over them replaces these values.

    Args:
        problem: the problem, over an embedding of this model's signals.
        mdp: the known model.
        gap: stop when the policy is feasible and certified to be this close to optimal. By default a millionth of the
            size of the bounds, so that signals in other units are the same problem; `solution.goal` has the number.
        relative: measure the gap relative to the size of the bounds.
        time_limit: seconds after which the best policy so far is returned.
        max_plans: number of plans after which the best policy so far is returned.
        dual: the dual player; by default the corrective one for the kind of problem. `GradientAscent()` is the paper's.
        planner: the planner; by default `SparseInduction()` for the first solve of a model that takes less time than
            compiling, and `BackwardInduction()` for all others; over an unbounded time
            `PolicyIteration()`.
        progress: called after every plan.
    """
    options = SolveOptions(gap, relative, time_limit, max_plans, dual, planner, progress)
    return _assign(problem, solve_silently(problem, mdp, options))


def solve_silently(problem: Problem, mdp: TabularMDP, options: SolveOptions) -> Solution:
    """Solve, and leave the values of the problem's variables as they are."""
    started = time.perf_counter()
    program, world = prepare(problem, mdp)
    return _log(_solve(problem, program, world, options, (), started))


@final
@dataclass(frozen=True, eq=False)
class Session(AbstractSession):
    """The reusable state of a solve: everything that does not depend on the values of parameters, and the plans."""

    problem: Problem
    world: Instance
    options: SolveOptions
    known: tuple[Reply, ...]
    values: dict[str, Float[np.ndarray, "..."]]  # of all parameters

    def resolve(self, values: Mapping[str, Value]) -> Solution:
        """Solve again with other values, starting from the plans."""
        started = time.perf_counter()
        with self.problem.holding({**self.values, **values}):
            program = with_rounding(self.problem.program(), self.world.psi, self.world.mdp)
            solution = _log(_solve(self.problem, program, self.world, self.options, self.known, started))
        return _assign(self.problem, solution)


def _assign(problem: Problem, solution: Solution) -> Solution:
    """Set the problem's variables to their values at the policy of a solution, and return the solution."""
    assign_values(problem, solution.embedding, solution.evidence.auxiliary)
    return solution


def _log(solution: Solution) -> Solution:
    """Log the result of a solve, and return it."""
    facts = (solution.status, solution.sense, solution.value, solution.plans, solution.seconds)
    _LOG.info("%s: %s %.9g, %d plans, %.2f s", *facts)
    return solution


def _solve(
    problem: Problem,
    program: AbstractProgram,
    world: Instance,
    options: SolveOptions,
    known: tuple[Reply, ...],
    started: float,
) -> Solution:
    """Search, certify, and return the solution with a session for the next solve."""
    values = {name: np.array(parameter.value) for name, parameter in problem.parameters.items()}
    if isinstance(options.dual, GradientAscent | FollowTheLeader):
        _refuse_first_order(options.dual, world)
        solution = solve_first_order(problem, program, world, options, started)
        return _with_totals(problem, solution, Session(problem, world, options, (), values))
    compiled = CompiledProblem(program, problem.lines(), problem.maximises, problem.embedding.total)
    found = search(compiled, world, options, known, started)
    session = Session(problem, world, options, select_worth_keeping(found), values)
    solution = build_solution(compiled, world, found, found.goal, options.planner)
    check_bounded(solution)
    return _with_totals(problem, solution, session)


def _refuse_first_order(dual: AbstractDual[Any, Any], world: Instance) -> None:
    """Raise `ProblemError` where time is unbounded: the sets of these players are those of occupancies by step."""
    if world.mdp.criterion is not None:
        raise ProblemError(
            f"{type(dual).__name__} steps within occupancies that have a horizon, and this model has none: leave dual "
            "out, and the corrective player solves it"
        )


def _with_totals(problem: Problem, solution: Solution, session: Session) -> Solution:
    totals = problem.sum_signals(solution.embedding)
    return replace(solution, totals=totals, reported=problem.totals, _session=session)
