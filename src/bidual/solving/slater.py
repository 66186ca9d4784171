"""`slater`: a policy that satisfies every inequality with room, certified, and its bound on multipliers.

The multipliers of a problem with a Slater point Psi' are at most (f(Psi') - f*) / xi, where every inequality holds
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

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual._base.status import Status
from bidual.certificate.constraints import Conflict
from bidual.problem.convex import TOLERANCE
from bidual.problem.modelling import Problem
from bidual.solving.options import SolveOptions
from bidual.solving.result import build_solution
from bidual.solving.search import CompiledProblem, Instance, Search, bind, prepare, search
from bidual.solving.solution import Solution
from bidual.world.mdp import TabularMDP
from bidual.world.policies import MarkovPolicy
from bidual.world.policies import embedding as embedding_of

_FLOOR = 1e-3  # Gamma is at least this: an ascent in an interval of length 0 cannot move
_LEAST = 1e-6  # less room than this, in units, is none: Gamma would be too large
_ROUGH = 0.3  # a room within this share of the largest possible one is as good
_PLANS = 60  # for a bound on the optimum: any will do


@final
@dataclass(frozen=True, eq=False)
class Slater:
    """The result of the search for a policy that satisfies all inequalities at once, with room.

    `room` is certified: the policy satisfies every inequality by at least that, in the constraint's own units. It is
    None where no such policy was found; then the status is `infeasible` if there is none and `undecided` if the search
    ended first.
    """

    __repr__ = describe_briefly

    status: Status
    room: float | None
    value: float | None  # of the objective at the policy, in the user's sense
    bound: float | None  # on the value of any policy that satisfies the constraints, in the user's sense
    Gamma: float | None
    policy: MarkovPolicy | None
    conflict: Conflict | None
    found: Search | None  # the plans of the mixture

    def closer(self, bound: float) -> "Slater":
        """Return the same with another bound on the optimum: Gamma never grows."""
        if self.room is None or self.value is None or self.Gamma is None:
            return self
        return replace(self, bound=bound, Gamma=min(self.Gamma, _bound_on_Gamma(self.value, bound, self.room)))

    def __str__(self) -> str:
        if self.room is None or self.Gamma is None:
            return f"no policy with room was found: {self.conflict or 'the search ended first'}"
        room = "any room" if math.isinf(self.room) else f"room {self.room:.6g}"
        return f"a policy keeps every inequality with {room}; no multiplier is above {self.Gamma / 2:.6g}"


def slater(problem: Problem, mdp: TabularMDP, *, time_limit: float | None = None) -> Slater:
    """Find a policy that satisfies every inequality of `problem` with room, and compute Gamma from it.

    Equalities are kept as they are. They have multipliers too, which no Slater point bounds. So are constraints on
    auxiliary variables of the objective, which say what it is.

    Args:
        problem: the constraints, and the objective that Gamma refers to.
        mdp: the known model.
        time_limit: seconds for each of the two searches, for room and for a bound on the optimum.
    """
    started = time.perf_counter()
    _, world = prepare(problem, mdp)
    roomy, found = _find_roomiest(problem, world, time_limit, started)
    if roomy is not None and roomy.status is Status.INFEASIBLE:
        return _report_no_point(Status.INFEASIBLE, roomy.conflict)
    room = math.inf if roomy is None else _compute_room(roomy)
    if room is None:
        # Where the least possible violation exceeds the tolerance, no policy satisfies all of them.
        clash = roomy is not None and roomy.lower is not None and roomy.lower > _find_unit(roomy) * TOLERANCE
        return _report_no_point(Status.INFEASIBLE if clash else Status.UNDECIDED, None)
    free = _solve_free(problem, world, time_limit)
    if free is not None and free.status is Status.INFEASIBLE:
        return _report_no_point(Status.INFEASIBLE, free.conflict)
    bound = None if free is None else free.upper if problem.maximises else free.lower
    solution = roomy or free
    if bound is None or solution is None:
        return _report_no_point(Status.UNDECIDED, None)
    value = _evaluate_objective(problem, solution)
    Gamma = _FLOOR if roomy is None else _bound_on_Gamma(value, bound, room)
    return Slater(Status.OPTIMAL, room, value, bound, Gamma, solution.policy, None, found)


def _compute_room(roomy: Solution) -> float | None:
    """Compute the room less the tolerance of constraints; None where that is next to nothing."""
    room = -math.inf if roomy.upper is None else -roomy.upper - _find_unit(roomy) * TOLERANCE
    return room if room > _LEAST * _find_unit(roomy) else None


def _find_unit(roomy: Solution) -> float:
    return float(np.max(roomy.evidence.program.units, initial=1.0))


def _report_no_point(status: Status, conflict: Conflict | None) -> Slater:
    return Slater(status, None, None, None, None, None, conflict, None)


def _bound_on_Gamma(value: float, bound: float, room: float) -> float:
    return max(_FLOOR, 2 * abs(value - bound) / room)


def _find_roomiest(
    problem: Problem, world: Instance, time_limit: float | None, started: float
) -> tuple[Solution | None, Search | None]:
    """Minimise the maximum of all g, roughly; None where there are no inequalities."""
    over = cp.Variable(name="over")
    relaxed: dict[str, cp.Constraint] = {}
    recourse = _find_recourse(problem)
    kept = {n for n, c in problem.constraints.items() if isinstance(c, Equality) or recourse & _list_others(problem, c)}
    for name, constraint in problem.constraints.items():
        left, right = constraint.args
        relaxed[name] = constraint if name in kept else left - right <= over
    # Constraints that do not depend on the policy are left out.
    relaxed = {name: c for name, c in relaxed.items() if problem.constraints[name].variables()}
    if kept.issuperset(relaxed):
        return None, None
    if any(_list_others(problem, c) for c in problem.constraints.values()):
        relaxed["room"] = over >= -1  # auxiliary variables may allow any amount
    easier = Problem(cp.Minimize(over), relaxed)
    program, _ = bind(easier, world.mdp)
    options = SolveOptions(_ROUGH, relative=True, time_limit=time_limit)
    compiled = CompiledProblem(program, easier.lines(), False, problem.embedding.total)
    found = search(compiled, world, options, (), started)
    return build_solution(compiled, world, found, options.goal), found


def _solve_free(problem: Problem, world: Instance, time_limit: float | None) -> Solution | None:
    """Solve without the inequalities; None where that fails, as with a logarithm that they keep in its domain."""
    kept = {n: c for n, c in problem.constraints.items() if isinstance(c, Equality) or _list_others(problem, c)}
    # The embedding must occur in it, whatever the objective is.
    objective = type(problem.objective)(problem.objective.expr + 0 * cp.sum(problem.embedding))
    try:
        free = Problem(objective, kept)
        program, _ = bind(free, world.mdp)
        options = SolveOptions(0.01, relative=True, time_limit=time_limit, max_plans=_PLANS)
        compiled = CompiledProblem(program, free.lines(), problem.maximises, problem.embedding.total)
        return build_solution(compiled, world, search(compiled, world, options, (), time.perf_counter()), options.goal)
    except ProblemError:
        return None


def _list_others(problem: Problem, part: cp.Constraint | cp.Minimize | cp.Maximize) -> set[int]:
    """Return the auxiliary variables of a part of the problem."""
    return {v.id for v in part.variables() if v is not problem.embedding}


def _find_recourse(problem: Problem) -> set[int]:
    """Find the auxiliary variables of the objective and those that constraints connect with them.

    Their constraints say what the objective is, and hold for every policy.
    """
    found = _list_others(problem, problem.objective)
    for _ in problem.constraints:
        for constraint in problem.constraints.values():
            own = _list_others(problem, constraint)
            found |= own if own & found else set()
    return found


def _evaluate_objective(problem: Problem, solution: Solution) -> float:
    """Evaluate the objective at the policy of a solution, with the best auxiliary variables."""
    evidence = solution.evidence
    value, _ = problem.program().at(embedding_of(evidence.mdp, evidence.psi, evidence.policy))
    return -value if problem.maximises else value
