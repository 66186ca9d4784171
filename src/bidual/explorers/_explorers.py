"""Explorers for tabular models: optimistic, drawn from the posterior, and both in turn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from bidual._keys import Draw
from bidual.convex import AffineProgram, ConvexProgram
from bidual.explorers._base import AbstractExplorer, Choice
from bidual.explorers._inner import AbstractInner, Corrective, Mixed
from bidual.explorers._linearised import Linearised
from bidual.explorers._replanning import AbstractReplanning, Growth, Planned
from bidual.features import Psi
from bidual.models import AbstractModel, Knowledge, Known, Layout
from bidual.planners import AbstractPlanner, BackwardInduction, ExtendedValueIteration

World = tuple[AbstractModel, Layout, AbstractPlanner[Any]]  # what an explorer plans in, and with


class Lazy(NamedTuple):
    """The policies in use, when they were planned, and where the next planning starts."""

    mixed: Mixed | None
    planned: Planned | None
    warm: Any


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
        return "optimistic: regret and violation of order sqrt(episodes)"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: Knowledge) -> Lazy:
        """Nothing planned."""
        return Lazy(None, None, _suited(self.inner, program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Lazy, knowledge: Knowledge, draw: Draw
    ) -> tuple[Choice, Lazy]:
        """Plan over all laws that may be true, where the last plan has aged."""
        return _planned(self, program, memory, knowledge, draw, lambda: _all_laws(knowledge))


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
        return "posterior draws: none with constraints"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: Knowledge) -> Lazy:
        """Nothing planned."""
        return Lazy(None, None, _suited(self.inner, program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Lazy, knowledge: Knowledge, draw: Draw
    ) -> tuple[Choice, Lazy]:
        """Draw a law and plan in it, where the last plan has aged."""
        return _planned(
            self,
            program,
            memory,
            knowledge,
            draw,
            lambda: _one_law(knowledge, lambda: knowledge.drawn(draw.generator())),
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
        return "greedy: none"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: Knowledge) -> Lazy:
        """Nothing planned."""
        return Lazy(None, None, _suited(self.inner, program).init(program))

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: Lazy, knowledge: Knowledge, draw: Draw
    ) -> tuple[Choice, Lazy]:
        """Plan in the smoothed model, where the last plan has aged."""
        return _planned(self, program, memory, knowledge, draw, lambda: _one_law(knowledge, lambda: knowledge.estimate))


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
        return f"each in turn: {'; '.join(member.guarantee for member in self.members)}"

    def init(self, program: AffineProgram | ConvexProgram, knowledge: Knowledge) -> tuple[Any, ...]:
        """All at their start."""
        return tuple(member.init(program, knowledge) for member in self.members)

    def __call__(
        self, program: AffineProgram | ConvexProgram, memory: tuple[Any, ...], knowledge: Knowledge, draw: Draw
    ) -> tuple[Choice, tuple[Any, ...]]:
        """Whose turn it is."""
        turn = (draw.number - 1) % len(self.members)
        choice, own = self.members[turn](program, memory[turn], knowledge, draw)
        return choice, (*memory[:turn], own, *memory[turn + 1 :])


def _suited(inner: AbstractInner[Any, Any] | None, program: AffineProgram | ConvexProgram) -> AbstractInner[Any, Any]:
    if inner is not None:
        return inner
    return Corrective() if isinstance(program, AffineProgram) else Linearised()


def _planned(
    explorer: "Optimistic | Thompson | Greedy",
    program: AffineProgram | ConvexProgram,
    memory: Lazy,
    knowledge: Knowledge,
    draw: Draw,
    world: Callable[[], World],
) -> tuple[Choice, Lazy]:
    """One of the policies in use; where they have aged, those for the world as it is seen now."""
    if not _aged(explorer.replanning, memory, knowledge):
        return _drawn(memory, draw, 0)
    mixed, warm = _suited(explorer.inner, program)(program, *world(), memory.warm)
    return _drawn(Lazy(mixed, _now(knowledge), warm), draw, mixed.plans)


def _all_laws(knowledge: Knowledge) -> World:
    return knowledge.optimistic, knowledge.layout, ExtendedValueIteration()


def _one_law(knowledge: Knowledge, law: Callable[[], tuple[Known, Psi]]) -> World:
    """A single law to plan in; all of them while it is not known where episodes start."""
    if not knowledge.counts.episodes and knowledge.initial is None:
        return _all_laws(knowledge)
    model, psi = law()
    return model, model.restrict(psi), BackwardInduction()


def _aged(rule: AbstractReplanning, memory: Lazy, knowledge: Knowledge) -> bool:
    return memory.planned is None or rule.due(memory.planned, knowledge.counts)


def _now(knowledge: Knowledge) -> Planned:
    return Planned(knowledge.counts.episodes, knowledge.counts.pairs)


def _drawn(memory: Lazy, draw: Draw, plans: int) -> tuple[Choice, Lazy]:
    assert memory.mixed is not None  # the first call plans
    return Choice(memory.mixed.pick(draw.uniform()), plans), memory
