"""Affine images of the embedding: all that a problem depends on.

Objective and constraints depend on the embedding only through y = B Psi + b: two numbers for a reward and a budget, one
number per state for the entropy of the visits. Mixing policies mixes their images, so plans are kept as images.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

EPS = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, eq=False)
class Image:
    """y = B Psi + b, where B acts on (H, d) in row-major order or, with `total`, on the sum over time (d,)."""

    matrix: sp.csr_array
    offset: Float[np.ndarray, "n"]
    horizon: int
    total: bool

    @property
    def size(self) -> int:
        """The number of entries of an image."""
        return self.offset.size

    @property
    def columns(self) -> int:
        """The number of entries of the embedding that B acts on."""
        _, columns = self.matrix.shape or (0, 0)
        return int(columns)

    def __call__(self, psi: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "n"]:
        """Return the image of an embedding."""
        return self.matrix @ (psi.sum(axis=0) if self.total else psi.ravel()) + self.offset

    def adjoint(self, slope: Float[np.ndarray, "n"]) -> Float[np.ndarray, "H d"]:
        """Return the cost theta with theta . Psi = slope . B Psi."""
        theta = self.matrix.T @ slope
        if self.total:
            return np.broadcast_to(theta, (self.horizon, theta.size))
        return theta.reshape(self.horizon, -1)

    def spread(self, error: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "n"]:
        """Bound the error of the image when every entry of the embedding has an error of at most `error`."""
        return abs(self.matrix) @ (error.sum(axis=0) if self.total else error.ravel())

    def box(
        self, low: Float[np.ndarray, "H d"], high: Float[np.ndarray, "H d"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Enclose the image of every embedding between two ends; no rounding takes an end of 0 below 0."""
        low, high = ((end.sum(axis=0) if self.total else end.ravel()) for end in (low, high))
        rising, falling = self.matrix.maximum(0), self.matrix.minimum(0)
        units = (np.diff(self.matrix.indptr) + self.horizon + 4) * EPS
        ends = []
        for sign, (one, other) in ((-1.0, (low, high)), (1.0, (high, low))):
            size = rising @ np.abs(one) - falling @ np.abs(other) + np.abs(self.offset)
            ends.append(rising @ one + falling @ other + self.offset + sign * units * size)
        return ends[0], ends[1]
