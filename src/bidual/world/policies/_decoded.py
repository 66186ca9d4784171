"""Policies over latents: an observation is decoded, and the action is looked up."""

import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base import archive
from bidual._base.errors import ArchiveError, PolicyError
from bidual.world.policies._base import AbstractPolicy, Actor
from bidual.world.policies._emissions import CategoricalEmission, GaussianEmission
from bidual.world.policies._frames import build_policy_frame
from bidual.world.policies._markov import DeterministicPolicy, MarkovPolicy

if TYPE_CHECKING:
    from pandas import DataFrame


@final
@dataclass(frozen=True, eq=False)
class Decoder:
    """A map from observations to latents at every step and after the last one; None where there are no data."""

    steps: tuple[GaussianEmission | CategoricalEmission | None, ...]
    dimension: int

    def latent(self, step: int, observation: Any) -> int:  # noqa: ANN401 - any observation
        """Return the most likely latent of an observation at a step, from 0."""
        emission = self.steps[step]
        return 0 if emission is None else int(emission.decode(self._to_vector(observation))[0])

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

    def _to_vector(self, observation: object) -> Float[np.ndarray, "1 D"]:
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

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        return self.decoder.dimension

    def most_likely(self) -> "DecodedPolicy":
        """Return the same decoder with the table of the most likely actions."""
        return DecodedPolicy(self.table_policy.most_likely(), self.decoder)

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for every action that is taken in a latent with some probability."""
        return build_policy_frame(self.table, place="latent")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write table and decoder to one file, for `bd.load`."""
        from bidual.world.policies._decoded import write_decoded

        write_decoded(self, path)

    def __repr__(self) -> str:
        H, S, A = self.shape
        return f"DecodedPolicy({H} steps, {S - 2} latents, {A} actions, reads {self.decoder.dimension} numbers)"


DECODED = "decoded policy"


def write_decoded(policy: DecodedPolicy, path: str | os.PathLike[str]) -> None:
    """Write a policy to one file."""
    archive.write(path, DECODED, {}, encode_decoded(policy))


def encode_decoded(policy: DecodedPolicy) -> dict[str, np.ndarray]:
    """Encode a policy as arrays; latents that a step does not have are padded with zeros."""
    decoder = policy.decoder
    sizes = np.array([0 if emission is None else emission.size for emission in decoder.steps], dtype=np.int64)
    weights, most = np.zeros((len(sizes), max(int(sizes.max()), 1))), max(int(sizes.max()), 1)
    arrays = {"policy": policy.table, "sizes": sizes, "weights": weights}
    known = [emission for emission in decoder.steps if emission is not None]
    if any(isinstance(emission, CategoricalEmission) for emission in known):
        symbols = next(one.laws.shape[2] for one in known if isinstance(one, CategoricalEmission))
        arrays["laws"] = np.zeros((len(sizes), most, decoder.dimension, symbols))
    else:
        arrays["means"] = np.zeros((len(sizes), most, decoder.dimension))
        arrays["variances"] = np.ones(len(sizes))
    for h, emission in enumerate(decoder.steps):
        if emission is None:
            continue
        weights[h, : emission.size] = emission.weights
        if isinstance(emission, CategoricalEmission):
            arrays["laws"][h, : emission.size] = emission.laws
        else:
            arrays["means"][h, : emission.size], arrays["variances"][h] = emission.means, emission.variance
    return arrays


def read_decoded(path: str | os.PathLike[str]) -> DecodedPolicy:
    """Read a policy from such a file."""
    _, arrays = archive.read(path, DECODED)
    try:
        table, sizes, weights = arrays["policy"], arrays["sizes"], arrays["weights"]
        emissions = [_read_emission(arrays, h, int(size), weights[h]) for h, size in enumerate(sizes)]
        parameters = arrays["laws"] if "laws" in arrays else arrays["means"]
        _check(table, sizes, parameters, 4 if "laws" in arrays else 3)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ArchiveError(f"{path} holds no policy over latents ({error}): save it again") from error
    return DecodedPolicy(MarkovPolicy(table), Decoder(tuple(emissions), parameters.shape[2]))


def _read_emission(
    arrays: dict[str, np.ndarray], h: int, size: int, weights: Float[np.ndarray, "K"]
) -> GaussianEmission | CategoricalEmission | None:
    """Read the emission of a step; None where nothing was observed, `ValueError` where it is no law."""
    if size == 0:
        return None
    if not (0 < size <= weights.size and np.all((weights[:size] > 0) & (weights[:size] < np.inf))):
        raise ValueError(f"step {h} has {size} latents, which need positive weights")
    if "laws" in arrays:
        laws = arrays["laws"][h, :size]
        if not (len(laws) == size and np.all(laws > 0) and np.allclose(laws.sum(axis=-1), 1)):
            raise ValueError(f"the laws of step {h} are none")
        return CategoricalEmission(laws, weights[:size])
    means, variance = arrays["means"][h, :size], float(arrays["variances"][h])
    if not (len(means) == size and np.isfinite(means).all() and 0 < variance < np.inf):
        raise ValueError(f"the means and the variance of step {h} are none")
    emission = GaussianEmission(means, variance, weights[:size])
    if not emission.is_finite:
        raise ValueError(f"the means of step {h} are too large for its variance")
    return emission


def _check(table: np.ndarray, sizes: np.ndarray, parameters: np.ndarray, axes: int) -> None:
    law = table.ndim == 3 and np.all(table >= 0) and np.allclose(table.sum(axis=-1), 1)
    if not (law and table.dtype == np.float64):
        raise ValueError("its table is none of probabilities")
    if sizes.dtype != np.int64 or parameters.dtype != np.float64 or parameters.ndim != axes:
        raise ValueError("its decoder does not consist of the parameters of its latents")
    if not (len(sizes) == len(parameters) == len(table) + 1 and int(sizes.max()) <= table.shape[1] - 2):
        raise ValueError("its decoder is for other steps or latents than its table")
