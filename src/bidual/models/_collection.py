"""Which rollouts a policy is tried in: with one action at random, so that every candidate is told from the others.

A planned policy may avoid what would tell two candidates apart at a step; Algorithm 3 of the paper therefore takes
one action uniformly at random. It rolls out the policy once for every step and keeps the tuple of that step alone. One
rollout with the action at a step that is itself drawn, and all its tuples kept, learns as much from far fewer: what
follows from a state and an action has the same law however they came about.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bidual._keys import Draw, Purpose
from bidual.policies import DeterministicPolicy, Played

COLLECTIONS = ("one-rollout", "paper")


class Rollout(NamedTuple):
    """What is run for a planned policy, and the only step that is learned from; None for all of them."""

    policy: Played
    only: int | None = None


def inserted(
    policy: DeterministicPolicy, allowed: Bool[np.ndarray, "S A"], collection: str, steps: int, number: int
) -> Rollout:
    """A rollout by its number (from 1 on) with an action at random in one of the first `steps` steps.

    The same for every seed, so that the numbers of rollouts tell what was run. An action for each state is drawn
    beforehand: one of them is met.
    """
    if not steps:
        return Rollout(policy)
    rng = Draw(0, Purpose.INSERT, number).generator()
    h = (number - 1) % steps if collection == "paper" else int(rng.integers(steps))
    actions = np.array(policy.actions)
    actions[h] = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
    return Rollout(DeterministicPolicy(actions, policy.num_actions), h if collection == "paper" else None)
