"""Separation test: whether two groups of observations are two latents, and not noise cut in two.

With m_j the mean of n_j observations and v the noise of a single one (the expected square of its distance from the
mean of its latent), E |m_j - m_l|^2 = |mu_j - mu_l|^2 + v (1/n_j + 1/n_l). Two groups count as two latents if
their distance exceeds what chance and a good choice of groups explain, and what a cut through one cloud gives:

    |m_j - m_l|^2  >=  v (1/n_j + 1/n_l) (1 + chosen + Z sqrt(2/r (1 + 1/dof)))  +  CLEAR v / D

chosen is 1 where both groups are larger than one: the best of all cuts through pure noise is so far apart. r is
the steadiness of the size of the noise: sqrt(2/r) is its deviation relative to its mean, r = D for normal noise in all
directions, and less where it lives in few of them or in a few large errors. A cut through the middle of a normal cloud
gives 2.56 v / D, and CLEAR requires more than ten times that: latents that are not well separated are merged, which
is the lesser evil while exploring.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

Z = 5.0  # standard deviations of the noise's size
CLEAR = 32.0
_ENOUGH = 8  # observations needed to estimate the steadiness of noise


def are_separated(x: Float[np.ndarray, "n m"], labels: Int[np.ndarray, "n"], free: int) -> bool:
    """Return whether all groups of a division are latents; `free` is the number of dimensions of the noise."""
    sizes = np.bincount(labels).astype(np.float64)
    k, dof = len(sizes), float(len(x) - len(sizes))
    if k == 1:
        return True
    if dof < 1 or sizes.min() == 0:
        return False
    means = np.stack([x[labels == j].mean(axis=0) for j in range(k)])
    energies = np.square(x - means[labels]).sum(axis=1)
    noise = float(energies.sum()) / dof
    apart = np.square(means[:, None] - means[None]).sum(axis=-1)
    steady = _estimate_steadiness(energies[sizes[labels] > 1], free)
    needed = _required_distance(sizes[:, None], sizes[None], noise, free, steady, dof)
    return bool(np.all((apart >= needed) | np.eye(k, dtype=bool)))


def find_strangers(
    x: Float[np.ndarray, "n m"],
    centres: Float[np.ndarray, "k m"],
    sizes: Float[np.ndarray, "k"],
    noise: float,
    free: int,
    steady: float,
) -> Bool[np.ndarray, "n"]:
    """Find the single observations that would be latents of their own beside the known ones."""
    apart = np.square(x[:, None] - centres[None]).sum(axis=-1)
    dof = max(float(sizes.sum()) - len(sizes), 1.0)
    return np.all(apart >= _required_distance(np.ones(1), np.maximum(sizes, 1.0), noise, free, steady, dof), axis=1)


def _estimate_steadiness(energies: Float[np.ndarray, "n"], free: int) -> float:
    """Estimate r = 2 mean^2 / variance of the squared distances from the means, where there are enough of them."""
    if energies.size < _ENOUGH or energies.var() == 0:
        return float(free)
    return min(float(free), 2 * float(energies.mean()) ** 2 / float(energies.var()))


def _required_distance(
    one: Float[np.ndarray, "..."],
    other: Float[np.ndarray, "..."],
    noise: float,
    free: int,
    steady: float,
    dof: float,
) -> Float[np.ndarray, "..."]:
    chosen = (np.minimum(one, other) > 1).astype(np.float64)
    chance = 1 + chosen + Z * np.sqrt(2 / steady * (1 + 1 / dof))
    return noise * ((1 / one + 1 / other) * chance + CLEAR / free)
