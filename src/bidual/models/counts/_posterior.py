"""Single laws from counts: drawn from a posterior, or smoothed. They guide exploration and output; they prove nothing.

Where no support is declared a smoothed law keeps to the states observed to follow a state under any action, and a state
that was never left is absorbing. A drawn law may also lead to one stranger per row, any state at random: otherwise no
draw would give an untried action a chance to be good.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from bidual._base.types import DeviceArray, place_on_device
from bidual.models._known import Known
from bidual.models.counts._counts import Counts
from bidual.models.counts._support import NOBODY


def add_strangers(counts: Counts, rng: np.random.Generator) -> tuple[Counts, Float[np.ndarray, "S A K"]]:
    """Extend open lists by one random state each, with the prior 1/S per state: strangers share the rest."""
    support, S = counts.support, len(counts.starts)
    strangers = rng.integers(0, S, (*support.allowed.shape, 1))
    strangers[support.absorbing] = NOBODY
    states = np.concatenate([support.states, strangers], axis=-1)
    prior = (states != NOBODY) / S
    prior[..., -1] *= S - support.sizes
    prior[support.absorbing] *= S
    none = np.zeros((*counts.pairs.shape, 1))
    wider = replace(
        counts,
        support=replace(support, states=states),
        transitions=np.concatenate([counts.transitions, none], axis=-1),
        sums=np.pad(counts.sums, ((0, 0), (0, 0), (0, 1), (0, 0))),
    )
    return wider, prior


def draw_posterior(
    counts: Counts, rng: np.random.Generator, prior: Float[np.ndarray, "S A K"] | None = None
) -> Float[np.ndarray, "law S A K"]:
    """Draw one law from the Dirichlet posteriors, all rows at once; the prior is 1/K unless another is given."""
    real = _mask_entries(counts)
    prior = real / np.maximum(real.sum(axis=-1, keepdims=True), 1) if prior is None else prior
    weights = rng.standard_gamma(counts.transitions + prior)
    # Draws with shapes near 0 may all underflow: then the row is the smoothed one.
    lost = weights.sum(axis=-1, keepdims=True) <= 0
    return _normalise(np.where(lost, counts.transitions + real, weights))


def smooth_counts(counts: Counts) -> Float[np.ndarray, "law S A K"]:
    """Return (n + 1) / (N + K): one more sample of every possible successor: rare events keep mass."""
    return _normalise(counts.transitions + _mask_entries(counts))


def estimate_start(counts: Counts, initial: Float[np.ndarray, "S"] | None) -> Float[np.ndarray, "S"]:
    """Return the start law, or the frequencies of first states."""
    return counts.starts / counts.starts.sum() if initial is None else initial


def build_known(
    counts: Counts,
    law: Float[np.ndarray, "law S A K"],
    initial: Float[np.ndarray, "S"],
    states: Int[DeviceArray, "1 K A S"],
) -> Known:
    """Return a law on the lists as a model for the exact planner; `states` are the lists in its order."""
    allowed = counts.support.allowed
    mask = None if allowed.all() else allowed.T
    return Known(
        states,
        place_on_device(law.transpose(0, 3, 2, 1)),
        None if mask is None else place_on_device(mask),
        place_on_device(initial),
        kept=np.arange(len(allowed)),
        fallback=np.argmax(allowed, axis=1),
    )


def list_successors_for_planner(counts: Counts) -> Int[DeviceArray, "1 K A S"]:
    """Return the lists in the exact planner's order; that of a state never visited points to itself."""
    return place_on_device(list_successors(counts).transpose(2, 1, 0)[None].astype(np.int32))


def list_successors(counts: Counts) -> Int[np.ndarray, "S A K"]:
    """Return the successor lists; that of a state never visited points to itself."""
    filled = counts.support.filled
    return np.where(counts.support.sizes[..., None] == 0, np.arange(len(filled))[:, None, None], filled)


def _mask_entries(counts: Counts) -> Float[np.ndarray, "S A K"]:
    """Return 1 for the entries of the lists, 0 for padding; an empty list counts as one entry."""
    real = (counts.support.states != NOBODY).astype(np.float64)
    real[..., 0] = np.where(counts.support.sizes == 0, 1.0, real[..., 0])
    return real


def _normalise(weights: Float[np.ndarray, "law S A K"]) -> Float[np.ndarray, "law S A K"]:
    return weights / weights.sum(axis=-1, keepdims=True)
