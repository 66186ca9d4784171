"""Mixtures: draw one policy, keep it for the whole episode."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.policies._base import AbstractPolicy, Actor
from bidual.policies._control import ControlPolicy
from bidual.policies._decoded import DecodedPolicy
from bidual.policies._markov import DeterministicPolicy, MarkovPolicy


@final
@dataclass(frozen=True, eq=False)
class Mixture(AbstractPolicy):
    """Play member i with probability ``weights[i]``, drawn once per episode.

    Its embedding is the weighted mean of its members' embeddings: this is why the set of embeddings is convex.
    """

    weights: Float[np.ndarray, "k"]
    members: tuple[DeterministicPolicy | MarkovPolicy | DecodedPolicy | ControlPolicy, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return self.members[0].shape

    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Draw a member and start its episode."""
        generator = np.random.default_rng(rng)
        return self.members[generator.choice(len(self.members), p=self.weights)].reset(generator)

    def __repr__(self) -> str:
        return f"Mixture({len(self.members)} deterministic policies, weights {np.round(self.weights, 4)})"
