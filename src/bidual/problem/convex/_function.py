"""Convex functions on a compact set, for dual players: values, slopes and conjugates.

The perspective of the conjugate, without division (spec 2):

    scale * f_K*(slope / scale)  =  max over x in K of  slope.x - scale * f(x).

Certificates subtract it, so `conjugate` never falls below it. Its proof is one cut: where f(y) >= constant + g.y on K,

    max over y in K of slope.y - scale f(y)  <=  max over y in K of (slope - scale g).y  -  scale * constant,

whatever point the cut was found at, and with equality for the best g. The right-hand side is linear
over K, hence exact.
"""

import abc
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.problem.convex._cones import EPS
from bidual.problem.convex._sets import AbstractCompact
from bidual.problem.convex._vectors import check_number, check_vector

APEX = 1e-9
"""Below this scale a dual point is at the apex of its cone: b = 0, and every x in K is a maximiser (spec 2)."""


class Cut(NamedTuple):
    """f(y) >= constant + slope.y - slack for every y in K, and (nearly) with equality at `point`."""

    point: Float[np.ndarray, "n"]
    slope: Float[np.ndarray, "n"]
    constant: float
    slack: float


class AbstractFunction(abc.ABC):
    """A convex function on the compact set K.

    Implementations give `_value`, `_gradient`, `cut` (the supporting cut at a maximiser of slope.x - scale f(x)) and
    the two constants; arguments are checked here.
    """

    K: AbstractCompact

    @property
    @abc.abstractmethod
    def lipschitz(self) -> float:
        """An upper bound of the Euclidean Lipschitz constant on K; infinite where there is none."""

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """An upper bound of |f| on K."""

    @abc.abstractmethod
    def _value(self, x: Float[np.ndarray, "n"]) -> float: ...

    @abc.abstractmethod
    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]: ...

    @abc.abstractmethod
    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the cut at a point of K where slope.x - scale f(x) is largest; for scales of at least `APEX`."""

    @final
    def value(self, x: Float[np.ndarray, "n"]) -> float:
        """Evaluate f(x)."""
        check_vector(x, self.K.size, "x")
        return self._value(x)

    @final
    def gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Return a subgradient at x, finite at kinks and on the boundary of K as well."""
        check_vector(x, self.K.size, "x")
        return self._gradient(x)

    @final
    def conjugate_argmax(
        self, slope: Float[np.ndarray, "n"], scale: float = 1.0, tie: Float[np.ndarray, "n"] | None = None
    ) -> Float[np.ndarray, "n"]:
        """Return a point of K where slope.x - scale f(x) is largest.

        Below the scale `APEX` it is `tie`, or the center of K where there is none.
        """
        self._check(slope, scale)
        if scale >= APEX:
            return self.cut(slope, scale).point
        if tie is None:
            return self.K.center
        check_vector(tie, self.K.size, "tie")
        return tie

    @final
    def conjugate(self, slope: Float[np.ndarray, "n"], scale: float = 1.0) -> float:
        """Bound the largest slope.x - scale f(x) over K from above, rounding and proven errors included."""
        self._check(slope, scale)
        if scale < APEX:
            rounding = (self.K.size + 4) * EPS * float(np.abs(slope) @ self.K.reach)
            return self.K.support(slope) + rounding + (scale * self.largest if scale > 0 else 0.0)
        cut, reach = self.cut(slope, scale), self.K.reach
        size = float(np.abs(slope) @ reach) + scale * (abs(cut.constant) + float(np.abs(cut.slope) @ reach))
        rounding = (self.K.size + 8) * EPS * size
        return self.K.support(slope - scale * cut.slope) - scale * cut.constant + scale * cut.slack + rounding

    def _check(self, slope: Float[np.ndarray, "n"], scale: float) -> None:
        check_vector(slope, self.K.size, "the slope")
        check_number(scale, "the scale of a conjugate")
