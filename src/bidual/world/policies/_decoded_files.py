"""Policies over latents in files: the table and the decoder, which suffice to act on observations."""

import os

import numpy as np
from jaxtyping import Float

from bidual._base import archive
from bidual._base.errors import ArchiveError
from bidual.world.policies._decoded import DecodedPolicy, Decoder
from bidual.world.policies._emissions import CategoricalEmission, GaussianEmission
from bidual.world.policies._markov import MarkovPolicy

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
        _check(table, sizes, parameters)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ArchiveError(f"{path} holds no policy over latents ({error}): save it again") from error
    return DecodedPolicy(MarkovPolicy(table), Decoder(tuple(emissions), parameters.shape[2]))


def _read_emission(
    arrays: dict[str, np.ndarray], h: int, size: int, weights: Float[np.ndarray, "K"]
) -> GaussianEmission | CategoricalEmission | None:
    if size == 0:
        return None
    if not (0 < size <= weights.size and np.all(weights[:size] > 0)):
        raise ValueError(f"step {h} has {size} latents, which need positive weights")
    if "laws" in arrays:
        laws = arrays["laws"][h, :size]
        if not (np.all(laws > 0) and np.allclose(laws.sum(axis=-1), 1)):
            raise ValueError(f"the laws of step {h} are none")
        return CategoricalEmission(laws, weights[:size])
    means, variance = arrays["means"][h, :size], float(arrays["variances"][h])
    if not (np.isfinite(means).all() and 0 < variance < np.inf):
        raise ValueError(f"the means and the variance of step {h} are none")
    return GaussianEmission(means, variance, weights[:size])


def _check(table: np.ndarray, sizes: np.ndarray, parameters: np.ndarray) -> None:
    law = table.ndim == 3 and np.all(table >= 0) and np.allclose(table.sum(axis=-1), 1)
    if not (law and table.dtype == np.float64):
        raise ValueError("its table is none of probabilities")
    if not (len(sizes) == len(parameters) == len(table) + 1 and int(sizes.max()) <= table.shape[1] - 2):
        raise ValueError("its decoder is for other steps or latents than its table")
