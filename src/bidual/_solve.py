"""`solve`: the loop over a known model, with budgets, an output policy and a certificate."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from bidual._conflict import smallest_clash
from bidual._effort import Effort
from bidual._errors import ModelError, ProblemError
from bidual._status import Status
from bidual._unbounded import check_bounded
from bidual.certificate import Certificate, Evidence, Record, certify, multipliers
from bidual.constraints import Goal, constraint_results, find_conflict, status_of
from bidual.convex import TOLERANCE, AffineProgram, ConvexProgram, interior, repaired
from bidual.dual import AbstractDual, Bound, ConicCorrective, Duals, FullyCorrective, Proximal, Reply
from bidual.features import Psi
from bidual.mdp import TabularMDP
from bidual.models import Known, Layout, known
from bidual.planners import AbstractPlanner, BackwardInduction, Plan
from bidual.policies import MarkovPolicy, Mixture, collapse, from_occupancy
from bidual.problem import Line, Problem, Value
from bidual.rounding import with_rounding
from bidual.solution import AbstractSession, Progress, Solution
from bidual.vpdpo import Iteration, vpdpo

_KEPT = 100  # of the latest plans, for a later start; those in use are kept in any case


def solve(
    problem: Problem,
    mdp: TabularMDP,
    *,
    gap: float = 1e-6,
    relative: bool = False,
    time_limit: float | None = None,
    max_plans: int | None = None,
    dual: AbstractDual[Any, Any] | None = None,
    planner: AbstractPlanner[Known] | None = None,
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
        dual: the dual player; `FullyCorrective()` by default.
        planner: the planner; `BackwardInduction()` by default.
        progress: called after every plan.
    """
    started = time.perf_counter()
    effort = Effort(gap, relative, time_limit, max_plans, dual, planner, progress)
    program, world = prepare(problem, mdp)
    return _solved(problem, program, world, effort, (), started)


def prepare(problem: Problem, mdp: TabularMDP) -> tuple[AffineProgram | ConvexProgram, "World"]:
    """The problem in arrays, and what every search over this model shares."""
    program, psi = bind(problem, mdp)
    model = known(mdp)
    return program, World(mdp, psi, model, model.restrict(psi))


def measured(program: AffineProgram | ConvexProgram, world: "World") -> AffineProgram | ConvexProgram:
    """The program with its rounding over this model."""
    return with_rounding(program, world.psi, world.mdp) if isinstance(program, AffineProgram) else program


@final
@dataclass(frozen=True, eq=False)
class World:
    """A known model and features over it, laid out for the planner once."""

    mdp: TabularMDP
    psi: Psi
    model: Known
    layout: Layout


class Stated(NamedTuple):
    """A problem in numbers: rows or cone forms, the constraints as they were written, and the sense."""

    program: AffineProgram | ConvexProgram
    lines: tuple[Line, ...]
    maximises: bool
    total: bool = False


class Search(NamedTuple):
    """Where the loop ended: what the dual player knows, and all plans that its weights run over."""

    duals: Duals[Any]
    replies: tuple[Reply | None, ...]  # those known before come first; None for plans that are of no use any more
    history: tuple[Progress, ...]
    plans: int  # the new ones
    started: float


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
    stated = Stated(program, problem.lines(), problem.maximises, problem.embedding.total)
    found = search(stated, world, effort, known, started)
    values = {name: np.array(parameter.value) for name, parameter in problem.parameters.items()}
    session = Session(problem, world, effort, worth_keeping(found), values)
    solution = conclude(stated, world, found, effort.goal, effort.planner)
    check_bounded(solution)
    return replace(solution, _session=session)


def search(stated: Stated, world: World, effort: Effort, known: Sequence[Reply], started: float) -> Search:
    """Run the loop until the gap seems closed or a budget is spent."""
    program = stated.program
    replies: list[Reply | None] = []
    history: list[Progress] = []
    duals = None
    for iteration in _loop(program, world, effort, known):
        duals = iteration.duals
        replies += known if iteration.reply is None else [iteration.reply]
        if duals.kept is not None:
            replies = [_lightened(reply) if i in duals.kept else None for i, reply in enumerate(replies)]
        history.append(_standing(stated, iteration, time.perf_counter() - started))
        if effort.progress is not None:
            effort.progress(history[-1])
        if effort.spent(history[-1]) or _settled(program, duals, history[-1], effort.gap, effort.relative):
            break
    assert duals is not None  # the loop runs until it is left
    return Search(duals, tuple(replies), tuple(history), history[-1].plans, started)


def conclude(
    stated: Stated, world: World, found: Search, goal: Goal, planner: AbstractPlanner[Known] | None = None
) -> Solution:
    """The output policy of a search, its certificate, and both in words."""
    program, lines, maximises, total = stated
    planner = planner or BackwardInduction()
    plans = [None if reply is None else reply.plan for reply in found.replies]
    mixture, duals = _mixture(world, planner, plans, found.duals.weights), found.duals
    clashes = _clashes(program, world, planner, duals, lines) if _in_conflict(duals) else []
    evidence, certificate = _certified(program, world.psi, world.mdp, collapse(mixture, world.mdp), duals, clashes)
    status = status_of(program, certificate, goal)
    lower, upper = certificate.bounds(program, maximises=maximises)
    gamma = multipliers(program, evidence.record) if status is Status.OPTIMAL else None
    return Solution(
        status=status,
        sense="maximize" if maximises else "minimize",
        value=(-certificate.value if maximises else certificate.value) + 0.0,  # no -0.0
        lower=lower,
        upper=upper,
        constraints=constraint_results(lines, certificate, gamma),
        conflict=find_conflict(lines, program, certificate, evidence.record),
        policy=evidence.policy,
        mixture=mixture,
        embedding=certificate.embedding.sum(axis=0) if total else certificate.embedding,
        visits=certificate.visits,
        history=found.history,
        plans=found.plans,
        seconds=time.perf_counter() - found.started,
        evidence=evidence,
        lines=lines,
        goal=goal,
    )


def worth_keeping(found: Search) -> tuple[Reply, ...]:
    """The plans to start another search from: those in use, and the latest."""
    first = max(0, len(found.replies) - _KEPT)
    latest = [reply for i, reply in enumerate(found.replies) if i >= first or found.duals.weights[i] > 0]
    # A soft policy is not the cheapest for its cost, so it proves nothing.
    return tuple(r for r in latest if r is not None and r.plan.soft_cost is None and r.plan.embedding.size)


def _lightened(reply: Reply | None) -> Reply | None:
    """The plan without its embedding, which over 100 000 states takes 16 MB: the dual player has its image."""
    if reply is None or reply.plan.embedding.size == 0:
        return reply
    nothing = np.zeros((len(reply.plan.embedding), 0))
    return reply._replace(plan=replace(reply.plan, embedding=nothing))


def _loop(
    program: AffineProgram | ConvexProgram, world: World, effort: Effort, plans: Sequence[Reply]
) -> Iterator[Iteration[Any]]:
    """The loop with the dual player that fits the program."""
    psi, model, planner, dual = world.layout, world.model, effort.best_planner(), effort.dual
    if isinstance(program, AffineProgram):
        return vpdpo(program, psi, model, planner, dual or FullyCorrective(), plans)
    if dual is None:
        dual = ConicCorrective() if program.smooth is None or program.equality.any() else Proximal(*effort.goal)
    return vpdpo(program, psi, model, planner, dual, plans)


def bind(problem: Problem, mdp: TabularMDP) -> tuple[AffineProgram | ConvexProgram, Psi]:
    """The problem's rows and the features over this model; raises where they do not belong together."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"expected a bidual Problem, got {type(problem).__name__}")
    if not isinstance(mdp, TabularMDP):
        raise ModelError(f"expected a TabularMDP, got {type(mdp).__name__}")
    if problem.embedding.horizon != mdp.horizon:
        raise ProblemError(
            f"the problem is over another embedding: its horizon is {problem.embedding.horizon}, "
            f"the model's is {mdp.horizon}; make the embedding with this model's mdp.embedding(...)"
        )
    try:
        psi = problem.embedding.features.stage(mdp.successors)
    except ModelError as error:
        raise ProblemError(
            f"the problem is over another embedding: {error}; make it with this model's mdp.embedding(...)"
        ) from error
    program = problem.program()
    return with_rounding(program, psi, mdp) if isinstance(program, AffineProgram) else program, psi


def _standing(stated: Stated, iteration: Iteration[Any], seconds: float) -> Progress:
    """The solver's own view after a plan: for progress and stopping, never for a certificate."""
    duals = iteration.duals
    violation = float(stated.program.violations(duals.g).max(initial=0.0))
    upper = duals.f if duals.feasible else None
    lower = duals.optimum.value if np.isfinite(duals.optimum.value) else None
    if stated.maximises:
        lower, upper = (None if upper is None else -upper), (None if lower is None else -lower)
    return Progress(iteration.number, lower, upper, violation, seconds)


def _settled(
    program: AffineProgram | ConvexProgram, duals: Duals[Any], state: Progress, gap: float, relative: bool
) -> bool:
    """Whether the gap is closed: to the optimum or, where constraints clash, to the least possible violation."""
    if duals.stalled:
        return True
    # A little less than the request, for the certificate will subtract its rounding slack.
    if _in_conflict(duals):
        violation = float((program.violations(duals.g) / program.units).max())
        return violation - duals.conflict.value <= 0.99 * gap
    return (
        state.lower is not None and state.upper is not None and Goal(0.99 * gap, relative).met(state.lower, state.upper)
    )


def _mixture(
    world: World, planner: AbstractPlanner[Known], plans: Sequence[Plan | None], weights: Float[np.ndarray, "k"]
) -> Mixture:
    """The mixture of the plans; where soft policies are among them, as the one Markov policy that it equals."""
    model, mdp = world.model, world.mdp
    used = [(float(weights[i]), plans[i]) for i in np.flatnonzero(weights).tolist()]
    actions = [plan.actions for _, plan in used if plan is not None and plan.actions is not None]
    if len(actions) == len(used):
        return Mixture(np.array([weight for weight, _ in used]), tuple(model.policy(one) for one in actions))
    table = np.zeros((mdp.horizon, mdp.num_actions, model.kept.size))
    for weight, plan in used:
        assert plan is not None  # a plan with weight is kept
        table += weight * planner.occupancy(model, world.layout, plan)
    return Mixture(np.ones(1), (from_occupancy(model.spread(table), mdp),))


def _certified(
    program: AffineProgram | ConvexProgram,
    psi: Psi,
    mdp: TabularMDP,
    policy: MarkovPolicy,
    duals: Duals[Any],
    clashes: Sequence[Record],
) -> tuple[Evidence, Certificate]:
    """Certify the conflict if there seems to be one and it survives the check, else the bounds of the policy."""
    for record in clashes:
        evidence = Evidence(program, psi, mdp, policy, record, duals.auxiliary)
        certificate = certify(evidence)
        if certificate.conflict is not None and certificate.conflict > 0:
            return evidence, certificate
    record = _record(program, duals.optimum, 1.0)
    evidence = Evidence(program, psi, mdp, policy, record, duals.auxiliary)
    return evidence, certify(evidence)


def _clashes(
    program: AffineProgram | ConvexProgram,
    world: World,
    planner: AbstractPlanner[Known],
    duals: Duals[Any],
    lines: Sequence[Line],
) -> list[Record]:
    """Proofs that the constraints clash, the one that rests on the fewest of them first."""
    whole = _record(program, duals.conflict, 0.0)
    if isinstance(program, AffineProgram) or duals.conflict.point is not None or len(lines) == 1:
        return [whole]
    bound, dropped = smallest_clash(program, world.layout, world.model, planner, duals.conflict, lines)
    return [_record(program, bound, 0.0, dropped), whole]


def _record(
    program: AffineProgram | ConvexProgram,
    bound: Bound,
    objective_weight: float,
    dropped: Bool[np.ndarray, "r"] | None = None,
) -> Record:
    """The multipliers as a record; those of a cone form made exactly dual-feasible, or none where that fails."""
    if isinstance(program, AffineProgram) or bound.point is not None:
        return Record(bound.gamma, objective_weight, bound.point)
    if not math.isfinite(bound.value):
        return Record(np.zeros(0), objective_weight)
    form = program.main if objective_weight == 1 else program.violation
    assert form is not None  # only a form has multipliers
    inner = interior(form, dropped)
    fixed = None if inner is None else repaired(form, bound.gamma, inner)
    return Record(np.zeros(0) if fixed is None else fixed, objective_weight)


def _in_conflict(duals: Duals[Any]) -> bool:
    """Whether the constraints with a multiplier are shown to clash by more than rounding."""
    return duals.conflict.value > TOLERANCE
