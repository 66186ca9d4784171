"""How little is known of what follows, in compiled code: |phi| in the norm of Lambda^-1, or a little more.

The norm costs a product with a d x d matrix in every step of every sample, many times what the estimate costs. An outer
ellipsoid of rank r keeps r eigenvectors v_i of Lambda exactly, and takes the largest rho of the other 1 / lambda_i for
all of these:

    sigma^2 = rho |phi|^2 + sum over the kept (1 / lambda_i - rho) (v_i . phi)^2     >=     phi' Lambda^-1 phi.

What is kept is the least known and the best known directions, so many of each that the others are most alike.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual.models._regression import Posterior

_LEAST = 1e-12  # of a square: its root has a derivative there


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """sigma(phi)^2 = rest |phi|^2 + sum signs (root phi)^2."""

    root: Float[Any, "r d"]  # kept eigenvectors, times the root of the size of their factor
    signs: Float[Any, "r"]  # of these factors: less than 0 where more is known than of the rest
    rest: Float[Any, ""]

    def sigma(self, phi: Float[Array, "d"]) -> Float[Array, ""]:
        """In compiled code, in the precision of phi; never 0, so that it can be differentiated everywhere."""
        root, signs, rest = (jnp.asarray(part, phi.dtype) for part in (self.root, self.signs, self.rest))
        along = root @ phi
        # Products with vectors and not sums: over many samples they are products of matrices, which are faster.
        squared = (along * along) @ signs
        if self.root.shape[0] < self.root.shape[1]:
            squared = squared + (phi * phi) @ jnp.full_like(phi, rest)
        return jnp.sqrt(jnp.maximum(squared, _LEAST))


def outer_ellipsoid(posterior: Posterior, rank: int | None = None) -> Ellipsoid:
    """The ellipsoid of rank `rank` around that of the posterior which says least too much of what was seen.

    Too much is the sum of sigma^2 - phi' Lambda^-1 phi over all phi so far and an orthonormal set of others, which
    stand for what was not seen. None, or a rank of d, is the ellipsoid itself.
    """
    values, vectors = posterior.spectrum  # ascending: the least known direction is the first
    d, inverse = len(values), 1 / values
    r = d if rank is None else min(rank, d)
    first = _least_known(inverse, values - posterior.ridge + 1, r)
    kept = np.r_[:first, d - r + first : d]
    rest = inverse[first] if r < d else 0.0
    factors = inverse[kept] - rest
    root = np.sqrt(np.abs(factors))[:, None] * vectors[:, kept].T
    return Ellipsoid(root, np.where(factors < 0, -1.0, 1.0), np.asarray(rest))


def _least_known(inverse: Float[np.ndarray, "d"], weights: Float[np.ndarray, "d"], r: int) -> int:
    """How many of the r kept are the least known ones: the others, in between, are all taken for their first."""
    d = len(inverse)
    if r == d:
        return r
    sums, weighted = (np.concatenate([[0.0], np.cumsum(part)]) for part in (weights, weights * inverse))
    first = np.arange(r + 1)
    last = first + d - r
    return int(np.argmin(inverse[first] * (sums[last] - sums[first]) - (weighted[last] - weighted[first])))
