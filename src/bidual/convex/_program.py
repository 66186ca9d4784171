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


@final
@dataclass(frozen=True, eq=False)
class ConvexProgram:
    """min f(y, v)  s.t.  g(y, v) <= 0 (or == 0),  y = the image of an embedding, v auxiliary variables.

    `violation` is the same problem with the worst violation t, in units, to be minimised instead of f, and `margin`
    the one where only the inequalities may be violated; both are None where there is nothing to violate.
    """

    image: Image
    functions: AbstractFunctions
    main: ConicForm
    violation: ConicForm | None
    margin: ConicForm | None
    equality: Bool[np.ndarray, "m"]
    units: Float[np.ndarray, "m"]
    num_auxiliary: int

    @property
    def tolerances(self) -> Float[np.ndarray, "m"]:
        """The violation of a row that still counts as holding."""
        return TOLERANCE * self.units

    def violations(self, g: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """How far each row is from holding, given g: never negative."""
        return np.where(self.equality, np.abs(g), np.maximum(g, 0.0))
