"""Densities of the next observation, the factor mu of a low-rank law over vectors: an interface, and normal ones."""

import abc
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ModelError


class AbstractDensities(abc.ABC):
    """The d densities mu_1, ..., mu_d of one candidate: P(s' | s, a) = sum_z phi_z(s, a) mu_z(s')."""

    @abc.abstractmethod
    def log_density(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n d"]:
        """Compute the logarithms of all densities at some observations; -inf where one is 0."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "d count D"]:
        """Draw observations from every density."""


@final
@dataclass(frozen=True, eq=False)
class NormalDensities(AbstractDensities):
    """Normal densities with independent entries, around one mean for each z.

    Args:
        means: the means, (d, D).
        deviation: the standard deviations, of any shape that broadcasts to (d, D).
    """

    means: Float[np.ndarray, "d D"]
    deviation: float | Float[np.ndarray, "..."]

    def __post_init__(self) -> None:
        """Check the shapes."""
        means, deviation = np.asarray(self.means, dtype=np.float64), np.asarray(self.deviation, dtype=np.float64)
        if means.ndim != 2 or not np.isfinite(means).all():
            raise ModelError(f"means must be a finite array (d, D), one mean for each z; got shape {means.shape}")
        if not (np.isfinite(deviation).all() and (deviation > 0).all()):
            raise ModelError(f"deviation must be positive and finite; got {self.deviation!r:.80}")
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "deviation", np.broadcast_to(deviation, means.shape))

    def log_density(self, observations: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n d"]:
        """Compute the logarithms of the normal densities."""
        apart = (observations[:, None] - self.means) / self.deviation
        constant = np.log(self.deviation).sum(axis=-1) + 0.5 * np.log(2 * np.pi) * self.means.shape[1]
        return -0.5 * np.square(apart).sum(axis=-1) - constant

    def sample(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "d count D"]:
        """Draw normal vectors around every mean."""
        d, D = self.means.shape
        deviation = np.asarray(self.deviation)[:, None]
        return self.means[:, None] + deviation * rng.standard_normal((d, count, D))
