"""Exploring with controls: dynamics to hope for, and the problem solved in them by a sampling planner.

Algorithm 2 of the paper with its oracle replaced: the optimistic plan is searched for by sampling, so its value bounds
nothing, and exploring so is a heuristic. Dual player, planner and model are those of the same loop as everywhere.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual._keys import Draw
from bidual.control import (
    AbstractExecution,
    AbstractOptimism,
    AbstractSearch,
    Among,
    Chain,
    CheapestAmong,
    Descent,
    Mpc,
    Regulator,
    icem,
)
from bidual.control import Thompson as Drawn
from bidual.convex import AffineProgram, ConvexProgram, VariationalProgram
from bidual.dual import FollowTheLeader, GradientAscent
from bidual.explorers._base import AbstractExplorer, Choice
from bidual.explorers._inner import AbstractInner, Corrective
from bidual.explorers._linearised import Linearised
from bidual.explorers._steps import Steps, first_Gamma
from bidual.explorers._turns import Owed, in_turn
from bidual.models import AbstractModel, ControlKnowledge
from bidual.planners import AbstractPlanner
from bidual.policies import ControlPolicy, RandomControls
from bidual.problem import variational


class Controlled(NamedTuple):
    """Where the inner solver starts the next time, or where primal-dual steps stand; what was run too little so far."""

    warm: Any
    steps: Steps | None = None
    owed: Owed | None = None


@final
@dataclass(frozen=True)
class Controls(AbstractExplorer[Controlled]):
    """Plan controls in the dynamics that an optimism hopes for, before every episode.

    Where the answer is a mixture of plans, its members are run in turn, so that over the episodes they add up to it.

    The defaults failed least, of what was tried, on eight tasks with all laws learned (docs/control.md). They look 50
    steps ahead: where nothing is paid within 50 steps of a good way, give `Mpc(5, n)` or `Feedback()`.

    Args:
        optimism: which dynamics to plan in: `bd.control.Thompson()`, `Hallucinated(beta)`, ...
        sampler: how sequences of controls are searched: `bd.control.icem()`, `mppi()`, ...; `Chain(icem(), Descent())`
            descends from what was sampled.
        execution: how a sequence becomes a policy: `bd.control.Feedback()`, an explicit law that files hold and other
            programs can run, `Mpc(every=5)` or `OpenLoop()`.
        dual: None, to solve the problem over plans before every episode; or the dual player of primal-dual steps, one
            for every episode, as the paper's Algorithm 2 has it: `GradientAscent()` or `FollowTheLeader()`.
        inner: how the problem is solved without steps; by default the one that suits it.
        rollouts: how many paths of the model an embedding is an average of.
        warmup: episodes of random controls before the first plan.
        push: how random they are: their deviation, in halves of the range of a control.
    """

    optimism: AbstractOptimism = field(default_factory=lambda: Drawn(0.3))
    sampler: AbstractSearch = field(default_factory=lambda: Chain(icem(64, 3, deviation=1.0), Descent(4)))
    execution: AbstractExecution = field(default_factory=lambda: Mpc(5, 50))
    dual: GradientAscent | FollowTheLeader | None = None
    inner: AbstractInner[Any, Any] | None = None
    rollouts: int = 8
    warmup: int = 1
    push: float = 0.5

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.warmup < 1:
            raise ProblemError(f"warmup must be at least 1: nobody knows where episodes begin; got {self.warmup!r}")

    @property
    def guarantee(self) -> str:
        """None: the planner is a heuristic."""
        steps = "" if self.dual is None else "primal-dual steps and "
        plans = f"by {steps}controls planned in {self.optimism.words}"
        return f"{plans}: a sampling planner is a heuristic, no rate is proved"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: ControlKnowledge) -> Controlled:
        """Nothing planned."""
        if self.dual is None:
            return Controlled(self._inner(program).init(program))
        functions = _with_conjugates(program, knowledge)
        dual = self.dual
        if dual.Gamma is None:
            dual = replace(dual, Gamma=first_Gamma(functions), doubling=True)
        return Controlled(None, Steps(functions, knowledge.pieces, dual, dual.init(functions)))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Controlled, knowledge: ControlKnowledge, draw: Draw
    ) -> tuple[Choice, Controlled]:
        """Random controls to begin with, then the problem solved anew."""
        if knowledge.episodes < self.warmup:
            return Choice(_at_random(knowledge, self.push), 0), memory
        model, planner = self._hoped(knowledge, draw)
        if memory.steps is not None:
            return _stepped(memory.steps, model, planner, knowledge)
        mixed, warm = self._inner(program)(program, model, knowledge.stage, planner, memory.warm)
        if not mixed.expected:
            return Choice(mixed.pick(draw.uniform()), mixed.plans), Controlled(warm)
        place, owed = in_turn(program, mixed, memory.owed)
        return Choice(mixed.policies[place], mixed.plans, mixed.expected[place]), Controlled(warm, owed=owed)

    def _inner(self, program: AffineProgram | ConvexProgram) -> AbstractInner[Any, Any]:
        if self.inner is not None:
            return self.inner
        rough = Corrective(gap=None, max_plans=8)
        return rough if isinstance(program, AffineProgram) else Linearised(rough)

    def _hoped(self, knowledge: ControlKnowledge, draw: Draw) -> tuple[AbstractModel, AbstractPlanner[Any]]:
        members = self.optimism(knowledge.world, draw.generator())
        regulator = Regulator(self.sampler, self.execution, self.rollouts, draw)
        return (members[0], regulator) if len(members) == 1 else (Among(members), CheapestAmong(regulator))


def _stepped(
    steps: Steps, model: AbstractModel, planner: AbstractPlanner[Any], knowledge: ControlKnowledge
) -> tuple[Choice, Controlled]:
    """One plan for the present cost, and one step of the dual player; plans for its bounds are not run."""
    dual, duals, aside = steps.dual, steps.duals, 0
    while duals.soft or duals.memory.looking:
        duals = dual.step(steps.program, duals, planner(model, knowledge.stage, duals.theta))
        aside += 1
    plan = planner(model, knowledge.stage, duals.theta)
    after = steps._replace(duals=dual.step(steps.program, duals, plan))
    return Choice(plan.actions, aside + 1, plan.embedding), Controlled(None, after)


def _with_conjugates(program: AffineProgram | ConvexProgram, knowledge: ControlKnowledge) -> VariationalProgram:
    """The problem with a conjugate for every function; the compact sets come from the bounds of the signals."""

    def least(theta: Float[np.ndarray, "H d"]) -> float:
        low = float(knowledge.pieces.span(theta[None])[0][0])
        if not np.isfinite(low):
            raise ProblemError(
                "primal-dual steps need a compact set that holds every embedding, and a signal of the problem has no "
                "bounds: declare them, bd.features.signal(function, low, high), or leave out the dual player"
            )
        return low

    return variational(program, None, least)


def _at_random(knowledge: ControlKnowledge, push: float) -> ControlPolicy:
    """Random controls within their limits."""
    H, n, _ = knowledge.shape
    low, high = knowledge.limits
    return ControlPolicy(RandomControls(H, n, low, high, push), low, high, knowledge.discrete)
