"""Occasional replanning: policies stay in use until the counts behind them have grown."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.keys import Draw
from bidual.loop.explorers._base import AbstractInner, Choice, PlanMixture
from bidual.models import AbstractCounted, AbstractModel, Counts, Known, Layout
from bidual.planners import AbstractPlanner, BackwardInduction, choose_optimistic_planner
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Psi
from bidual.world.policies import DeterministicPolicy, Played


class PlanOrigin(NamedTuple):
    """The episodes and counts at the time of a plan."""

    episodes: int
    pairs: Float[np.ndarray, "law S A"]


class AbstractReplanning(abc.ABC):
    """The replanning rule."""

    @abc.abstractmethod
    def due(self, planned: PlanOrigin, counts: Counts) -> bool:
        """Check whether a plan of that time is out of date."""


@final
@dataclass(frozen=True)
class Growth(AbstractReplanning):
    """Replanning when some pair (s, a) was taken a quarter more often, or after 1 + t/10 episodes.

    The number of plans then grows like the logarithm of the number of episodes. Planning at powers of two instead
    explores badly: a wrong estimate stays in use for as long as it took to form.

    Args:
        share: relative growth of some count that makes a plan out of date.
        fraction: share of the episodes so far after which a plan is out of date in any case.
    """

    share: float = 0.25
    fraction: float = 0.1

    def __post_init__(self) -> None:
        """Check the settings."""
        if not (self.share > 0 and self.fraction > 0):
            raise ProblemError(f"share and fraction must be positive; got {self.share!r} and {self.fraction!r}")

    def due(self, planned: PlanOrigin, counts: Counts) -> bool:
        """Check whether a count has grown or enough episodes have passed."""
        now = counts.episodes
        if now - planned.episodes > 1 + self.fraction * planned.episodes:
            return True
        return bool((counts.pairs > (1 + self.share) * planned.pairs).any())


@final
@dataclass(frozen=True)
class Always(AbstractReplanning):
    """Replanning before every episode, as in the paper."""

    def due(self, planned: PlanOrigin, counts: Counts) -> bool:
        """Check whether there was an episode since."""
        return counts.episodes > planned.episodes


PlanningTask = tuple[AbstractModel, Layout, AbstractPlanner[Any]]  # model, features and planner of an explorer


class ReplanState(NamedTuple):
    """The policies in use, the time of their planning, and the start of the next."""

    mixed: PlanMixture | None
    planned: PlanOrigin | None
    warm: Any


def sample_policy(
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
    playable = tuple(_to_environment_policy(knowledge, policy) for policy in mixed.policies)
    mixed = mixed._replace(policies=playable, expected=())
    return _draw_policy(ReplanState(mixed, _find_current_origin(knowledge), warm), draw, mixed.plans)


def plan_over_all_laws(knowledge: AbstractCounted) -> PlanningTask:
    """Return the planning problem over all laws that may be true."""
    return knowledge.confidence_set, knowledge.layout, choose_optimistic_planner(knowledge.confidence_set)


def plan_in_one_law(knowledge: AbstractCounted, law: Callable[[], tuple[Known, Psi]]) -> PlanningTask:
    """Return the planning problem in a single law; over all of them while the start states are unknown."""
    if not knowledge.counts.episodes and knowledge.initial is None:
        return plan_over_all_laws(knowledge)
    model, psi = law()
    return model, model.restrict(psi), BackwardInduction()


def _to_environment_policy(knowledge: AbstractCounted, policy: Played) -> Played:
    """Convert a table over the model's own states to a policy for the environment."""
    return knowledge.to_environment_policy(policy) if isinstance(policy, DeterministicPolicy) else policy


def _is_due(rule: AbstractReplanning, memory: ReplanState, knowledge: AbstractCounted) -> bool:
    return memory.planned is None or rule.due(memory.planned, knowledge.counts)


def _find_current_origin(knowledge: AbstractCounted) -> PlanOrigin:
    return PlanOrigin(knowledge.counts.episodes, knowledge.counts.pairs)


def _draw_policy(memory: ReplanState, draw: Draw, plans: int) -> tuple[Choice, ReplanState]:
    assert memory.mixed is not None  # the first call plans
    return Choice(memory.mixed.pick(draw.uniform()), plans), memory
