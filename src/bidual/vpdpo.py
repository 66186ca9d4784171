"""The loop: the dual player names a cost, the planner answers with its cheapest policy, the dual player learns."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from bidual.dual import AbstractDual, Duals, Program
from bidual.features import Psi
from bidual.models import AbstractModel
from bidual.planners import AbstractPlanner, Plan

M = TypeVar("M", bound=AbstractModel)
Memory = TypeVar("Memory")


@final
@dataclass(frozen=True, eq=False)
class Iteration(Generic[Memory]):
    """One turn of the loop: the plan that was made, and what the dual player knows after it."""

    number: int
    plan: Plan
    duals: Duals[Memory]


def vpdpo(
    program: Program,
    psi: Psi,
    model: M,
    planner: AbstractPlanner[M],
    dual: AbstractDual[Program, Memory],
) -> Iterator[Iteration[Memory]]:
    """Variational primal-dual policy optimisation, for as long as the caller asks."""
    features = model.restrict(psi)
    duals = dual.init(program)
    for number in itertools.count(1):
        answer = planner.soft if duals.soft else planner
        plan = answer(model, features, duals.theta)
        duals = dual.step(program, duals, plan)
        yield Iteration(number, plan, duals)
