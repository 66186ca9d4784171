"""Planning now and then: policies that stay in use until the counts they were made from have grown."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bidual._keys import Draw
from bidual.convex import AffineProgram, ConvexProgram
from bidual.explorers._base import Choice
from bidual.explorers._inner import AbstractInner, Corrective, Mixed
from bidual.explorers._linearised import Linearised
from bidual.explorers._replanning import AbstractReplanning, Planned
from bidual.features import Psi
from bidual.models import AbstractCounted, AbstractModel, Known, Layout
from bidual.planners import AbstractPlanner, BackwardInduction, optimist
from bidual.policies import DeterministicPolicy, Played

World = tuple[AbstractModel, Layout, AbstractPlanner[Any]]  # what an explorer plans in, and with


class Lazy(NamedTuple):
    """The policies in use, when they were planned, and where the next planning starts."""

    mixed: Mixed | None
    planned: Planned | None
    warm: Any


def suited(inner: AbstractInner[Any, Any] | None, program: AffineProgram | ConvexProgram) -> AbstractInner[Any, Any]:
    """The inner solver that was given, or the one for this kind of program."""
    if inner is not None:
        return inner
    return Corrective() if isinstance(program, AffineProgram) else Linearised()


def planned(
    inner: AbstractInner[Any, Any],
    replanning: AbstractReplanning,
    program: AffineProgram | ConvexProgram,
    memory: Lazy,
    knowledge: AbstractCounted,
    draw: Draw,
    world: Callable[[], World],
) -> tuple[Choice, Lazy]:
    """One of the policies in use; where they have aged, those for the world as it is seen now."""
    if not _aged(replanning, memory, knowledge):
        return _drawn(memory, draw, 0)
    mixed, warm = inner(program, *world(), memory.warm)
    playable = tuple(_playable(knowledge, policy) for policy in mixed.policies)
    mixed = mixed._replace(policies=playable, expected=())
    return _drawn(Lazy(mixed, _now(knowledge), warm), draw, mixed.plans)


def all_laws(knowledge: AbstractCounted) -> World:
    """Everything that may be true."""
    return knowledge.optimistic, knowledge.layout, optimist(knowledge.optimistic)


def one_law(knowledge: AbstractCounted, law: Callable[[], tuple[Known, Psi]]) -> World:
    """A single law to plan in; all of them while it is not known where episodes start."""
    if not knowledge.counts.episodes and knowledge.initial is None:
        return all_laws(knowledge)
    model, psi = law()
    return model, model.restrict(psi), BackwardInduction()


def _playable(knowledge: AbstractCounted, policy: Played) -> Played:
    """A table over states that only the model knows as a policy for the environment."""
    return knowledge.playable(policy) if isinstance(policy, DeterministicPolicy) else policy


def _aged(rule: AbstractReplanning, memory: Lazy, knowledge: AbstractCounted) -> bool:
    return memory.planned is None or rule.due(memory.planned, knowledge.counts)


def _now(knowledge: AbstractCounted) -> Planned:
    return Planned(knowledge.counts.episodes, knowledge.counts.pairs)


def _drawn(memory: Lazy, draw: Draw, plans: int) -> tuple[Choice, Lazy]:
    assert memory.mixed is not None  # the first call plans
    return Choice(memory.mixed.pick(draw.uniform()), plans), memory
