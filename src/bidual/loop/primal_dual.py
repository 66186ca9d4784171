"""The loop: the dual player chooses a cost, the planner computes the cheapest policy, the dual player updates."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from bidual._base.errors import ProblemError
from bidual.dual import AbstractDual, ConicCorrective, Duals, FullyCorrective, Program, Reply, read_weight
from bidual.models import AbstractModel, Layout, Stage
from bidual.planners import AbstractPlanner, AbstractSoftPlanner, Plan, Totals
from bidual.problem.convex import AbstractProgram, AffineProgram
from bidual.problem.features import Psi

M = TypeVar("M", bound=AbstractModel)
Memory = TypeVar("Memory")


@final
@dataclass(frozen=True, eq=False)
class Iteration(Generic[Memory]):
    """One iteration of the loop: the plan, and the state of the dual player after it.

    Number 0 is the state before the first new plan, where plans were known: it has no plan of its own. So has a state
    that was computed anew: its weights run over the known plans, and over those that come after it.
    """

    number: int
    reply: Reply | None
    duals: Duals[Memory]
    known: tuple[Reply, ...] = ()

    @property
    def plan(self) -> Plan:
        """The plan of this iteration."""
        assert self.reply is not None  # only states of known plans have none
        return self.reply.plan


def primal_dual(
    program: Program,
    psi: Psi | Layout | Stage,
    model: M,
    planner: AbstractPlanner[M],
    dual: AbstractDual[Program, Memory],
    known: Sequence[Reply] = (),
) -> Iterator[Iteration[Memory]]:
    """Iterate variational primal-dual policy optimisation, until the caller stops."""
    features: Any = psi if isinstance(psi, Layout) else model.restrict(psi)
    duals = dual.restart(program, known) if known else dual.init(program)
    if duals.weights.size:
        yield Iteration(0, None, duals, tuple(known))
    for number in itertools.count(1):
        reply = Reply(duals.theta, duals.gamma, _plan(planner, model, features, duals))
        planner = planner.after(reply.plan)
        duals = dual.step(program, duals, reply.plan)
        yield Iteration(number, reply, duals)


def carry_totals(
    program: AffineProgram, totals: Totals, dual: AbstractDual[AffineProgram, Any], duals: Duals[Any], done: int = 0
) -> Iterator[Iteration[Any]]:
    """Iterate over plans of which only totals are computed, those of objective and row, from a state after `done`."""
    for number in itertools.count(done + 1):
        assert duals.gamma is not None  # costs of linear programs are made of multipliers
        plan = totals.plan(duals.gamma, read_weight(duals))
        reply = Reply(duals.theta, duals.gamma, plan)
        duals = dual.step(program, duals, plan)
        yield Iteration(number, reply, duals)


def run_corrective(
    program: AbstractProgram,
    psi: Psi | Layout | Stage,
    model: M,
    planner: AbstractPlanner[M],
    known: Sequence[Reply] = (),
    *,
    smoothing: float = 0.3,
) -> Iterator[Iteration[Any]]:
    """Run the loop with the corrective dual player for this kind of program."""
    return program.dispatch(
        lambda rows: primal_dual(rows, psi, model, planner, FullyCorrective(smoothing), known),
        lambda cones: primal_dual(cones, psi, model, planner, ConicCorrective(smoothing), known),
    )


def _plan(planner: AbstractPlanner[M], model: M, features: Any, duals: Duals[Any]) -> Plan:  # noqa: ANN401
    """Compute the cheapest plan, or the soft one if the dual player requests it."""
    if not duals.soft:
        return planner(model, features, duals.theta)
    if not isinstance(planner, AbstractSoftPlanner):
        raise ProblemError(f"this dual player asks for soft plans, which {type(planner).__name__} cannot make")
    return planner.soft(model, features, duals.theta)
