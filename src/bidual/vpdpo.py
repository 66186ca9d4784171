"""Algorithm 1 of the paper over an environment: plan optimistically, run the plan, learn from it, again."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from bidual._keys import Draw, Purpose
from bidual._types import Episode
from bidual.convex import AffineProgram, ConvexProgram
from bidual.envs import AbstractEnvironment
from bidual.explorers import AbstractExplorer, Choice
from bidual.models import AbstractKnowledge
from bidual.policies import Played


@final
@dataclass(frozen=True, eq=False)
class LoopState:
    """All that the loop needs to go on: what is known, and the explorer's memory."""

    episodes: int
    knowledge: AbstractKnowledge
    memory: Any


@final
@dataclass(frozen=True, eq=False)
class Iteration:
    """One turn of the loop: the policy that was run, what happened, and the state after it."""

    number: int
    choice: Choice
    episodes: Sequence[Episode]
    state: LoopState


def vpdpo(
    program: AffineProgram | ConvexProgram,
    env: AbstractEnvironment,
    explorer: AbstractExplorer[Any],
    state: LoopState,
    *,
    seed: int,
    batch: int = 1,
) -> Iterator[Iteration]:
    """One `Iteration` per batch of episodes, for as long as the caller asks.

    In the paper a batch is one rollout of the plan, or one for every step (Algorithm 3). It yields after the update, so
    every yield is a state to go on from; all draws belong to (seed, episode).
    """
    knowledge, memory = state.knowledge, state.memory
    size = batch * knowledge.rollouts
    for done in itertools.count(state.episodes, size):
        t = done // size + 1
        choice, memory = explorer(program, memory, knowledge, Draw(seed, Purpose.PLAN, t))  # dual and planner
        draws = [Draw(seed, Purpose.LEARN, done + i + 1) for i in range(size)]
        episodes = _collected(env, knowledge, choice.policy, draws)
        knowledge = knowledge.update(*episodes)
        yield Iteration(t, choice, episodes, LoopState(done + size, knowledge, memory))


def _collected(
    env: AbstractEnvironment, knowledge: AbstractKnowledge, policy: Played, draws: list[Draw]
) -> list[Episode]:
    """A single episode may come from those that an environment made ahead; many are made for the asking."""
    runs = [knowledge.rollout(policy, draw.number) for draw in draws]
    if len(draws) > 1 and all(run.policy is policy for run in runs):
        return env.collect_many(policy, draws)
    episodes = [env.collect(run.policy, draw) for run, draw in zip(runs, draws, strict=True)]
    return [one if run.only is None else replace(one, only=run.only) for one, run in zip(episodes, runs, strict=True)]


def first_state(
    program: AffineProgram | ConvexProgram, explorer: AbstractExplorer[Any], knowledge: AbstractKnowledge
) -> LoopState:
    """The state before the first episode."""
    return LoopState(0, knowledge, explorer.init(program, knowledge))


def resumed(state: LoopState, knowledge: AbstractKnowledge) -> LoopState:
    """An earlier state to go on from, with the probability of failure that is asked for now."""
    return replace(state, knowledge=state.knowledge.resumed(knowledge))
