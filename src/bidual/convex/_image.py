"""The affine images of the embedding that a problem really uses.

Objective and constraints see the embedding only through y = B Psi + b: two numbers for a reward and a budget, one
number per state for the entropy of the visits. Mixing policies mixes their images, so plans are kept as images.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float


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
        """How many numbers an image has."""
        return self.offset.size

    @property
    def columns(self) -> int:
        """How many numbers of the embedding it is made from."""
        _, columns = self.matrix.shape or (0, 0)
        return int(columns)

    def __call__(self, psi: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "n"]:
        """The image of an embedding."""
        return self.matrix @ (psi.sum(axis=0) if self.total else psi.ravel()) + self.offset

    def adjoint(self, slope: Float[np.ndarray, "n"]) -> Float[np.ndarray, "H d"]:
        """The cost theta with theta . Psi = slope . B Psi."""
        theta = self.matrix.T @ slope
        if self.total:
            return np.broadcast_to(theta, (self.horizon, theta.size))
        return theta.reshape(self.horizon, -1)

    def spread(self, error: Float[np.ndarray, "H d"]) -> Float[np.ndarray, "n"]:
        """How far the image can be off when every entry of the embedding can be off by `error`."""
        return abs(self.matrix) @ (error.sum(axis=0) if self.total else error.ravel())
