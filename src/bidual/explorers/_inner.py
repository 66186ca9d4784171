"""How an explorer solves the problem over laws that may be true: as far as exploration needs, from where it was."""

import abc
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Float

from bidual.convex import AffineProgram, ConvexProgram
from bidual.dual import FullyCorrective
from bidual.models import AbstractModel, Layout, Stage
from bidual.planners import AbstractPlanner
from bidual.policies import Played
from bidual.primal_dual import primal_dual

Program = TypeVar("Program", AffineProgram, ConvexProgram)
Warm = TypeVar("Warm")


class Mixed(NamedTuple):
    """Policies to draw from, how many plans it took to find them, and what each is expected to see in the model.

    What is expected is left out (empty) where policies stay in use for long: it would be stored with the run.
    """

    policies: tuple[Played, ...]
    weights: Float[np.ndarray, "k"]
    plans: int
    expected: tuple[Float[np.ndarray, "..."], ...] = ()

    def pick(self, uniform: float) -> Played:
        """One of the policies, by its weight and a number in [0, 1)."""
        return self.policies[self.place(uniform)]

    def place(self, uniform: float) -> int:
        """Which of the policies that is."""
        weights = self.weights.tolist()
        left = uniform * sum(weights)
        for place, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return place
        return len(weights) - 1


class AbstractInner(abc.ABC, Generic[Program, Warm]):
    """Policies for a program over a model."""

    @abc.abstractmethod
    def init(self, program: Program) -> Warm:
        """Where to start before the first plan."""

    @abc.abstractmethod
    def __call__(
        self, program: Program, model: AbstractModel, psi: Layout | Stage, planner: AbstractPlanner[Any], warm: Warm
    ) -> tuple[Mixed, Warm]:
        """Solve, and where to start the next time."""


@final
@dataclass(frozen=True)
class Corrective(AbstractInner[AffineProgram, tuple[float, ...] | None]):
    """Linear problems: the fully corrective loop, from the multipliers of the last time, to a rough gap.

    Args:
        gap: of the mixture that is explored with, relative to the range of the objective over the plans. None: until
            a plan brings nothing new, for planners that are heuristics: what they find bounds nothing.
        max_plans: after which the best mixture so far is taken.
    """

    gap: float | None = 1e-3
    max_plans: int = 30

    def init(self, program: AffineProgram) -> tuple[float, ...] | None:
        """No multipliers yet."""
        return None

    def __call__(
        self,
        program: AffineProgram,
        model: AbstractModel,
        psi: Layout | Stage,
        planner: AbstractPlanner[Any],
        warm: tuple[float, ...] | None,
    ) -> tuple[Mixed, tuple[float, ...] | None]:
        """Plan until the gap is closed; a mixture that must violate a limit is kept as the best there is."""
        mixed, _, gamma = self.solve(program, model, psi, planner, warm)
        return mixed, gamma

    def solve(
        self,
        program: AffineProgram,
        model: AbstractModel,
        psi: Layout | Stage,
        planner: AbstractPlanner[Any],
        warm: tuple[float, ...] | None,
    ) -> tuple[Mixed, Float[np.ndarray, "H d"], tuple[float, ...]]:
        """The mixture, its embedding and its multipliers."""
        dual = FullyCorrective(first=warm) if self.gap is not None else FullyCorrective(smoothing=0.0, first=warm)
        plans, values, duals = [], [], dual.init(program)
        for turn in primal_dual(program, psi, model, planner, dual):
            duals = turn.duals
            plans.append(turn.plan)
            values.append(program.values(turn.plan.embedding)[0])
            closed = self.gap is not None and duals.feasible
            closed = closed and duals.f - duals.optimum.value <= (self.gap or 0.0) * max(float(np.ptp(values)), 1e-9)
            if closed or duals.stalled or len(plans) >= self.max_plans:
                break
        used = np.flatnonzero(duals.weights)
        weights = duals.weights[used]
        policies = tuple(model.policy(plans[i].actions) for i in used)
        expected = tuple(plans[i].embedding for i in used)
        embedding = np.tensordot(weights, np.stack(expected), axes=1)
        gamma = duals.optimum.gamma if np.isfinite(duals.optimum.value) else np.zeros(program.limits.size)
        if self.gap is None and duals.gamma is not None:
            gamma = duals.gamma  # of the master: the best bound may be a failure of the planner
        return Mixed(policies, weights, len(plans), expected), embedding, tuple(gamma.tolist())
