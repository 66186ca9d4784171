"""Explorers and their inner solvers: the problem over laws that may be true, to a rough gap, from the last solution."""

import abc
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.keys import Draw
from bidual.dual import FullyCorrective
from bidual.loop.primal_dual import primal_dual
from bidual.models import AbstractModel, Layout, Stage
from bidual.planners import AbstractPlanner
from bidual.problem.convex import AbstractProgram, AffineProgram, ConvexProgram
from bidual.world.policies import Played

Memory = TypeVar("Memory")


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """The policy of the next episode, the number of plans for it, and its embedding in the planning model.

    `expected` is the embedding of the policy in the dynamics that it was planned in, not in the true ones; None without
    a plan, or where plans stay in use and only their policies are kept.
    """

    __repr__ = describe_briefly

    policy: Played
    plans: int
    expected: Float[np.ndarray, "H d"] | None = None


class AbstractExplorer(abc.ABC, Generic[Memory]):
    """Dual player and planner together: the choice of the next policy."""

    @property
    @abc.abstractmethod
    def guarantee(self) -> str:
        """The guarantee that theory gives for this explorer, as a short text."""

    @abc.abstractmethod
    def init(self, program: AbstractProgram, knowledge: Any) -> Memory:  # noqa: ANN401 - depends on the kind of model
        """Return the memory before the first episode."""

    @abc.abstractmethod
    def __call__(
        self,
        program: AbstractProgram,
        memory: Memory,
        knowledge: Any,  # noqa: ANN401
        draw: Draw,
    ) -> tuple[Choice, Memory]:
        """Choose the policy of one episode; `draw` is the only source of randomness."""


Program = TypeVar("Program", AffineProgram, ConvexProgram)
Warm = TypeVar("Warm")


class PlanMixture(NamedTuple):
    """Policies with weights, the number of plans for them, and the embedding of each in the model.

    Embeddings are left out (empty) where policies stay in use for long: they would be stored with the run.
    """

    policies: tuple[Played, ...]
    weights: Float[np.ndarray, "k"]
    plans: int
    expected: tuple[Float[np.ndarray, "..."], ...] = ()

    def pick(self, uniform: float) -> Played:
        """Select one of the policies, by its weight and a number in [0, 1)."""
        return self.policies[self.place(uniform)]

    def place(self, uniform: float) -> int:
        """Return the index of that policy."""
        weights = self.weights.tolist()
        left = uniform * sum(weights)
        for place, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return place
        return len(weights) - 1


class AbstractInner(abc.ABC, Generic[Program, Warm]):
    """A solver that returns policies for a program over a model."""

    @abc.abstractmethod
    def init(self, program: Program) -> Warm:
        """Return the start before the first plan."""

    @abc.abstractmethod
    def __call__(
        self, program: Program, model: AbstractModel, psi: Layout | Stage, planner: AbstractPlanner[Any], warm: Warm
    ) -> tuple[PlanMixture, Warm]:
        """Solve, and return the mixture and the start of the next solve."""


@final
@dataclass(frozen=True)
class Corrective(AbstractInner[AffineProgram, tuple[float, ...] | None]):
    """The inner solver of linear problems: the fully corrective loop, from the last multipliers, to a rough gap.

    Args:
        gap: gap of the mixture, relative to the range of the objective over the plans. None: until a plan brings
            nothing new, for heuristic planners, whose plans prove no bound.
        max_plans: number of plans after which the best mixture so far is returned.
    """

    gap: float | None = 1e-3
    max_plans: int = 30

    def init(self, program: AffineProgram) -> tuple[float, ...] | None:
        """Return None: there are no multipliers yet."""
        return None

    def __call__(
        self,
        program: AffineProgram,
        model: AbstractModel,
        psi: Layout | Stage,
        planner: AbstractPlanner[Any],
        warm: tuple[float, ...] | None,
    ) -> tuple[PlanMixture, tuple[float, ...] | None]:
        """Plan until the gap is closed; if no mixture is feasible, return the one of least violation."""
        mixed, _, gamma = self.solve(program, model, psi, planner, warm)
        return mixed, gamma

    def solve(
        self,
        program: AffineProgram,
        model: AbstractModel,
        psi: Layout | Stage,
        planner: AbstractPlanner[Any],
        warm: tuple[float, ...] | None,
    ) -> tuple[PlanMixture, Float[np.ndarray, "H d"], tuple[float, ...]]:
        """Solve for the mixture, its embedding and its multipliers."""
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
        return PlanMixture(policies, weights, len(plans), expected), embedding, tuple(gamma.tolist())
