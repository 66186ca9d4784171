"""Families of laws of observations, and their maximum-likelihood fits: the M step of EM."""

import abc
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

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
        sums = np.einsum("nk,ndl->kdl", shares, self._one_hot(observations), optimize=True) + 0.5
        return CategoricalEmission(sums / sums.sum(axis=-1, keepdims=True), counts / len(observations))

    def coordinates(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n m"]:
        """Return one indicator for every entry and symbol."""
        return self._one_hot(observations).reshape(len(observations), observations.shape[1] * self.symbols)

    def _one_hot(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D L"]:
        return (observations[..., None] == np.arange(self.symbols)).astype(np.float64)
