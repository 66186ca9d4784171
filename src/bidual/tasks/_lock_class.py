"""The combination lock with discrete observations: a latent chain behind blocks of observations, and a class of locks.

Latents are A and B (good) and C (dead for ever). One action is right in A and one in B, others at every step: it leads
to A or B by the toss of a coin, and at the last step to the goal. All others lead to C, half of them by way of a bait.
Latents are hidden: each emits an observation of its block at random. Only the observations of bait and goal are
identified.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import TaskError
from bidual.models import LowRank
from bidual.world.mdp import TabularMDP

OBSERVATIONS = 24
A, B, C, BAIT, GOAL = range(5)  # latents; the last two have one observation each
_BLOCKS = (8, 8, 6, 1, 1)  # numbers of observations of the latents
_GROUPINGS = 4  # ways of dividing the observations into blocks of which one is true
_NONE = -1  # no action is right


class LockClass(NamedTuple):
    """A lock, its declared class, and its true latents and actions."""

    mdp: TabularMDP
    model: LowRank
    latents: Int[np.ndarray, "S"]  # the true latent of every observation
    right: Int[np.ndarray, "H 2"]  # the right actions in A and in B

    @property
    def bait(self) -> Float[np.ndarray, "S A S"]:
        """1 for falling for the bait."""
        return self._arrival(BAIT)

    @property
    def goal(self) -> Float[np.ndarray, "S A S"]:
        """1 for reaching the goal."""
        return self._arrival(GOAL)

    def _arrival(self, latent: int) -> Float[np.ndarray, "S A S"]:
        shape = (OBSERVATIONS, self.mdp.num_actions, OBSERVATIONS)
        # Staying there has no reward.
        came = (self.latents != latent)[:, None, None] & (self.latents == latent)
        return np.broadcast_to(came, shape).astype(float)


def lock(horizon: int, actions: int, seed: int) -> LockClass:
    """Build the lock of a seed, with (actions + 1)^2 * 16 candidates for every step: 576 for five actions."""
    if actions < 2:
        raise TaskError(f"actions={actions}: a lock needs at least 2, a right one and a wrong one")
    rng = np.random.default_rng(seed)
    groupings = [_draw_grouping(rng) for _ in range(_GROUPINGS)]
    true = groupings[int(rng.random() * _GROUPINGS)]
    right = (rng.random((horizon, 2)) * actions).astype(np.int64)

    last = [False] * (horizon - 1) + [True]
    law = np.stack(
        [
            _compute_phi(true, two, actions, last=end) @ _emit_observations(true)
            for two, end in zip(right, last, strict=True)
        ]
    )
    start = (_emit_observations(true)[A] + _emit_observations(true)[B]) / 2
    mdp = TabularMDP(law, initial=start, horizon=horizon)
    phis = [_list_phis(groupings, actions, last=end) for end in last]
    model = LowRank(phis, [[_emit_observations(grouping) for grouping in groupings]] * horizon, shared=False)
    return LockClass(mdp, model, true, right)


def _draw_grouping(rng: np.random.Generator) -> Int[np.ndarray, "S"]:
    """Draw the latents of the observations: those of bait and goal are the last two, the others are random."""
    latents = np.repeat(np.arange(5), _BLOCKS)
    hidden = int((latents < BAIT).sum())
    # Sorted by uniform numbers, because generators promise the same ones for ever, but not the same permutations.
    latents[:hidden] = latents[:hidden][np.argsort(rng.random(hidden))]
    return latents


def _list_phis(groupings: list[Int[np.ndarray, "S"]], actions: int, *, last: bool) -> list[Float[np.ndarray, "S A 5"]]:
    """List all candidates: every grouping with every pair of right actions, where there may be none."""
    choices = [_NONE, *range(actions)]
    pairs = [np.array([for_a, for_b]) for for_a in choices for for_b in choices]
    return [_compute_phi(grouping, right, actions, last=last) for grouping in groupings for right in pairs]


def _compute_phi(
    grouping: Int[np.ndarray, "S"], right: Int[np.ndarray, "2"], actions: int, *, last: bool
) -> Float[np.ndarray, "S A 5"]:
    """Return the law of the next latent, given an observation and an action."""
    moves = np.zeros((5, actions, 5))
    moves[[A, B]] = np.eye(5)[[C, BAIT]].mean(axis=0)
    for latent, action in zip((A, B), right, strict=True):
        if action != _NONE:
            moves[latent, action] = np.eye(5)[GOAL] if last else np.eye(5)[[A, B]].mean(axis=0)
    moves[[C, BAIT], :, C] = moves[GOAL, :, GOAL] = 1.0
    return moves[grouping]


def _emit_observations(grouping: Int[np.ndarray, "S"]) -> Float[np.ndarray, "5 S"]:
    """Return the law of the observation, given a latent."""
    shows = (grouping == np.arange(5)[:, None]).astype(float)
    return shows / shows.sum(axis=1, keepdims=True)
