"""`solve`: the loop over a known model, with budgets, an output policy and a certificate."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from bidual._conflict import smallest_clash
from bidual._errors import ModelError, ProblemError
from bidual._status import Status
from bidual.certificate import Certificate, Evidence, Record, certify, multipliers
from bidual.constraints import Goal, constraint_results, find_conflict, status_of
from bidual.convex import TOLERANCE, AffineProgram, ConvexProgram, interior, repaired
from bidual.dual import AbstractDual, Bound, ConicCorrective, Duals, FullyCorrective, Proximal
from bidual.features import Psi
from bidual.mdp import TabularMDP
from bidual.models import Known, known
from bidual.planners import AbstractPlanner, BackwardInduction, Plan
from bidual.policies import MarkovPolicy, Mixture, collapse, from_occupancy
from bidual.problem import Line, Problem
from bidual.rounding import with_rounding
from bidual.solution import Progress, Solution
from bidual.vpdpo import Iteration, vpdpo


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
    _check_budgets(gap, time_limit, max_plans)
    _check_players(dual, planner, progress)
    program, psi = bind(problem, mdp)
    lines = problem.lines()
    model, planner = known(mdp), planner or BackwardInduction()
    loop = _loop(program, psi, model, planner, dual, Goal(gap, relative))
    plans: list[Plan | None] = []
    history: list[Progress] = []
    duals = None
    for iteration in loop:
        duals = iteration.duals
        plans.append(iteration.plan)
        if duals.kept is not None:  # a plan over 100 000 states is megabytes
            plans = [plan if i in duals.kept else None for i, plan in enumerate(plans)]
        history.append(_standing(problem, program, iteration, time.perf_counter() - started))
        if progress is not None:
            progress(history[-1])
        spent = (time_limit is not None and history[-1].seconds >= time_limit) or iteration.number == max_plans
        if spent or _settled(program, duals, history[-1], gap, relative):
            break
    assert duals is not None  # the loop runs until it is left
    mixture = _mixture(model, planner, psi, mdp, plans, duals.weights)
    clashes = _clashes(program, psi, model, planner, duals, lines) if _in_conflict(duals) else []
    evidence, certificate = _certified(program, psi, mdp, collapse(mixture, mdp), duals, clashes)
    status = status_of(program, certificate, Goal(gap, relative))
    lower, upper = certificate.bounds(program, maximises=problem.maximises)
    gamma = multipliers(program, evidence.record) if status is Status.OPTIMAL else None
    return Solution(
        status=status,
        sense="maximize" if problem.maximises else "minimize",
        value=(-certificate.value if problem.maximises else certificate.value) + 0.0,  # no -0.0
        lower=lower,
        upper=upper,
        constraints=constraint_results(lines, certificate, gamma),
        conflict=find_conflict(lines, program, certificate, evidence.record),
        policy=evidence.policy,
        mixture=mixture,
        embedding=certificate.embedding.sum(axis=0) if problem.embedding.total else certificate.embedding,
        visits=certificate.visits,
        history=tuple(history),
        plans=len(plans),
        seconds=time.perf_counter() - started,
        evidence=evidence,
        lines=lines,
        goal=Goal(gap, relative),
    )


def _loop(
    program: AffineProgram | ConvexProgram,
    psi: Psi,
    model: Known,
    planner: AbstractPlanner[Known],
    dual: AbstractDual[Any, Any] | None,
    goal: Goal,
) -> Iterator[Iteration[Any]]:
    """The loop with the dual player that fits the program."""
    if isinstance(program, AffineProgram):
        return vpdpo(program, psi, model, planner, dual or FullyCorrective())
    if dual is None:
        dual = ConicCorrective() if program.smooth is None or program.equality.any() else Proximal(*goal)
    return vpdpo(program, psi, model, planner, dual)


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


def _check_budgets(gap: float, time_limit: float | None, max_plans: int | None) -> None:
    if not (_is_number(gap) and math.isfinite(gap) and gap > 0):
        raise ProblemError(f"gap must be a positive number; got {gap!r}")
    if time_limit is not None and not (_is_number(time_limit) and time_limit > 0):
        raise ProblemError(f"the time limit must be positive seconds; got {time_limit!r}")
    if max_plans is not None and not (_is_number(max_plans) and max_plans == int(max_plans) and max_plans >= 1):
        raise ProblemError(f"the number of plans must be a whole number, at least 1; got {max_plans!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _check_players(dual: object, planner: object, progress: object) -> None:
    if progress is not None and not callable(progress):
        raise ProblemError(f"progress must be a function; got {progress!r}")
    for player, kind in ((dual, AbstractDual), (planner, AbstractPlanner)):
        if player is not None and not isinstance(player, kind):
            raise ProblemError(f"expected an instance of {kind.__name__}, got {player!r}")


def _standing(
    problem: Problem, program: AffineProgram | ConvexProgram, iteration: Iteration[Any], seconds: float
) -> Progress:
    """The solver's own view after a plan: for progress and stopping, never for a certificate."""
    duals = iteration.duals
    violation = float(program.violations(duals.g).max(initial=0.0))
    upper = duals.f if duals.feasible else None
    lower = duals.optimum.value if math.isfinite(duals.optimum.value) else None
    if problem.maximises:
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
    model: Known,
    planner: AbstractPlanner[Known],
    psi: Psi,
    mdp: TabularMDP,
    plans: Sequence[Plan | None],
    weights: Float[np.ndarray, "k"],
) -> Mixture:
    """The mixture of the plans; where soft policies are among them, as the one Markov policy that it equals."""
    used = [(float(weights[i]), plans[i]) for i in np.flatnonzero(weights).tolist()]
    actions = [plan.actions for _, plan in used if plan is not None and plan.actions is not None]
    if len(actions) == len(used):
        return Mixture(np.array([weight for weight, _ in used]), tuple(model.policy(one) for one in actions))
    layout = model.restrict(psi)
    table = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for weight, plan in used:
        assert plan is not None  # a plan with weight is kept
        table += weight * planner.occupancy(model, layout, plan)
    return Mixture(np.ones(1), (from_occupancy(table, mdp),))


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
    psi: Psi,
    model: Known,
    planner: AbstractPlanner[Known],
    duals: Duals[Any],
    lines: Sequence[Line],
) -> list[Record]:
    """Proofs that the constraints clash, the one that rests on the fewest of them first."""
    whole = _record(program, duals.conflict, 0.0)
    if isinstance(program, AffineProgram) or duals.conflict.point is not None or len(lines) == 1:
        return [whole]
    bound, dropped = smallest_clash(program, psi, model, planner, duals.conflict, lines)
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
