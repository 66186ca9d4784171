"""`slater`: a policy that keeps every inequality with room, certified, and the bound on multipliers that it gives.

The multipliers of a problem with a Slater point Psi' are at most (f(Psi') - f*) / xi, where every inequality is kept
there with room xi (the paper's Lemma on the bounded dual variable). Twice that is the Gamma of the dual players:
with f at that same point, and any lower bound in the place of f*.
"""

import math
import time
from dataclasses import dataclass, replace
from typing import final

import cvxpy as cp
import numpy as np
from cvxpy.constraints.zero import Equality

from bidual._conclude import conclude
from bidual._effort import Effort
from bidual._errors import ProblemError
from bidual._search import Search, Stated, World, bind, prepare, search
from bidual._status import Status
from bidual.constraints import Conflict
from bidual.convex import TOLERANCE
from bidual.mdp import TabularMDP
from bidual.policies import MarkovPolicy
from bidual.problem import Problem
from bidual.solution import Solution

_FLOOR = 1e-3  # Gamma is at least this: an ascent in an interval of length 0 goes nowhere
_LEAST = 1e-6  # less room than this, in units, is none: Gamma would be of no use
_ROUGH = 0.3  # a room within this share of the largest possible one is as good
_PLANS = 60  # for a bound on the optimum: any will do


@final
@dataclass(frozen=True, eq=False)
class Slater:
    """What is known about keeping all inequalities at once, with room.

    `room` is certified: the policy keeps every inequality by at least that, in the constraint's own units. It is None
    where no such policy was found; then the status says whether there is none (`infeasible`) or whether the search
    ended first (`undecided`).
    """

    status: Status
    room: float | None
    value: float | None  # of the objective at the policy, in the user's sense
    bound: float | None  # no policy that keeps the constraints is better than this, in the user's sense
    Gamma: float | None
    policy: MarkovPolicy | None
    conflict: Conflict | None
    found: Search | None  # the plans of the mixture

    def closer(self, bound: float) -> "Slater":
        """The same with another bound on the optimum: Gamma only ever shrinks."""
        if self.room is None or self.value is None or self.Gamma is None:
            return self
        return replace(self, bound=bound, Gamma=min(self.Gamma, _height(self.value, bound, self.room)))

    def __str__(self) -> str:
        if self.room is None or self.Gamma is None:
            return f"no policy with room was found: {self.conflict or 'the search ended first'}"
        room = "any room" if math.isinf(self.room) else f"room {self.room:.6g}"
        return f"a policy keeps every inequality with {room}; no multiplier is above {self.Gamma / 2:.6g}"


def slater(problem: Problem, mdp: TabularMDP, *, time_limit: float | None = None) -> Slater:
    """Find a policy that keeps every inequality of `problem` with room, and Gamma from it.

    Equalities are kept as they are. They have multipliers too, which no Slater point bounds.

    Args:
        problem: the constraints, and the objective that Gamma is about.
        mdp: the known model.
        time_limit: seconds for each of the two searches, for room and for a bound on the optimum.
    """
    started = time.perf_counter()
    _, world = prepare(problem, mdp)
    roomy, found = _roomiest(problem, world, time_limit, started)
    if roomy is not None and roomy.status is Status.INFEASIBLE:
        return _without(Status.INFEASIBLE, roomy.conflict)
    room = math.inf if roomy is None else _room(roomy)
    if room is None:
        # Where the least possible violation is positive, by more than what counts as kept, no policy keeps them all.
        clash = roomy is not None and roomy.lower is not None and roomy.lower > _unit(roomy) * TOLERANCE
        return _without(Status.INFEASIBLE if clash else Status.UNDECIDED, None)
    free = _free(problem, world, time_limit)
    if free is not None and free.status is Status.INFEASIBLE:
        return _without(Status.INFEASIBLE, free.conflict)
    bound = None if free is None else free.upper if problem.maximises else free.lower
    solution = roomy or free
    if bound is None or solution is None:
        return _without(Status.UNDECIDED, None)
    value = _objective(problem, solution)
    Gamma = _FLOOR if roomy is None else _height(value, bound, room)
    return Slater(Status.OPTIMAL, room, value, bound, Gamma, solution.policy, None, found)


def _room(roomy: Solution) -> float | None:
    """What is left of the room when all that counts as kept is taken off; None where that is next to nothing."""
    room = -math.inf if roomy.upper is None else -roomy.upper - _unit(roomy) * TOLERANCE
    return room if room > _LEAST * _unit(roomy) else None


def _unit(roomy: Solution) -> float:
    return float(np.max(roomy.evidence.program.units, initial=1.0))


def _without(status: Status, conflict: Conflict | None) -> Slater:
    return Slater(status, None, None, None, None, None, conflict, None)


def _height(value: float, bound: float, room: float) -> float:
    return max(_FLOOR, 2 * abs(value - bound) / room)


def _roomiest(
    problem: Problem, world: World, time_limit: float | None, started: float
) -> tuple[Solution | None, Search | None]:
    """The least possible maximum of all g, about; None where there are no inequalities."""
    over = cp.Variable(name="over")
    relaxed: dict[str, cp.Constraint] = {}
    for name, constraint in problem.constraints.items():
        left, right = constraint.args
        relaxed[name] = constraint if isinstance(constraint, Equality) else left - right <= over
    # What says nothing about policies has no part in this.
    relaxed = {name: c for name, c in relaxed.items() if problem.constraints[name].variables()}
    if all(isinstance(problem.constraints[name], Equality) for name in relaxed):
        return None, None
    variables = {v.id for part in (problem.objective, *problem.constraints.values()) for v in part.variables()}
    if variables != {problem.embedding.id}:
        raise ProblemError("a Slater point of a problem with auxiliary variables is not supported: they may move too")
    easier = Problem(cp.Minimize(over), relaxed)
    program, _ = bind(easier, world.mdp)
    effort = Effort(_ROUGH, relative=True, time_limit=time_limit)
    stated = Stated(program, easier.lines(), False, problem.embedding.total)
    found = search(stated, world, effort, (), started)
    return conclude(stated, world, found, effort.goal), found


def _free(problem: Problem, world: World, time_limit: float | None) -> Solution | None:
    """The problem without its inequalities; None where it is none, as with a logarithm that they keep in its domain."""
    kept = {name: c for name, c in problem.constraints.items() if isinstance(c, Equality)}
    # The embedding is in it, whatever the objective is.
    objective = type(problem.objective)(problem.objective.expr + 0 * cp.sum(problem.embedding))
    try:
        free = Problem(objective, kept)
        program, _ = bind(free, world.mdp)
        effort = Effort(0.01, relative=True, time_limit=time_limit, max_plans=_PLANS)
        stated = Stated(program, free.lines(), problem.maximises, problem.embedding.total)
        return conclude(stated, world, search(stated, world, effort, (), time.perf_counter()), effort.goal)
    except ProblemError:
        return None


def _objective(problem: Problem, solution: Solution) -> float:
    """The objective at a policy."""
    before = problem.embedding.value
    problem.embedding.value = solution.embedding
    value = float(np.sum(problem.objective.expr.value))
    problem.embedding.value = before
    return value
