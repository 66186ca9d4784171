"""Explorers for tabular models: optimistic, drawn from the posterior, greedy, and several in turn."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from bidual._errors import ProblemError
from bidual._keys import Draw
from bidual.convex import AffineProgram, ConvexProgram
from bidual.explorers._base import AbstractExplorer, Choice
from bidual.explorers._inner import AbstractInner
from bidual.explorers._lazy import Lazy, all_laws, one_law, planned, suited
from bidual.explorers._replanning import AbstractReplanning, Growth
from bidual.models import AbstractCounted
from bidual.policies import ControlPolicy, DeterministicPolicy


@final
@dataclass(frozen=True)
class Optimistic(AbstractExplorer[Lazy]):
    """Solve the problem as if the most favourable law that may be true were true.

    What is promising is tried until it is either true or known not to be. Constraints are kept in the imagined world,
    not in the real one, while learning.
    """

    inner: AbstractInner[Any, Any] | None = None  # None: the one that suits the problem
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """Regret and violation grow like the square root of the number of episodes."""
        return "optimistically: regret and violation of order sqrt(episodes)"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> Lazy:
        """Nothing planned."""
        return Lazy(None, None, suited(self.inner, program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Lazy, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, Lazy]:
        """Plan over all laws that may be true, where the last plan has aged."""
        return planned(
            suited(self.inner, program), self.replanning, program, memory, knowledge, draw, lambda: all_laws(knowledge)
        )


@final
@dataclass(frozen=True)
class Thompson(AbstractExplorer[Lazy]):
    """Solve the problem in a law drawn from the posterior.

    It finds good policies early. No bound is known with constraints, and on large maps the lower bound stays open:
    rows that look bad under every draw are never tried.
    """

    inner: AbstractInner[Any, Any] | None = None  # None: the one that suits the problem
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """None with constraints."""
        return "by posterior draws: no rate is proved with constraints"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> Lazy:
        """Nothing planned."""
        return Lazy(None, None, suited(self.inner, program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Lazy, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, Lazy]:
        """Draw a law and plan in it, where the last plan has aged."""
        return planned(
            suited(self.inner, program),
            self.replanning,
            program,
            memory,
            knowledge,
            draw,
            lambda: one_law(knowledge, lambda: knowledge.drawn(draw.generator())),
        )


@final
@dataclass(frozen=True)
class Greedy(AbstractExplorer[Lazy]):
    """Solve the problem in the smoothed model: what is believed to be best.

    It learns most about what it does already, and may never try anything else. Use it as a part of something else.
    """

    inner: AbstractInner[Any, Any] | None = None  # None: the one that suits the problem
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """None at all."""
        return "greedily: no rate is proved"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> Lazy:
        """Nothing planned."""
        return Lazy(None, None, suited(self.inner, program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Lazy, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, Lazy]:
        """Plan in the smoothed model, where the last plan has aged."""
        return planned(
            suited(self.inner, program),
            self.replanning,
            program,
            memory,
            knowledge,
            draw,
            lambda: one_law(knowledge, lambda: knowledge.estimate),
        )


@final
@dataclass(frozen=True)
class EpsilonGreedy(AbstractExplorer[Lazy]):
    """Greedy, but for a random action now and then: at every step with probability `epsilon`.

    It finds what a few random actions in a row can find, and takes exponentially long for more.
    """

    epsilon: float = 0.1
    inner: AbstractInner[Any, Any] | None = None  # None: the one that suits the problem
    replanning: AbstractReplanning = field(default_factory=Growth)

    def __post_init__(self) -> None:
        """Check the probability."""
        if not 0 <= self.epsilon <= 1:
            raise ProblemError(f"epsilon is a probability, from 0 to 1; got {self.epsilon!r}")

    @property
    def guarantee(self) -> str:
        """None that would not be exponential in the horizon."""
        return "greedily with random actions: no rate is proved"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> Lazy:
        """Nothing planned."""
        return Lazy(None, None, suited(self.inner, program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Lazy, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, Lazy]:
        """Plan in the smoothed model; a step is reached once per episode, so its action can be drawn beforehand."""
        choice, memory = planned(
            suited(self.inner, program),
            self.replanning,
            program,
            memory,
            knowledge,
            draw,
            lambda: one_law(knowledge, lambda: knowledge.estimate),
        )
        assert not isinstance(choice.policy, ControlPolicy)  # plans in tables are tables
        rng, actions = draw.generator(), choice.policy.actions
        allowed = knowledge.counts.support.allowed
        anything = np.argmax(rng.random((*actions.shape, allowed.shape[1])) * allowed, axis=-1)
        mixed = np.where(rng.random(actions.shape) < self.epsilon, anything, actions).astype(actions.dtype)
        return Choice(knowledge.playable(DeterministicPolicy(mixed, allowed.shape[1])), choice.plans), memory


@final
@dataclass(frozen=True)
class Alternating(AbstractExplorer[tuple[Any, ...]]):
    """Several explorers in turn.

    Optimism closes the bound, posterior draws find the policy and learn what it needs: both are wanted.
    """

    members: tuple[AbstractExplorer[Any], ...] = (Optimistic(), Thompson())

    @property
    def guarantee(self) -> str:
        """That of each, for its own episodes."""
        return f"in turn {'; '.join(member.guarantee for member in self.members)}"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: AbstractCounted) -> tuple[Any, ...]:
        """All at their start."""
        return tuple(member.init(program, knowledge) for member in self.members)

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: tuple[Any, ...], knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, tuple[Any, ...]]:
        """Whose turn it is."""
        turn = (draw.number - 1) % len(self.members)
        choice, own = self.members[turn](program, memory[turn], knowledge, draw)
        return choice, (*memory[:turn], own, *memory[turn + 1 :])
