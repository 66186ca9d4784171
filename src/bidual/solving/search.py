"""The search: the loop over a known model until the gap seems closed or a budget is spent."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from bidual._base.errors import ModelError, ProblemError
from bidual.certificate import bound_floor
from bidual.certificate.constraints import Goal
from bidual.certificate.rounding import reach, with_rounding
from bidual.dual import ConicCorrective, Duals, FollowTheLeader, FullyCorrective, GradientAscent, Proximal, Reply
from bidual.loop.primal_dual import Iteration, primal_dual
from bidual.models import Known, Layout, Stationary, known_for_next_solve, stationary
from bidual.planners import can_carry
from bidual.problem.convex import AbstractProgram, ConvexProgram, VariationalProgram
from bidual.problem.features import Psi
from bidual.problem.modelling import Line, Problem
from bidual.solving.options import LEAST_FLOOR, SolveOptions
from bidual.solving.solution import Progress
from bidual.solving.stopping import has_stopped, is_hopeless, is_settled
from bidual.solving.totals import IsOver, complete, iterate_by_totals
from bidual.world.mdp import TabularMDP

_LOG = logging.getLogger("bidual.solve")

# Bounds below such a share need not be told apart to a millionth of themselves:
_LINEAR = 1e-4  # of what a linear objective can pay,
_CURVED = 1e-2  # of the first value that a convex one reached, unless that is next to 0:
_BOX = 1e-6  # then of what it is over the box of all images, which can be far beyond any value
_TINY = 1e-7  # of that share of the box: a first value below it may be nothing but rounding
_LOST = 1e-14  # of the box, by which arithmetic may move an image
_KEPT = 100  # of the latest plans, for a later start; those in use are kept in any case


@final
@dataclass(frozen=True, eq=False)
class Instance:
    """A known model and features over it, laid out for the planner once."""

    mdp: TabularMDP
    psi: Psi
    model: Known | Stationary
    layout: Layout


def prepare(problem: Problem, mdp: TabularMDP) -> tuple[AbstractProgram, Instance]:
    """Compile the problem, and lay out the model and features that every search over it shares."""
    program, psi = bind(problem, mdp)
    model = known_for_next_solve(mdp) if mdp.criterion is None else stationary(mdp)
    return program, Instance(mdp, psi, model, model.restrict(psi))


def bind(problem: Problem, mdp: TabularMDP) -> tuple[AbstractProgram, Psi]:
    """Compile the problem's rows and the features over this model; raises where they do not belong together."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"expected a bidual Problem, got {type(problem).__name__}: write bd.Problem(...)")
    if not isinstance(mdp, TabularMDP):
        raise ModelError(f"expected a TabularMDP, got {type(mdp).__name__}: an unknown model is for bd.learn")
    if problem.embedding.criterion != mdp.criterion:
        raise ProblemError(
            f"the problem is over another embedding: its time is {problem.embedding.criterion or 'a horizon'}, "
            f"the model's is {mdp.criterion or 'a horizon'}; make the embedding with this model's mdp.embedding(...)"
        )
    if problem.embedding.horizon != mdp.horizon:
        raise ProblemError(
            f"the problem is over another embedding: its horizon is {problem.embedding.horizon}, "
            f"the model's is {mdp.horizon}; make the embedding with this model's mdp.embedding(...)"
        )
    try:
        psi = mdp.stage(problem.embedding.features)
    except ModelError as error:
        raise ProblemError(
            f"the problem is over another embedding: {error}; make it with this model's mdp.embedding(...)"
        ) from error
    return with_rounding(problem.program(), psi, mdp), psi


class CompiledProblem(NamedTuple):
    """A compiled problem: rows or cone forms, the constraints as written, and the sense."""

    program: AbstractProgram
    lines: tuple[Line, ...]
    maximises: bool
    total: bool = False
    variational: VariationalProgram | None = None  # with conjugates, for the dual players that need them


class Search(NamedTuple):
    """The end of the loop: the state of the dual player, and all plans of its weights."""

    duals: Duals[Any]
    replies: tuple[Reply | None, ...]  # those known before come first; None for plans no longer in use
    history: tuple[Progress, ...]
    plans: int  # the new ones
    started: float
    goal: Goal


def search(
    compiled: CompiledProblem, world: Instance, options: SolveOptions, known: Sequence[Reply], started: float
) -> Search:
    """Run the loop until the gap seems closed or a budget is spent."""
    program = compiled.program
    replies: list[Reply | None] = []
    history: list[Progress] = []
    duals, first_value = None, None
    smallest = _compute_smallest_scale(program, world)
    goal = options.goal_at(smallest)
    floor = -np.inf if program.curved is None else bound_floor(program.curved, world.psi, world.mdp)

    def is_over(iteration: Iteration[Any]) -> bool:
        now = _report_progress(compiled, iteration, floor, time.perf_counter() - started)
        return options.is_spent(now) or is_settled(program, world.mdp, world.psi, iteration.duals, [now], goal)

    for iteration in _start_loop(compiled, world, options, known, is_over):
        duals = iteration.duals
        replies = list(iteration.known) if iteration.reply is None else [*replies, iteration.reply]
        if (
            first_value is None
            and program.curved is not None
            and duals.weights.size
            and duals.feasible
            and math.isfinite(duals.f)
        ):
            first_value = abs(duals.f)
            goal = options.goal_at(_CURVED * first_value)
            if first_value <= _TINY * smallest or first_value == 0:
                noise = _bound_noise(program.curved, world, duals, replies)
                goal = goal if first_value > noise else options.goal_at(smallest, noise)
        if duals.kept is not None:
            replies = [_drop_embedding(reply) if i in duals.kept else None for i, reply in enumerate(replies)]
        history.append(_report_progress(compiled, iteration, floor, time.perf_counter() - started))
        if options.progress is not None:
            options.progress(history[-1])
        _log_progress(history[-1])
        if options.is_spent(history[-1]) or is_settled(program, world.mdp, world.psi, duals, history, goal):
            break
        if not options.has_budget and is_hopeless(history, goal):
            break
    assert duals is not None  # the loop yields at least once
    ended = first_value is not None and (duals.stalled or has_stopped(history))
    if not (program.is_linear or ended):
        goal = goal._replace(floor=LEAST_FLOOR if goal.floor else 0.0)
    replies = complete(world.layout, world.model, replies, duals) if isinstance(world.model, Known) else replies
    return Search(duals, tuple(replies), tuple(history), history[-1].plans, started, goal)


def _log_progress(state: Progress) -> None:
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    bounds = ", ".join(f"{name} {end:.9g}" for name in ("lower", "upper") if (end := getattr(state, name)) is not None)
    _LOG.debug("plan %d: %s, violation %.3g", state.plans, bounds or "no bounds", state.violation)


def _compute_smallest_scale(program: AbstractProgram, world: Instance) -> float:
    """Compute the size below which bounds on the optimum are as good as 0.

    It is a share of what the objective can be, far above what arithmetic loses and far below what anyone asks for.
    """
    rows, cones = program.linear, program.curved
    if rows is not None:
        return _LINEAR * float(reach(world.mdp, world.psi, rows.objective[None])[0])
    assert cones is not None  # it is one or the other
    if cones.num_auxiliary:
        return 0.0
    peaks = np.broadcast_to(world.psi.peaks(world.mdp.scale), (world.mdp.horizon, world.psi.dimension))
    ends = cones.functions.enclosures(cones.image.offset, np.zeros(0), cones.image.spread(peaks))
    return _BOX * max(abs(float(end[0])) if np.isfinite(end[0]) else 0.0 for end in ends)


def _bound_noise(program: ConvexProgram, world: Instance, duals: Duals[Any], replies: Sequence[Reply | None]) -> float:
    """Bound the objective of a mixture that cannot be told from 0; infinite where its plans are known by images alone.

    An exponential is far below what it is elsewhere, and still known to all its digits; a norm of 1e-16 is not.
    """
    if duals.auxiliary.size != program.num_auxiliary:  # a player that minimises over them at every image
        return 0.0
    used = [(weight, reply) for weight, reply in zip(duals.weights, replies, strict=True) if weight > 0]
    images = [w * program.image(r.plan.embedding) for w, r in used if r is not None and r.plan.embedding.size]
    if len(images) < len(used):
        return np.inf
    peaks = np.broadcast_to(world.psi.peaks(world.mdp.scale), (world.mdp.horizon, world.psi.dimension))
    error = _LOST * (program.image.spread(peaks) + np.abs(program.image.offset))
    low, high = program.functions.enclosures(np.sum(images, axis=0), duals.auxiliary, error)
    return 1e3 * float(high[0] - low[0])


def select_worth_keeping(found: Search) -> tuple[Reply, ...]:
    """Return the plans to start another search from: those in use, and the latest."""
    first = max(0, len(found.replies) - _KEPT)
    latest = [reply for i, reply in enumerate(found.replies) if i >= first or found.duals.weights[i] > 0]
    # A soft policy is not the cheapest for its cost, so it proves nothing.
    return tuple(r for r in latest if r is not None and r.plan.soft_cost is None and r.plan.embedding.size)


def _drop_embedding(reply: Reply | None) -> Reply | None:
    """Drop the embedding of a plan, which takes 16 MB over 100 000 states: the dual player has its image."""
    if reply is None or reply.plan.embedding.size == 0:
        return reply
    nothing = np.zeros((len(reply.plan.embedding), 0))
    return reply._replace(plan=replace(reply.plan, embedding=nothing))


def _start_loop(
    compiled: CompiledProblem, world: Instance, options: SolveOptions, plans: Sequence[Reply], is_over: IsOver
) -> Iterator[Iteration[Any]]:
    """Start the loop with the dual player for the kind of program."""
    psi, model, dual = world.layout, world.model, options.dual
    planner: Any = options.best_planner(model)
    program = compiled.program
    if isinstance(dual, GradientAscent | FollowTheLeader):
        assert compiled.variational is not None  # the caller sets it
        return primal_dual(compiled.variational, psi, model, planner, dual, plans)
    rows, own = program.linear, dual is not None or options.planner is not None
    if rows is not None and not own and isinstance(model, Known) and can_carry(rows, psi, model):
        return iterate_by_totals(rows, psi, model, plans, is_over)
    return program.dispatch(
        lambda rows: primal_dual(rows, psi, model, planner, dual or FullyCorrective(), plans),
        lambda cones: primal_dual(cones, psi, model, planner, dual or _choose_for_cones(cones, options), plans),
    )


def _choose_for_cones(program: ConvexProgram, options: SolveOptions) -> ConicCorrective | Proximal:
    return (
        ConicCorrective()
        if program.smooth is None or program.equality.any()
        else Proximal(options.goal.gap, options.goal.relative)
    )


def _report_progress(compiled: CompiledProblem, iteration: Iteration[Any], floor: float, seconds: float) -> Progress:
    """Compute the solver's own bounds after a plan: for progress and stopping, never for a certificate."""
    duals = iteration.duals
    rows = compiled.variational or compiled.program  # constraints over auxiliary variables may be one there
    violation = float(rows.violations(duals.g).max(initial=0.0))
    upper = duals.f if duals.feasible else None
    lower = max(duals.optimum.value, floor)
    lower = lower if np.isfinite(lower) else None
    if compiled.maximises:
        lower, upper = (None if upper is None else -upper), (None if lower is None else -lower)
    return Progress(iteration.number, lower, upper, violation, seconds)
