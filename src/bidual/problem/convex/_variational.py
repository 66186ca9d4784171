"""Problems in the form of the paper's dual players: every function with its conjugate on a compact set.

    max over (alpha, beta_i, gamma_i)  min over policies of
        (alpha + sum_i beta_i) . y  -  f_K*(alpha)  -  sum_i gamma_i g_iK*(beta_i / gamma_i),     y = B Psi + b

The dual variables of a function live in the coordinates of its own part of the image y. With the
embedding itself as image these are the paper's, to the letter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex._function import AbstractFunction
from bidual.problem.convex._image import Image
from bidual.problem.convex._piecewise import Affine
from bidual.problem.convex._program import AbstractRows


@final
@dataclass(frozen=True, eq=False)
class Term:
    """A function and its part of the image: z = y[rows] - shift."""

    function: AbstractFunction
    rows: Int[np.ndarray, "n"]
    shift: Float[np.ndarray, "n"]

    @property
    def is_linear(self) -> bool:
        """Whether its conjugate is the indicator of one point, so that there is nothing to search."""
        return isinstance(self.function, Affine)

    def part(self, y: Float[np.ndarray, "all"]) -> Float[np.ndarray, "n"]:
        """Return the function's part of an image."""
        return y[self.rows] - self.shift

    def value(self, y: Float[np.ndarray, "all"]) -> float:
        """Evaluate the function at an image."""
        return self.function.value(self.part(y))

    @property
    def size(self) -> float:
        """About the largest absolute value; steps need no more than its order."""
        try:
            return max(self.function.largest, 1e-300)
        except ProblemError:  # no bound was found, as for an exponential: its values at the middle and a corner of K
            K = self.function.K
            corner = K.maximiser(np.ones(K.size))
            sizes = [abs(self.function.value(x)) for x in (K.center, corner)]
            return max([size for size in sizes if math.isfinite(size)] + [1e-3])


@final
@dataclass(frozen=True, eq=False)
class SlaterPoint:
    """A mixture of plans, known in advance, that is strictly feasible for every inequality."""

    weights: Float[np.ndarray, "k"]  # of the dual player's initial plans
    room: float  # the least slack of an inequality


@final
@dataclass(frozen=True, eq=False)
class VariationalProgram(AbstractRows):
    """min f(y)  s.t.  g_i(y) <= 0 (or == 0),  y the image of an embedding."""

    __repr__ = describe_briefly

    image: Image
    f: Term
    g: tuple[Term, ...]
    equality: Bool[np.ndarray, "m"]
    units: Float[np.ndarray, "m"]
    slater: SlaterPoint | None = None

    def values(self, y: Float[np.ndarray, "n"]) -> tuple[float, Float[np.ndarray, "m"]]:
        """Evaluate f and g at an image."""
        return self.f.value(y), np.array([term.value(y) for term in self.g])

    def bounds(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Return a box that holds the images of all policies, from the bounds of the functions' sets."""
        lower, upper = np.full(self.image.size, -np.inf), np.full(self.image.size, np.inf)
        for term in (self.f, *self.g):
            least, most = term.function.K.bounds
            lower[term.rows] = np.maximum(lower[term.rows], least + term.shift)
            upper[term.rows] = np.minimum(upper[term.rows], most + term.shift)
        return lower, upper

    def slope(
        self, alpha: Float[np.ndarray, "nf"], betas: Sequence[Float[np.ndarray, "..."]]
    ) -> Float[np.ndarray, "n"]:
        """Return the cost of the image, alpha + sum_i beta_i."""
        total = np.zeros(self.image.size)
        total[self.f.rows] += alpha
        for term, beta in zip(self.g, betas, strict=True):
            total[term.rows] += beta
        return total
