"""Algorithm 1 of the paper over an environment: plan optimistically, run the plan, update the model, repeat."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from bidual._base.keys import Draw, Purpose
from bidual._base.types import Episode
from bidual.loop.explorers import AbstractExplorer, Choice
from bidual.models import AbstractKnowledge
from bidual.problem.convex import AbstractProgram
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import Played


@final
@dataclass(frozen=True, eq=False)
class LoopState:
    """The state of the loop between batches: episodes, model, and the explorer's memory."""

    episodes: int
    knowledge: AbstractKnowledge
    memory: Any


@final
@dataclass(frozen=True, eq=False)
class BatchIteration:
    """One iteration of the loop: the policy, its episodes, and the state after them."""

    number: int
    choice: Choice
    episodes: Sequence[Episode]
    state: LoopState


def vpdpo(
    program: AbstractProgram,
    env: AbstractEnvironment,
    explorer: AbstractExplorer[Any],
    state: LoopState,
    *,
    seed: int,
    batch: int = 1,
) -> Iterator[BatchIteration]:
    """Yield one `BatchIteration` per batch of episodes, until the caller stops.

    In the paper a batch is one rollout of the plan, or one for every step (Algorithm 3). It yields after the update, so
    every yield is a state to resume from; all draws belong to (seed, episode).
    """
    knowledge, memory = state.knowledge, state.memory
    size = batch * knowledge.rollouts
    for done in itertools.count(state.episodes, size):
        t = done // size + 1
        choice, memory = explorer(program, memory, knowledge, Draw(seed, Purpose.PLAN, t))  # dual and planner
        draws = [Draw(seed, Purpose.LEARN, done + i + 1) for i in range(size)]
        episodes = _collect(env, knowledge, choice.policy, draws)
        knowledge = knowledge.update(*episodes)
        yield BatchIteration(t, choice, episodes, LoopState(done + size, knowledge, memory))


def _collect(
    env: AbstractEnvironment, knowledge: AbstractKnowledge, policy: Played, draws: list[Draw]
) -> list[Episode]:
    """Collect episodes: a single one may come from the environment's prefetch, several are collected in a batch."""
    runs = [knowledge.rollout(policy, draw.number) for draw in draws]
    if len(draws) > 1 and all(run.policy is policy for run in runs):
        return env.collect_many(policy, draws)
    episodes = [env.collect(run.policy, draw) for run, draw in zip(runs, draws, strict=True)]
    return [one if run.only is None else replace(one, only=run.only) for one, run in zip(episodes, runs, strict=True)]


def start_state(program: AbstractProgram, explorer: AbstractExplorer[Any], knowledge: AbstractKnowledge) -> LoopState:
    """Return the state before the first episode."""
    return LoopState(0, knowledge, explorer.init(program, knowledge))


def resume(state: LoopState, knowledge: AbstractKnowledge) -> LoopState:
    """Return an earlier state to resume from, with the probability of failure that is requested now."""
    return replace(state, knowledge=state.knowledge.resume(knowledge))
