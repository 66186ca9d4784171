"""The search: the loop over a known model until the gap seems closed or a budget is spent."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from bidual._effort import Effort
from bidual._errors import ModelError, ProblemError
from bidual.constraints import Goal
from bidual.convex import TOLERANCE, AffineProgram, ConvexProgram, VariationalProgram
from bidual.dual import ConicCorrective, Duals, FollowTheLeader, FullyCorrective, GradientAscent, Proximal, Reply
from bidual.features import Psi
from bidual.mdp import TabularMDP
from bidual.models import Known, Layout, known
from bidual.primal_dual import Iteration, primal_dual
from bidual.problem import Line, Problem
from bidual.rounding import with_rounding
from bidual.solution import Progress

_KEPT = 100  # of the latest plans, for a later start; those in use are kept in any case


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
    variational: VariationalProgram | None = None  # with conjugates, for the dual players that want them


class Search(NamedTuple):
    """Where the loop ended: what the dual player knows, and all plans that its weights run over."""

    duals: Duals[Any]
    replies: tuple[Reply | None, ...]  # those known before come first; None for plans that are of no use any more
    history: tuple[Progress, ...]
    plans: int  # the new ones
    started: float


def search(stated: Stated, world: World, effort: Effort, known: Sequence[Reply], started: float) -> Search:
    """Run the loop until the gap seems closed or a budget is spent."""
    program = stated.program
    replies: list[Reply | None] = []
    history: list[Progress] = []
    duals = None
    for iteration in _loop(stated, world, effort, known):
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


def _loop(stated: Stated, world: World, effort: Effort, plans: Sequence[Reply]) -> Iterator[Iteration[Any]]:
    """The loop with the dual player that fits the program."""
    psi, model, planner, dual = world.layout, world.model, effort.best_planner(), effort.dual
    program = stated.program
    if isinstance(dual, GradientAscent | FollowTheLeader):
        assert stated.variational is not None  # the caller has made it
        return primal_dual(stated.variational, psi, model, planner, dual, plans)
    if isinstance(program, AffineProgram):
        return primal_dual(program, psi, model, planner, dual or FullyCorrective(), plans)
    if dual is None:
        dual = ConicCorrective() if program.smooth is None or program.equality.any() else Proximal(*effort.goal)
    return primal_dual(program, psi, model, planner, dual, plans)


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
    if in_conflict(duals):
        violation = float((program.violations(duals.g) / program.units).max())
        return violation - duals.conflict.value <= 0.99 * gap
    return (
        state.lower is not None and state.upper is not None and Goal(0.99 * gap, relative).met(state.lower, state.upper)
    )


def in_conflict(duals: Duals[Any]) -> bool:
    """Whether the constraints with a multiplier are shown to clash by more than rounding."""
    return duals.conflict.value > TOLERANCE
