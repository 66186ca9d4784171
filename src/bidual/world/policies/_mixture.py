"""Mixtures: draw one policy, keep it for the whole episode."""

import os
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import PolicyError
from bidual.world.policies._base import AbstractPolicy, Actor
from bidual.world.policies._control import ControlPolicy
from bidual.world.policies._decoded import DecodedPolicy
from bidual.world.policies._markov import DeterministicPolicy, MarkovPolicy

_KIND_NAMES = {
    DeterministicPolicy: "deterministic policies",
    MarkovPolicy: "Markov policies",
    DecodedPolicy: "decoded policies",
    ControlPolicy: "controllers",
}


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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all members, which must be controllers, to one file for `bd.load`; tables are collapsed."""
        from bidual.world.policies._control_files import write_controls

        members = tuple(member for member in self.members if isinstance(member, ControlPolicy))
        if len(members) < len(self.members):
            raise PolicyError(
                "a mixture of tables is stored as the one table that visits the same (solution.policy, or "
                "bd.policies.collapse): save that, or the whole solution"
            )
        write_controls(members, self.weights, path)

    def __repr__(self) -> str:
        kinds = {_KIND_NAMES[type(member)] for member in self.members}
        what = kinds.pop() if len(kinds) == 1 else "policies"
        return f"Mixture({len(self.members)} {what}, weights {np.round(self.weights, 4)})"
