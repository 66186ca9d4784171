"""Convex problems as every player sees them: an image of the embedding, functions of it, and cone forms."""

import abc
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from bidual.convex._affine import TOLERANCE
from bidual.convex._conic import ConicForm
from bidual.convex._image import Image


class AbstractFunctions(abc.ABC):
    """f and g of a problem in its minimising form, as numbers."""

    @abc.abstractmethod
    def values(self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]) -> tuple[float, np.ndarray]:
        """f(y, v) and g(y, v), which is to be <= 0 (or == 0) row by row."""

    @abc.abstractmethod
    def errors(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"], error: Float[np.ndarray, "n"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """How far f and every g can be off, to first order, when y can be off by `error`."""

    @abc.abstractmethod
    def magnitudes(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """The largest numbers that come up while f and every g are evaluated."""

    @abc.abstractmethod
    def slope(
        self, y: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"], weight: float
    ) -> Float[np.ndarray, "n"] | None:
        """A subgradient of weight f + gamma . g at y, without auxiliary variables; None where there is none."""


class AbstractSmooth(abc.ABC):
    """f (row 0) and g (the other rows) where they have derivatives."""

    @abc.abstractmethod
    def values(self, y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "rows"]:
        """F and g."""

    @abc.abstractmethod
    def gradients(self, y: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows n"]]:
        """F and g with their gradients."""

    @abc.abstractmethod
    def curvature(
        self, row: int, y: Float[np.ndarray, "n"], directions: Float[np.ndarray, "k n"]
    ) -> Float[np.ndarray, "k n"]:
        """The Hessian of one row at y, applied to every direction."""


@final
@dataclass(frozen=True, eq=False)
class ConvexProgram:
    """min f(y, v)  s.t.  g(y, v) <= 0 (or == 0),  y = the image of an embedding, v auxiliary variables.

    `violation` is the same problem with the worst violation t, in units, to be minimised instead of f, and `margin`
    the one where only the inequalities may be violated; both are None where there is nothing to violate. `smooth` is
    there where every function has derivatives.
    """

    image: Image
    functions: AbstractFunctions
    main: ConicForm
    violation: ConicForm | None
    margin: ConicForm | None
    equality: Bool[np.ndarray, "m"]
    units: Float[np.ndarray, "m"]
    num_auxiliary: int
    smooth: AbstractSmooth | None = None

    @property
    def tolerances(self) -> Float[np.ndarray, "m"]:
        """The violation of a row that still counts as holding."""
        return TOLERANCE * self.units

    def violations(self, g: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n m"]:
        """How far each row is from holding, given g: never negative."""
        return np.where(self.equality, np.abs(g), np.maximum(g, 0.0))
