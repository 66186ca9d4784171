"""Uncertainty of the next state in compiled code: |phi| in the norm of Lambda^-1, or a little more.

The norm takes a product with a d x d matrix in every step of every sample, many times the cost of the estimate. An
outer ellipsoid of rank r keeps r eigenvectors v_i of Lambda exactly, and takes the largest rho of the other
1 / lambda_i for all of these:

    sigma^2 = sum over the kept (v_i . phi)^2 / lambda_i + rho (|phi|^2 - sum over the kept (v_i . phi)^2),

which is at least phi' Lambda^-1 phi. The least known and the best known directions are kept, so many of each
that the others are most alike: at first all are best known ones, and later, when everything is known a little, least
known ones too.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual.models.regression._confidence import Confidence
from bidual.models.regression._regression import Posterior

_LEAST = 1e-12  # of a square: its root has a derivative there


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """The formula above: directions v_i of length 1 at right angles, 1 / lambda_i, and rho."""

    directions: Float[Any, "... r d"]
    inverse: Float[Any, "... r"]
    rest: Float[Any, "..."]

    def sigma(self, phi: Float[Array, "d"]) -> Float[Array, ""]:
        """Compute sigma in the precision of phi; never 0, so that it can be differentiated everywhere."""
        directions, inverse, rest = (
            jnp.asarray(part, phi.dtype) for part in (self.directions, self.inverse, self.rest)
        )
        # Vectors on the left, and products where there could be sums: over many samples both are a third faster.
        along = phi @ directions.T
        squared = (along * along) @ inverse
        if self.directions.shape[-2] < self.directions.shape[-1]:
            squared = squared + rest * jnp.maximum(jnp.vdot(phi, phi) - jnp.vdot(along, along), 0.0)
        return jnp.sqrt(jnp.maximum(squared, _LEAST))


def find_outer_ellipsoid(known: Posterior | Confidence, rank: int | None = None) -> Ellipsoid:
    """Return the ellipsoid of rank `rank` around that of a posterior or of a set, with the least excess on the data.

    The excess is the sum of sigma^2 - phi' Lambda^-1 phi over all phi so far, and over the pseudo-data of the ridge: d
    others, at right angles and with squares of lambda. None, or a rank of d, is the ellipsoid itself. A rank close to
    tr(F'F Lambda^-1), the number of directions that anything is known of, is nearly that; lower ones are loose.
    """
    values, vectors = known.spectrum  # ascending: the least known direction is the first
    d, inverse = len(values), 1 / values
    r = d if rank is None else min(rank, d)
    first = _count_least_known(values, r)
    kept = np.r_[:first, d - r + first : d]
    return Ellipsoid(vectors[:, kept].T, inverse[kept], np.asarray(inverse[first] if r < d else 0.0))


def _count_least_known(values: Float[np.ndarray, "d"], r: int) -> int:
    """Return how many of the r kept are the least known ones: those in between are all replaced by their first.

    Data and ridge together weigh a direction with lambda_i: the excess is the sum of lambda_i rho - 1 over the others.
    """
    others = len(values) - r
    if others == 0:
        return r
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return int(np.argmin((sums[others:] - sums[: r + 1]) / values[: r + 1]))
