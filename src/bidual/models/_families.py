"""How laws of observations are fitted to observations that belong to latents: the M step of EM, for two families."""

import abc
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.policies import CategoricalEmission, GaussianEmission


class AbstractFamily(abc.ABC):
    """A family of laws of observations."""

    @abc.abstractmethod
    def fit(
        self, observations: Float[np.ndarray, "n D"], shares: Float[np.ndarray, "n k"]
    ) -> GaussianEmission | CategoricalEmission:
        """The laws that explain best what belongs to the latents with these shares."""

    @abc.abstractmethod
    def coordinates(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n m"]:
        """Observations as vectors, so that distances mean something."""


@final
@dataclass(frozen=True)
class Gaussian(AbstractFamily):
    """Vectors with the same independent noise on every number."""

    def fit(self, observations: Float[np.ndarray, "n D"], shares: Float[np.ndarray, "n k"]) -> GaussianEmission:
        """Means, and the variance around them with its degrees of freedom: n - k observations are left to tell it."""
        n, D = observations.shape
        counts = shares.sum(axis=0)
        means, weights = (shares.T @ observations) / counts[:, None], counts / n
        spread = float((shares * GaussianEmission(means, 1.0, weights).distances(observations)).sum())
        least = 1e-12 * float(np.square(observations).mean()) + 1e-300  # where observations are all the same
        variance = max(spread / (max(n - len(counts), 1) * D), least)
        return GaussianEmission(means, variance, weights)

    def coordinates(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n m"]:
        """They are vectors."""
        return observations


@final
@dataclass(frozen=True)
class Categorical(AbstractFamily):
    """Entries that are one of finitely many symbols, independent given the latent."""

    symbols: int

    def fit(self, observations: Float[np.ndarray, "n D"], shares: Float[np.ndarray, "n k"]) -> CategoricalEmission:
        """Frequencies, with half an observation more of every symbol."""
        counts = shares.sum(axis=0)
        sums = np.einsum("nk,ndl->kdl", shares, self._hot(observations), optimize=True) + 0.5
        return CategoricalEmission(sums / sums.sum(axis=-1, keepdims=True), counts / len(observations))

    def coordinates(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n m"]:
        """One number for every entry and symbol."""
        return self._hot(observations).reshape(len(observations), observations.shape[1] * self.symbols)

    def _hot(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D L"]:
        return (observations[..., None] == np.arange(self.symbols)).astype(np.float64)
