"""Algorithm 1 of the paper over an environment: plan optimistically, run the plan, learn from it, again."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

from bidual._errors import ProblemError
from bidual._keys import Draw, Purpose
from bidual._types import Episode
from bidual.convex import AffineProgram, ConvexProgram
from bidual.envs import AbstractEnvironment
from bidual.explorers import AbstractExplorer, Choice
from bidual.models import Knowledge


@final
@dataclass(frozen=True, eq=False)
class LoopState:
    """All that the loop needs to go on: what is known, and the explorer's memory."""

    episodes: int
    knowledge: Knowledge
    memory: Any


@final
@dataclass(frozen=True, eq=False)
class Iteration:
    """One turn of the loop: the policy that was run, what happened, and the state after it."""

    number: int
    choice: Choice
    episode: Episode
    state: LoopState


def vpdpo(
    program: AffineProgram | ConvexProgram,
    env: AbstractEnvironment,
    explorer: AbstractExplorer[Any],
    state: LoopState,
    *,
    seed: int,
) -> Iterator[Iteration]:
    """One `Iteration` per episode, for as long as the caller asks.

    It yields after the update, so every yield is a state to go on from; all draws belong to (seed, episode).
    """
    knowledge, memory = state.knowledge, state.memory
    for t in itertools.count(state.episodes + 1):
        choice, memory = explorer(program, memory, knowledge, Draw(seed, Purpose.PLAN, t))  # dual and planner
        episode = env.collect(choice.policy, Draw(seed, Purpose.LEARN, t))
        knowledge = knowledge.update(episode)
        yield Iteration(t, choice, episode, LoopState(t, knowledge, memory))


def first_state(
    program: AffineProgram | ConvexProgram, explorer: AbstractExplorer[Any], knowledge: Knowledge
) -> LoopState:
    """The state before the first episode."""
    return LoopState(0, knowledge, explorer.init(program, knowledge))


def resumed(state: LoopState, knowledge: Knowledge) -> LoopState:
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
