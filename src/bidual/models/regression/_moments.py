"""Sufficient statistics of a regression of state differences on features, and what rounding can do to them."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError

_EPS = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of the regression."""

    __repr__ = describe_briefly

    gram: Float[np.ndarray, "d d"]  # F'F
    cross: Float[np.ndarray, "n d"]  # Y'F
    squares: Float[np.ndarray, "n"]  # of the differences
    count: int

    @property
    def unit(self) -> float:
        """Roundings in one entry of a sum over all transitions and episodes, and of products over d."""
        return (2 * self.count + 8 * len(self.gram) + 8) * _EPS

    def add(self, phi: Float[np.ndarray, "k d"], differences: Float[np.ndarray, "k n"]) -> "Moments":
        """Add the transitions of one more episode; raise where a number is not finite."""
        if not (np.isfinite(phi).all() and np.isfinite(differences).all()):
            row = int(np.argmin(np.isfinite(phi).all(axis=1) & np.isfinite(differences).all(axis=1)))
            raise ModelError(
                f"transition {row} of an episode has features or a difference of states that are not finite: end "
                "episodes before the environment explodes, or check the function of bd.features.mapped"
            )
        return Moments(
            gram=self.gram + phi.T @ phi,
            cross=self.cross + differences.T @ phi,
            squares=self.squares + np.sum(differences**2, axis=0),
            count=self.count + len(phi),
        )


def start_moments(n: int, d: int) -> Moments:
    """Return the moments before the first transition."""
    return Moments(np.zeros((d, d)), np.zeros((n, d)), np.zeros(n), 0)
