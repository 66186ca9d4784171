"""Emissions of hidden states: laws of observations, one for each of a few latents, and the decoding of observations.

They hold parameters only, so that a policy on observations needs nothing but arrays; `models` fits them.
"""

import abc
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import final

import numpy as np
from jaxtyping import Float, Int


class AbstractEmission(abc.ABC):
    """The mixture of laws that the observations of one step are drawn from."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of latents."""

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """The number of entries of an observation."""

    @property
    @abc.abstractmethod
    def freedom(self) -> int:
        """The number of dimensions of the noise."""

    @property
    @abc.abstractmethod
    def centres(self) -> Float[np.ndarray, "k m"]:
        """The mean observation of each latent, as vectors."""

    @property
    @abc.abstractmethod
    def noise(self) -> float:
        """The expected square of an observation's distance from its centre."""

    @property
    @abc.abstractmethod
    def steadiness(self) -> float:
        """The number r, where sqrt(2/r) is the deviation of that square relative to its mean."""

    @abc.abstractmethod
    def scores(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n k"]:
        """Compute the logarithm of p(latent) p(observation | latent)."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> bytes:
        """A digest, equal for emissions with the same parameters."""

    def decode(self, observations: Float[np.ndarray, "n D"]) -> Int[np.ndarray, "n"]:
        """Return the most likely latent of every observation."""
        return np.argmax(self.scores(observations), axis=1)


@final
@dataclass(frozen=True, eq=False)
class GaussianEmission(AbstractEmission):
    """A mean vector for every latent, with the same independent normal noise on all entries."""

    means: Float[np.ndarray, "k D"]
    variance: float  # of the noise on every number
    weights: Float[np.ndarray, "k"]

    @property
    def size(self) -> int:
        """The number of means."""
        return len(self.means)

    @property
    def dimension(self) -> int:
        """The length of the means."""
        return self.means.shape[1]

    @property
    def freedom(self) -> int:
        """The length of the means: all their entries are free."""
        return self.means.shape[1]

    @property
    def centres(self) -> Float[np.ndarray, "k m"]:
        """The means."""
        return self.means

    @property
    def noise(self) -> float:
        """The variances of all numbers together."""
        return self.variance * self.means.shape[1]

    @property
    def steadiness(self) -> float:
        """The square of a normal vector has a chi-squared law."""
        return float(self.means.shape[1])

    @property
    def fingerprint(self) -> bytes:
        """A digest of means, variance and weights."""
        return _digest(self.means, np.array([self.variance]), self.weights)

    def distances(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n k"]:
        """Compute squared distances to all means, centred to reduce rounding errors."""
        centre = self.means.mean(axis=0)
        x, m = observations - centre, self.means - centre
        return np.maximum((x * x).sum(axis=1)[:, None] - 2 * x @ m.T + (m * m).sum(axis=1), 0.0)

    def decode(self, observations: Float[np.ndarray, "n D"]) -> Int[np.ndarray, "n"]:
        """Return the most likely latents, without terms common to all: this runs at every step of an episode."""
        centre, slopes, constants = self._linear
        return np.argmax((observations - centre) @ slopes + constants, axis=1)

    @property
    def is_finite(self) -> bool:
        """Whether what it decodes with are numbers: squares of the means and quotients by the variance can overflow."""
        with np.errstate(all="ignore"):
            centre, slopes, constants = self._linear
        return all(bool(np.isfinite(part).all()) for part in (centre, slopes, constants))

    @cached_property
    def _linear(self) -> tuple[Float[np.ndarray, "D"], Float[np.ndarray, "D k"], Float[np.ndarray, "k"]]:
        centre = self.means.mean(axis=0)
        m = self.means - centre
        constants = np.log(self.weights) - (m * m).sum(axis=1) / (2 * self.variance)
        return centre, np.ascontiguousarray(m.T) / self.variance, constants

    def scores(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n k"]:
        """Compute the logarithms of weighted normal densities."""
        constant = -0.5 * self.dimension * np.log(2 * np.pi * self.variance)
        return np.log(self.weights) + constant - self.distances(observations) / (2 * self.variance)


@final
@dataclass(frozen=True, eq=False)
class CategoricalEmission(AbstractEmission):
    """Every entry of an observation is one of L symbols, drawn by a law of its own for every latent."""

    laws: Float[np.ndarray, "k D L"]
    weights: Float[np.ndarray, "k"]

    @property
    def size(self) -> int:
        """The number of laws."""
        return len(self.laws)

    @property
    def dimension(self) -> int:
        """The number of entries."""
        return self.laws.shape[1]

    @property
    def freedom(self) -> int:
        """Probabilities sum to 1: one symbol of every entry follows from the others."""
        return self.laws.shape[1] * (self.laws.shape[2] - 1)

    @property
    def centres(self) -> Float[np.ndarray, "k m"]:
        """The laws themselves: an observation is a vector of ones and zeros."""
        return self.laws.reshape(len(self.laws), -1)

    @property
    def noise(self) -> float:
        """E |hot - law|^2 = 1 - |law|^2 for every entry."""
        return float(self.weights @ (1 - np.square(self.laws).sum(axis=-1)).sum(axis=-1))

    @property
    def steadiness(self) -> float:
        """From the law of |hot - law|^2 = 1 - 2 law[symbol] + |law|^2, entry by entry."""
        energies = 1 - 2 * self.laws + np.square(self.laws).sum(axis=-1, keepdims=True)
        mean = (self.laws * energies).sum(axis=-1)
        variance = (self.laws * np.square(energies)).sum(axis=-1) - mean**2
        return float(2 * self.noise**2 / max(float(self.weights @ variance.sum(axis=-1)), 1e-300))

    @property
    def fingerprint(self) -> bytes:
        """A digest of laws and weights."""
        return _digest(self.laws, self.weights)

    def scores(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n k"]:
        """Sum the logarithms of the entries' probabilities, and of the weights."""
        symbols = observations.astype(np.int64)
        entries = np.log(self.laws)[:, np.arange(self.dimension), symbols]  # k n D
        return np.log(self.weights) + entries.sum(axis=-1).T


def _digest(*arrays: np.ndarray) -> bytes:
    digest = blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
