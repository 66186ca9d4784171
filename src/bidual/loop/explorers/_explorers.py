"""Explorers for tabular models: optimistic, by posterior samples, greedy, and several in turn."""

import abc
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np

from bidual._base.errors import ProblemError
from bidual._base.keys import Draw
from bidual.loop.explorers._base import AbstractExplorer, AbstractInner, Choice
from bidual.loop.explorers._linearised import choose_inner
from bidual.loop.explorers._replanning import (
    AbstractReplanning,
    Growth,
    PlanningTask,
    ReplanState,
    plan_in_one_law,
    plan_over_all_laws,
    sample_policy,
)
from bidual.models import AbstractCounted
from bidual.problem.convex import AbstractProgram
from bidual.world.policies import ControlPolicy, DeterministicPolicy


class AbstractReplanned(AbstractExplorer[ReplanState]):
    """An explorer that keeps its policies until they are out of date, and then solves the problem anew."""

    inner: AbstractInner[Any, Any] | None  # None: the one for the kind of program
    replanning: AbstractReplanning

    @abc.abstractmethod
    def choose_task(self, knowledge: AbstractCounted, draw: Draw) -> PlanningTask:
        """Choose the model and the planner in which the problem is solved."""

    def init(self, program: AbstractProgram, knowledge: AbstractCounted) -> ReplanState:
        """Return a memory without plans."""
        return ReplanState(None, None, choose_inner(self.inner, program).init(program))

    def __call__(
        self, program: AbstractProgram, memory: ReplanState, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, ReplanState]:
        """Plan for the chosen task, if the last plan is out of date."""
        inner = choose_inner(self.inner, program)
        make_task = partial(self.choose_task, knowledge, draw)
        return sample_policy(inner, self.replanning, program, memory, knowledge, draw, make_task)


@final
@dataclass(frozen=True)
class Optimistic(AbstractReplanned):
    """An explorer that solves the problem under the most favourable law that may be true.

    Promising actions are tried until they prove good or bad. Constraints hold under the optimistic law, not under the
    true one, while learning.
    """

    inner: AbstractInner[Any, Any] | None = None  # None: the one for the kind of program
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """Regret and violation of the order of the square root of the number of episodes."""
        return "optimistically: regret and violation of order sqrt(episodes)"

    def choose_task(self, knowledge: AbstractCounted, draw: Draw) -> PlanningTask:
        """Choose all laws that may be true."""
        del draw
        return plan_over_all_laws(knowledge)


@final
@dataclass(frozen=True)
class Thompson(AbstractReplanned):
    """An explorer that solves the problem under a law drawn from the posterior.

    It finds good policies early. No bound is known with constraints, and on large maps the lower bound stays open:
    rows that are bad under every draw are never tried.
    """

    inner: AbstractInner[Any, Any] | None = None  # None: the one for the kind of program
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """None with constraints."""
        return "by posterior draws: no rate is proved with constraints"

    def choose_task(self, knowledge: AbstractCounted, draw: Draw) -> PlanningTask:
        """Draw a law."""
        return plan_in_one_law(knowledge, lambda: knowledge.draw_posterior_sample(draw.generator()))


@final
@dataclass(frozen=True)
class Greedy(AbstractReplanned):
    """An explorer that solves the problem in the smoothed model, without exploration.

    It learns most about the actions of its own policy, and may never try others. Use it as a part of another explorer.
    """

    inner: AbstractInner[Any, Any] | None = None  # None: the one for the kind of program
    replanning: AbstractReplanning = field(default_factory=Growth)

    @property
    def guarantee(self) -> str:
        """None at all."""
        return "greedily: no rate is proved"

    def choose_task(self, knowledge: AbstractCounted, draw: Draw) -> PlanningTask:
        """Choose the smoothed model."""
        del draw
        return plan_in_one_law(knowledge, lambda: knowledge.estimate)


@final
@dataclass(frozen=True)
class EpsilonGreedy(AbstractExplorer[ReplanState]):
    """The greedy explorer with a random action at every step with probability `epsilon`.

    It discovers rewards within reach of a few random actions in a row, and takes exponentially long for others.
    """

    epsilon: float = 0.1
    inner: AbstractInner[Any, Any] | None = None  # None: the one for the kind of program
    replanning: AbstractReplanning = field(default_factory=Growth)

    def __post_init__(self) -> None:
        """Check the probability."""
        if not 0 <= self.epsilon <= 1:
            raise ProblemError(f"epsilon is a probability, from 0 to 1; got {self.epsilon!r}")

    @property
    def guarantee(self) -> str:
        """None that is not exponential in the horizon."""
        return "greedily with random actions: no rate is proved"

    def init(self, program: AbstractProgram, knowledge: AbstractCounted) -> ReplanState:
        """Return a memory without plans."""
        return self._greedy.init(program, knowledge)

    def __call__(
        self, program: AbstractProgram, memory: ReplanState, knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, ReplanState]:
        """Plan in the smoothed model; a step is reached once per episode, so its action can be drawn beforehand."""
        choice, memory = self._greedy(program, memory, knowledge, draw)
        assert not isinstance(choice.policy, ControlPolicy)  # plans in tables are tables
        rng, actions = draw.generator(), choice.policy.actions
        allowed = knowledge.counts.support.allowed
        anything = np.argmax(rng.random((*actions.shape, allowed.shape[1])) * allowed, axis=-1)
        mixed = np.where(rng.random(actions.shape) < self.epsilon, anything, actions).astype(actions.dtype)
        policy = knowledge.to_environment_policy(DeterministicPolicy(mixed, allowed.shape[1]))
        return Choice(policy, choice.plans), memory

    @property
    def _greedy(self) -> Greedy:
        return Greedy(self.inner, self.replanning)


@final
@dataclass(frozen=True)
class Alternating(AbstractExplorer[tuple[Any, ...]]):
    """Several explorers in turn.

    Optimism closes the bound; posterior draws find the policy, and learn the laws along it.
    """

    members: tuple[AbstractExplorer[Any], ...] = (Optimistic(), Thompson())

    @property
    def guarantee(self) -> str:
        """The guarantee of each, for its own episodes."""
        return f"in turn {'; '.join(member.guarantee for member in self.members)}"

    def init(self, program: AbstractProgram, knowledge: AbstractCounted) -> tuple[Any, ...]:
        """Return the first memories of all members."""
        return tuple(member.init(program, knowledge) for member in self.members)

    def __call__(
        self, program: AbstractProgram, memory: tuple[Any, ...], knowledge: AbstractCounted, draw: Draw
    ) -> tuple[Choice, tuple[Any, ...]]:
        """Call the member whose turn it is."""
        turn = (draw.number - 1) % len(self.members)
        choice, own = self.members[turn](program, memory[turn], knowledge, draw)
        return choice, (*memory[:turn], own, *memory[turn + 1 :])
