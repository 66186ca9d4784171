"""Algorithm 1 of the paper over an environment: plan optimistically, run the plan, learn from it, again."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from bidual._errors import ProblemError
from bidual._keys import Draw, Purpose
from bidual._types import Episode
from bidual.convex import AffineProgram, ConvexProgram
from bidual.envs import AbstractEnvironment
from bidual.explorers import AbstractExplorer, Choice
from bidual.models import AbstractKnowledge
from bidual.policies import AbstractPolicy


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
    """One `Iteration` per batch of episodes, which is one episode in the paper, for as long as the caller asks.

    It yields after the update, so every yield is a state to go on from; all draws belong to (seed, episode).
    """
    knowledge, memory = state.knowledge, state.memory
    for done in itertools.count(state.episodes, batch):
        t = done // batch + 1
        choice, memory = explorer(program, memory, knowledge, Draw(seed, Purpose.PLAN, t))  # dual and planner
        episodes = _collected(env, choice.policy, [Draw(seed, Purpose.LEARN, done + i + 1) for i in range(batch)])
        knowledge = knowledge.update(*episodes)
        yield Iteration(t, choice, episodes, LoopState(done + batch, knowledge, memory))


def _collected(env: AbstractEnvironment, policy: AbstractPolicy, draws: list[Draw]) -> list[Episode]:
    """A single episode may come from those that an environment made ahead; many are made for the asking."""
    return env.collect_many(policy, draws) if len(draws) > 1 else [env.collect(policy, draws[0])]


def first_state(
    program: AffineProgram | ConvexProgram, explorer: AbstractExplorer[Any], knowledge: AbstractKnowledge
) -> LoopState:
    """The state before the first episode."""
    return LoopState(0, knowledge, explorer.init(program, knowledge))


def resumed(state: LoopState, knowledge: AbstractKnowledge) -> LoopState:
    """An earlier state to go on from, with the probability of failure that is asked for now.

    Its counts are what was learned; the set of laws that may be true is made from them and from that probability.
    """
    then, now = state.knowledge.counts.pairs.shape, knowledge.counts.pairs.shape
    if then[1:] != now[1:]:
        raise ProblemError(
            f"the state to go on from is over {then[1:]} states and actions, the environment has {now[1:]}: "
            "give the environment that it was learned in"
        )
    if then != now:
        raise ProblemError(
            f"the state to go on from has counts for {then[0]} of the steps, the model asks for {now[0]}: "
            "declare stationary=... as it was then"
        )
    return replace(state, knowledge=replace(state.knowledge, delta=knowledge.delta))
