"""The loop: the dual player names a cost, the planner answers with its cheapest policy, the dual player learns."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from bidual._errors import ProblemError
from bidual.dual import AbstractDual, Duals, Program, Reply
from bidual.features import Psi
from bidual.models import AbstractModel, Layout, Stage
from bidual.planners import AbstractPlanner, AbstractSoftPlanner, Plan

M = TypeVar("M", bound=AbstractModel)
Memory = TypeVar("Memory")


@final
@dataclass(frozen=True, eq=False)
class Iteration(Generic[Memory]):
    """One turn of the loop: the plan that was made, and what the dual player knows after it.

    Number 0 is the state before the first plan, where plans were known: it has none of its own.
    """

    number: int
    reply: Reply | None
    duals: Duals[Memory]

    @property
    def plan(self) -> Plan:
        """The plan of this turn."""
        assert self.reply is not None  # only number 0 has none
        return self.reply.plan


def primal_dual(
    program: Program,
    psi: Psi | Layout | Stage,
    model: M,
    planner: AbstractPlanner[M],
    dual: AbstractDual[Program, Memory],
    known: Sequence[Reply] = (),
) -> Iterator[Iteration[Memory]]:
    """Variational primal-dual policy optimisation, for as long as the caller asks."""
    features: Any = psi if isinstance(psi, Layout) else model.restrict(psi)
    duals = dual.restart(program, known) if known else dual.init(program)
    if duals.weights.size:
        yield Iteration(0, None, duals)
    for number in itertools.count(1):
        reply = Reply(duals.theta, duals.gamma, _answer(planner, model, features, duals))
        planner = planner.after(reply.plan)
        duals = dual.step(program, duals, reply.plan)
        yield Iteration(number, reply, duals)


def _answer(planner: AbstractPlanner[M], model: M, features: Any, duals: Duals[Any]) -> Plan:  # noqa: ANN401
    """The cheapest plan, or the soft one where the dual player wants it."""
    if not duals.soft:
        return planner(model, features, duals.theta)
    if not isinstance(planner, AbstractSoftPlanner):
        raise ProblemError(f"this dual player asks for soft plans, which {type(planner).__name__} cannot make")
    return planner.soft(model, features, duals.theta)
