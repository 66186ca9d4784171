"""Positive multiples of a function plus a constant."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex._function import AbstractFunction, Cut
from bidual.problem.convex._sets import AbstractCompact


@final
@dataclass(frozen=True, eq=False)
class Scaled(AbstractFunction):
    """factor * function(x) + constant, with factor > 0."""

    __repr__ = describe_briefly

    function: AbstractFunction
    factor: float
    constant: float = 0.0
    K: AbstractCompact = field(init=False)

    def __post_init__(self) -> None:
        """Check the factor; the set is that of the function."""
        if not (np.isfinite(self.factor) and self.factor > 0 and np.isfinite(self.constant)):
            raise ProblemError(
                f"only a positive multiple plus a finite constant is convex; got {self.factor!r} and {self.constant!r}"
            )
        object.__setattr__(self, "K", self.function.K)

    @property
    def lipschitz(self) -> float:
        """The multiple of the function's constant."""
        return self.factor * self.function.lipschitz

    @property
    def largest(self) -> float:
        """The bound on the absolute value."""
        return self.factor * self.function.largest + abs(self.constant)

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return self.factor * self.function.value(x) + self.constant

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return self.factor * self.function.gradient(x)

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the function's cut: a constant moves no maximiser, and a factor is one more scale."""
        point, inner, constant, slack = self.function.cut(slope, scale * self.factor)
        return Cut(point, self.factor * inner, self.factor * constant + self.constant, self.factor * slack)
