"""Rollouts of a policy with one action at random, so that all candidates are distinguished.

A planned policy may avoid the actions that distinguish two candidates at a step; Algorithm 3 of the paper therefore
takes one action uniformly at random. It rolls out the policy once for every step and keeps the tuple of that step
alone. One rollout with the action at a step that is itself drawn, and all its tuples kept, learns as much from far
fewer: the law of the next state given state and action does not depend on how they came about.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from bidual._base.keys import Draw
from bidual.world.policies import DeterministicPolicy, Played

COLLECTIONS = ("one-rollout", "paper")


class Rollout(NamedTuple):
    """The policy to run for a plan, and the only step to learn from; None for all steps."""

    policy: Played
    only: int | None = None


def insert_random_action(
    policy: DeterministicPolicy, allowed: Bool[np.ndarray, "S A"], collection: str, steps: int, draw: Draw
) -> Rollout:
    """Return the rollout of a draw, whose number is from 1 on, with a random action in one of the first `steps` steps.

    The run's seed and the number determine it, so that stored plans tell what was run. An action for each state is
    drawn beforehand, of which one is used.
    """
    if not steps:
        return Rollout(policy)
    rng = draw.generator()
    h = (draw.number - 1) % steps if collection == "paper" else int(rng.integers(steps))
    actions = np.array(policy.actions)
    actions[h] = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)
    return Rollout(DeterministicPolicy(actions, policy.num_actions), h if collection == "paper" else None)
