"""Policies over latents: an observation is decoded, and the action is looked up."""

import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import PolicyError
from bidual.world.policies._base import AbstractPolicy, Actor
from bidual.world.policies._emissions import CategoricalEmission, GaussianEmission
from bidual.world.policies._markov import DeterministicPolicy, MarkovPolicy


@final
@dataclass(frozen=True, eq=False)
class Decoder:
    """A map from observations to latents at every step and after the last one; None where there are no data."""

    steps: tuple[GaussianEmission | CategoricalEmission | None, ...]
    dimension: int

    def latent(self, step: int, observation: Any) -> int:  # noqa: ANN401 - any observation
        """Return the most likely latent of an observation at a step, from 0."""
        emission = self.steps[step]
        return 0 if emission is None else int(emission.decode(self._vector(observation))[0])

    def latents(self, step: int, observations: Float[np.ndarray, "n D"]) -> Int[np.ndarray, "n"]:
        """Return the most likely latents of many observations of one step."""
        emission = self.steps[step]
        return np.zeros(len(observations), dtype=np.int64) if emission is None else emission.decode(observations)

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest, equal for decoders with the same parameters, whichever objects they are."""
        digest = blake2b(digest_size=16)
        for emission in self.steps:
            digest.update(b"-" if emission is None else emission.fingerprint)
        return digest.digest()

    def _vector(self, observation: object) -> Float[np.ndarray, "1 D"]:
        try:
            vector = np.asarray(observation, dtype=np.float64).reshape(1, -1)
        except (TypeError, ValueError):
            raise PolicyError(f"observation {observation!r:.80} is no vector of numbers") from None
        if vector.shape[1] != self.dimension:
            raise PolicyError(f"an observation has {vector.shape[1]} numbers, the policy reads {self.dimension}")
        return vector


@final
@dataclass(frozen=True, eq=False)
class DecodedPolicy(AbstractPolicy):
    """A table over latents with its decoder: all that is needed to act on raw observations."""

    table_policy: DeterministicPolicy | MarkovPolicy
    decoder: Decoder

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A), where S counts latents and the two added states."""
        return self.table_policy.shape

    @property
    def table(self) -> Float[np.ndarray, "H S A"]:
        """The probability of every action in every latent."""
        return self.table_policy.table

    @property
    def actions(self) -> Int[np.ndarray, "H S"]:
        """The action in every latent, or the most likely one of a randomised table."""
        table = self.table_policy
        return table.actions if isinstance(table, DeterministicPolicy) else table.table.argmax(axis=-1)

    def at(self, h: int) -> Float[np.ndarray, "S A"]:
        """Return the probabilities at one step."""
        return self.table_policy.at(h)

    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode; its actor takes observations."""
        return self.table_policy.reset(rng).with_decoder(self.decoder.latent)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write table and decoder to one file, for `bd.load`."""
        from bidual.world.policies._decoded_files import write_decoded

        write_decoded(self, path)

    def __repr__(self) -> str:
        H, S, A = self.shape
        return f"DecodedPolicy({H} steps, {S - 2} latents, {A} actions, reads {self.decoder.dimension} numbers)"
