"""Exploring with controls: dynamics to hope for, and the problem solved in them by a sampling planner.

Algorithm 2 of the paper with its oracle replaced: the optimistic plan is searched for by sampling, so its value bounds
nothing, and exploring so is a heuristic. Dual player, planner and model are those of the same loop as everywhere.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from bidual._errors import ProblemError
from bidual._keys import Draw
from bidual.control import (
    AbstractExecution,
    AbstractOptimism,
    Among,
    CheapestAmong,
    Feedback,
    Regulator,
    Sampling,
    icem,
)
from bidual.control import Thompson as Drawn
from bidual.convex import AffineProgram, ConvexProgram
from bidual.explorers._base import AbstractExplorer, Choice
from bidual.explorers._inner import AbstractInner, Corrective
from bidual.explorers._linearised import Linearised
from bidual.models import AbstractModel, ControlKnowledge
from bidual.planners import AbstractPlanner
from bidual.policies import ControlPolicy, RandomControls


class Controlled(NamedTuple):
    """Where the inner solver starts the next time."""

    warm: Any


@final
@dataclass(frozen=True)
class Controls(AbstractExplorer[Controlled]):
    """Plan controls in the dynamics that an optimism hopes for, before every episode.

    Args:
        optimism: which dynamics to plan in: `bd.control.Thompson()`, `Hallucinated(beta)`, ...
        sampler: how sequences of controls are searched: `bd.control.icem()`, `mppi()`, ...
        execution: how a sequence becomes a policy: `bd.control.Feedback()`, `Mpc(every=5)`, `OpenLoop()`.
        inner: how the problem is solved over plans; by default the one that suits it.
        rollouts: how many paths of the model an embedding is an average of.
        warmup: episodes of random controls before the first plan.
    """

    optimism: AbstractOptimism = field(default_factory=Drawn)
    sampler: Sampling = field(default_factory=icem)
    execution: AbstractExecution = field(default_factory=Feedback)
    inner: AbstractInner[Any, Any] | None = None
    rollouts: int = 32
    warmup: int = 1

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.warmup < 1:
            raise ProblemError(f"warmup must be at least 1: nobody knows where episodes begin; got {self.warmup!r}")

    @property
    def guarantee(self) -> str:
        """None: the planner is a heuristic."""
        return f"by controls planned in {self.optimism.words}: a sampling planner is a heuristic, no rate is proved"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: ControlKnowledge) -> Controlled:
        """Nothing planned."""
        return Controlled(self._inner(program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Controlled, knowledge: ControlKnowledge, draw: Draw
    ) -> tuple[Choice, Controlled]:
        """Random controls to begin with, then the problem solved anew."""
        if knowledge.episodes < self.warmup:
            return Choice(at_random(knowledge), 0), memory
        model, planner = self._hoped(knowledge, draw)
        mixed, warm = self._inner(program)(program, model, knowledge.stage, planner, memory.warm)
        return Choice(mixed.pick(draw.uniform()), mixed.plans), Controlled(warm)

    def _inner(self, program: AffineProgram | ConvexProgram) -> AbstractInner[Any, Any]:
        if self.inner is not None:
            return self.inner
        rough = Corrective(gap=None, max_plans=8)
        return rough if isinstance(program, AffineProgram) else Linearised(rough)

    def _hoped(self, knowledge: ControlKnowledge, draw: Draw) -> tuple[AbstractModel, AbstractPlanner[Any]]:
        members = self.optimism(knowledge.world, draw.generator())
        regulator = Regulator(self.sampler, self.execution, self.rollouts, draw)
        return (members[0], regulator) if len(members) == 1 else (Among(members), CheapestAmong(regulator))


def at_random(knowledge: ControlKnowledge) -> ControlPolicy:
    """Random controls within their limits."""
    H, n, _ = knowledge.shape
    low, high = knowledge.limits
    return ControlPolicy(RandomControls(H, n, low, high), low, high, knowledge.discrete)
