"""Mixtures of latents, with their number, fitted by EM: from one latent to as many as are clearly separated.

A latent is split where it is most likely to be two: the observation that fits worst is set apart, which finds a latent
that was observed once, or the observations are divided across their longest axis, which finds two of one size. EM
follows each of these starts, and the likeliest end whose latents are all separated is kept. The most latents that are
allowed need not all be used: K larger than the truth does no harm.
"""

import abc
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from bidual.world.policies import CategoricalEmission, GaussianEmission


class AbstractEmissionFamily(abc.ABC):
    """A family of laws of observations."""

    @abc.abstractmethod
    def fit(
        self, observations: Float[np.ndarray, "n D"], shares: Float[np.ndarray, "n k"]
    ) -> GaussianEmission | CategoricalEmission:
        """Fit the laws of the latents to observations that belong to them with these shares."""

    @abc.abstractmethod
    def coordinates(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n m"]:
        """Embed observations as vectors with meaningful distances."""


@final
@dataclass(frozen=True)
class Gaussian(AbstractEmissionFamily):
    """Vectors with the same independent noise on every number."""

    def fit(self, observations: Float[np.ndarray, "n D"], shares: Float[np.ndarray, "n k"]) -> GaussianEmission:
        """Fit means, and the variance around them with its n - k degrees of freedom."""
        n, D = observations.shape
        counts = shares.sum(axis=0)
        means, weights = (shares.T @ observations) / counts[:, None], counts / n
        spread = float((shares * GaussianEmission(means, 1.0, weights).distances(observations)).sum())
        least = 1e-12 * float(np.square(observations).mean()) + 1e-300  # where observations are all the same
        variance = max(spread / (max(n - len(counts), 1) * D), least)
        return GaussianEmission(means, variance, weights)

    def coordinates(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n m"]:
        """Return the observations, which are vectors."""
        return observations


@final
@dataclass(frozen=True)
class Categorical(AbstractEmissionFamily):
    """Entries that are one of finitely many symbols, independent given the latent."""

    symbols: int

    def fit(self, observations: Float[np.ndarray, "n D"], shares: Float[np.ndarray, "n k"]) -> CategoricalEmission:
        """Fit frequencies, with half an observation more of every symbol."""
        counts = shares.sum(axis=0)
        sums = np.einsum("nk,ndl->kdl", shares, self._encode_symbols(observations), optimize=True) + 0.5
        return CategoricalEmission(sums / sums.sum(axis=-1, keepdims=True), counts / len(observations))

    def coordinates(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n m"]:
        """Return one indicator for every entry and symbol."""
        return self._encode_symbols(observations).reshape(len(observations), observations.shape[1] * self.symbols)

    def _encode_symbols(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D L"]:
        return (observations[..., None] == np.arange(self.symbols)).astype(np.float64)


Emission = GaussianEmission | CategoricalEmission

_SWEEPS = 20  # of EM, which ends far earlier where latents are well separated
_HARD = 5  # sweeps with each observation in one latent only: shares of a bad start are too even to get away from it
_POWER = 8  # multiplications towards the longest axis


def fit_mixture(
    family: AbstractEmissionFamily, observations: Float[np.ndarray, "n D"], most: int, warm: Emission | None
) -> Emission:
    """Fit the best mixture of at most `most` latents, grown from the previous one or else from one latent."""
    if warm is not None and 1 < warm.size < len(observations):
        emission = _run_em(family, observations, warm.decode(observations))
        if emission.size == warm.size and _is_separated(family, observations, emission):
            return _grow(family, observations, most, emission)
    return _grow(family, observations, most, family.fit(observations, np.ones((len(observations), 1))))


def _grow(
    family: AbstractEmissionFamily, observations: Float[np.ndarray, "n D"], most: int, emission: Emission
) -> Emission:
    """Add latents for as long as they are separated; one observation must be left to estimate the noise.

    Of three latents two in one are often not separated from the third: where one more is not, two more may be.
    """
    best = emission
    while emission.size < min(most, len(observations) - 1) and emission.size <= best.size + 1:
        ends = [_run_em(family, observations, start) for start in _propose_splits(family, observations, emission)]
        ends = [end for end in ends if end.size > emission.size]
        if not ends:
            break
        valid = [end for end in ends if _is_separated(family, observations, end)]
        emission = max(valid or ends, key=lambda end: _compute_log_likelihood(end, observations))
        best = emission if valid else best
    return best


def _compute_log_likelihood(emission: Emission, observations: Float[np.ndarray, "n D"]) -> float:
    return float(np.logaddexp.reduce(emission.scores(observations), axis=1).sum())


def _is_separated(family: AbstractEmissionFamily, observations: Float[np.ndarray, "n D"], emission: Emission) -> bool:
    labels = emission.decode(observations)
    return len(np.unique(labels)) == emission.size and are_separated(
        family.coordinates(observations), labels, emission.freedom
    )


def _run_em(
    family: AbstractEmissionFamily, observations: Float[np.ndarray, "n D"], labels: Int[np.ndarray, "n"]
) -> Emission:
    """Run EM from a division of the observations; at first with each of them in one latent only."""
    emission = family.fit(observations, _encode_shares(labels))
    for sweep in range(_SWEEPS):
        scores = emission.scores(observations)
        again = scores.argmax(axis=1)
        if sweep and np.array_equal(again, labels):
            break
        labels = again
        shares = _encode_shares(labels) if sweep < _HARD else softmax(scores, axis=1)
        emission = family.fit(observations, shares[:, shares.sum(axis=0) > 1e-6])
    return emission


def _propose_splits(
    family: AbstractEmissionFamily, observations: Float[np.ndarray, "n D"], emission: Emission
) -> list[Int[np.ndarray, "n"]]:
    """Propose divisions with one latent more."""
    scores = emission.scores(observations)
    labels, x = scores.argmax(axis=1), family.coordinates(observations)
    starts = [_move_to_latent(labels, np.array([int(scores.max(axis=1).argmin())]), emission.size)]
    for latent in range(emission.size):
        members = np.flatnonzero(labels == latent)
        if members.size >= 4:
            starts.append(_move_to_latent(labels, members[_find_side(x[members])], emission.size))
    return starts


def _move_to_latent(labels: Int[np.ndarray, "n"], moved: Int[np.ndarray, "some"], latent: int) -> Int[np.ndarray, "n"]:
    again = labels.copy()
    again[moved] = latent
    return again


def _find_side(x: Float[np.ndarray, "n m"]) -> Int[np.ndarray, "far"]:
    """Return the observations beyond the middle of their longest axis, found by powers of the covariance."""
    centred = x - x.mean(axis=0)
    axis = centred[np.argmax((centred**2).sum(axis=1))]
    for _ in range(_POWER):
        axis = centred.T @ (centred @ axis)
        size = np.linalg.norm(axis)
        if size == 0:  # all the same
            return np.zeros(0, dtype=np.int64)
        axis = axis / size
    return np.flatnonzero(centred @ axis > 0)


def _encode_shares(labels: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n k"]:
    """Return the shares of a division, without empty latents."""
    _, numbers = np.unique(labels, return_inverse=True)
    return np.eye(int(numbers.max()) + 1)[numbers]


Z = 5.0  # standard deviations of the noise's size
CLEAR = 32.0
_ENOUGH = 8  # observations needed to estimate the steadiness of noise


def are_separated(x: Float[np.ndarray, "n m"], labels: Int[np.ndarray, "n"], free: int) -> bool:
    """Return whether all groups of a division are latents; `free` is the number D of dimensions of the noise.

    With m_j the mean of n_j observations and v the noise of a single one (the expected square of its distance from the
    mean of its latent), E |m_j - m_l|^2 = |mu_j - mu_l|^2 + v (1/n_j + 1/n_l). Two groups count as two latents if
    their distance exceeds what chance and a good choice of groups explain, and what a cut through one cloud gives:

        |m_j - m_l|^2  >=  v (1/n_j + 1/n_l) (1 + chosen + Z sqrt(2/r (1 + 1/dof)))  +  CLEAR v / D

    chosen is 1 where both groups are larger than one: the best of all cuts through pure noise is so far apart. r is
    the steadiness of the size of the noise: sqrt(2/r) is its deviation relative to its mean, r = D for normal noise in
    all directions, and less where it lives in few of them or in a few large errors. A cut through the middle of a
    normal cloud gives 2.56 v / D, and CLEAR requires more than ten times that: latents that are not well separated are
    merged, which is the lesser evil while exploring.
    """
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
    needed = _require_distance(sizes[:, None], sizes[None], noise, free, steady, dof)
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
    return np.all(apart >= _require_distance(np.ones(1), np.maximum(sizes, 1.0), noise, free, steady, dof), axis=1)


def _estimate_steadiness(energies: Float[np.ndarray, "n"], free: int) -> float:
    """Estimate r = 2 mean^2 / variance of the squared distances from the means, where there are enough of them."""
    if energies.size < _ENOUGH or energies.var() == 0:
        return float(free)
    return min(float(free), 2 * float(energies.mean()) ** 2 / float(energies.var()))


def _require_distance(
    one: Float[np.ndarray, "..."],
    other: Float[np.ndarray, "..."],
    noise: float,
    free: int,
    steady: float,
    dof: float,
) -> Float[np.ndarray, "..."]:
    """Return the squared distance that two groups must have: beyond noise, and beyond a cut through one cloud."""
    chosen = (np.minimum(one, other) > 1).astype(np.float64)
    chance = 1 + chosen + Z * np.sqrt(2 / steady * (1 + 1 / dof))
    return noise * ((1 / one + 1 / other) * chance + CLEAR / free)
