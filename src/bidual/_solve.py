"""`solve`: a search over a known model, with budgets, an output policy and a certificate."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bidual._averaged import averaged
from bidual._conclude import conclude
from bidual._effort import Effort
from bidual._search import Stated, World, measured, prepare, search, worth_keeping
from bidual._unbounded import check_bounded
from bidual.convex import AffineProgram, ConvexProgram
from bidual.dual import AbstractDual, FollowTheLeader, GradientAscent, Reply
from bidual.mdp import TabularMDP
from bidual.models import Known
from bidual.planners import AbstractSoftPlanner
from bidual.problem import Problem, Value
from bidual.solution import AbstractSession, Progress, Solution


def solve(
    problem: Problem,
    mdp: TabularMDP,
    *,
    gap: float = 1e-6,
    relative: bool = False,
    time_limit: float | None = None,
    max_plans: int | None = None,
    dual: AbstractDual[Any, Any] | None = None,
    planner: AbstractSoftPlanner[Known] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Solve `problem` in a known model, to a certified gap.

    Args:
        problem: what to optimise, over an embedding of this model's signals.
        mdp: the known model.
        gap: stop when the policy is feasible and certified to be this close to optimal.
        relative: measure the gap relative to the size of the bounds.
        time_limit: seconds after which the best policy so far is returned.
        max_plans: number of plans after which the best policy so far is returned.
        dual: the dual player; by default the corrective one that fits the problem. `GradientAscent()` is the paper's.
        planner: the planner; `BackwardInduction()` by default.
        progress: called after every plan.
    """
    started = time.perf_counter()
    effort = Effort(gap, relative, time_limit, max_plans, dual, planner, progress)
    program, world = prepare(problem, mdp)
    return _solved(problem, program, world, effort, (), started)


@final
@dataclass(frozen=True, eq=False)
class Session(AbstractSession):
    """What a solve leaves behind: everything that does not depend on the values of parameters, and the plans."""

    problem: Problem
    world: World
    effort: Effort
    known: tuple[Reply, ...]
    values: dict[str, Float[np.ndarray, "..."]]  # of all parameters

    def resolve(self, values: Mapping[str, Value]) -> Solution:
        """Solve again with other values, starting from the plans."""
        started = time.perf_counter()
        with self.problem.holding({**self.values, **values}):
            program = measured(self.problem.program(), self.world)
            return _solved(self.problem, program, self.world, self.effort, self.known, started)


def _solved(
    problem: Problem,
    program: AffineProgram | ConvexProgram,
    world: World,
    effort: Effort,
    known: tuple[Reply, ...],
    started: float,
) -> Solution:
    """Search, certify, and leave a session for the next."""
    values = {name: np.array(parameter.value) for name, parameter in problem.parameters.items()}
    if isinstance(effort.dual, GradientAscent | FollowTheLeader):
        solution = averaged(problem, program, world, effort, started)
        return replace(solution, _session=Session(problem, world, effort, (), values))
    stated = Stated(program, problem.lines(), problem.maximises, problem.embedding.total)
    found = search(stated, world, effort, known, started)
    session = Session(problem, world, effort, worth_keeping(found), values)
    solution = conclude(stated, world, found, effort.goal, effort.planner)
    check_bounded(solution)
    return replace(solution, _session=session)
