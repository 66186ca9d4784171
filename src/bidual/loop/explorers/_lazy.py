"""Occasional replanning: policies stay in use until the counts behind them have grown."""

from collections.abc import Callable
from typing import Any, NamedTuple

from bidual._base.keys import Draw
from bidual.loop.explorers._base import Choice
from bidual.loop.explorers._inner import AbstractInner, PlanMixture
from bidual.loop.explorers._replanning import AbstractReplanning, PlanOrigin
from bidual.models import AbstractCounted, AbstractModel, Known, Layout
from bidual.planners import AbstractPlanner, BackwardInduction, optimistic_planner_for
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Psi
from bidual.world.policies import DeterministicPolicy, Played

PlanningTask = tuple[AbstractModel, Layout, AbstractPlanner[Any]]  # model, features and planner of an explorer


class ReplanState(NamedTuple):
    """The policies in use, the time of their planning, and the start of the next."""

    mixed: PlanMixture | None
    planned: PlanOrigin | None
    warm: Any


def planned(
    inner: AbstractInner[Any, Any],
    replanning: AbstractReplanning,
    program: AbstractProgram,
    memory: ReplanState,
    knowledge: AbstractCounted,
    draw: Draw,
    make_task: Callable[[], PlanningTask],
) -> tuple[Choice, ReplanState]:
    """Sample a policy from the current mixture, replanning first if it is out of date."""
    if not _is_due(replanning, memory, knowledge):
        return _draw_policy(memory, draw, 0)
    mixed, warm = inner(program, *make_task(), memory.warm)
    playable = tuple(_playable(knowledge, policy) for policy in mixed.policies)
    mixed = mixed._replace(policies=playable, expected=())
    return _draw_policy(ReplanState(mixed, _now(knowledge), warm), draw, mixed.plans)


def all_laws(knowledge: AbstractCounted) -> PlanningTask:
    """Return the planning problem over all laws that may be true."""
    return knowledge.confidence_set, knowledge.layout, optimistic_planner_for(knowledge.confidence_set)


def one_law(knowledge: AbstractCounted, law: Callable[[], tuple[Known, Psi]]) -> PlanningTask:
    """Return the planning problem in a single law; over all of them while the start states are unknown."""
    if not knowledge.counts.episodes and knowledge.initial is None:
        return all_laws(knowledge)
    model, psi = law()
    return model, model.restrict(psi), BackwardInduction()


def _playable(knowledge: AbstractCounted, policy: Played) -> Played:
    """Convert a table over the model's own states to a policy for the environment."""
    return knowledge.to_environment_policy(policy) if isinstance(policy, DeterministicPolicy) else policy


def _is_due(rule: AbstractReplanning, memory: ReplanState, knowledge: AbstractCounted) -> bool:
    return memory.planned is None or rule.due(memory.planned, knowledge.counts)


def _now(knowledge: AbstractCounted) -> PlanOrigin:
    return PlanOrigin(knowledge.counts.episodes, knowledge.counts.pairs)


def _draw_policy(memory: ReplanState, draw: Draw, plans: int) -> tuple[Choice, ReplanState]:
    assert memory.mixed is not None  # the first call plans
    return Choice(memory.mixed.pick(draw.uniform()), plans), memory
