"""The negative entropy over a simplex, or over one simplex per step."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, xlogy

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex._cones import EPS
from bidual.problem.convex._function import AbstractFunction, Cut
from bidual.problem.convex._sets import AbstractCompact, Product, Simplex
from bidual.problem.convex._vectors import check_number

_FLOOR = 1e-300  # below it the slope of x log x is taken here: y log y >= y (log t + 1) - t, so at most t is lost


@final
@dataclass(frozen=True, eq=False)
class NegativeEntropy(AbstractFunction):
    """scale * sum x log x, on a simplex or a product of simplices.

    Its slope has no bound near 0, so it has no Lipschitz constant: dual steps of bounded length do not work for it.
    Follow the leader instead (spec 2): a = the gradient at the running average.
    """

    __repr__ = describe_briefly

    K: AbstractCompact
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse other sets than simplices."""
        check_number(self.scale, "the scale", positive=True)
        for part in self._parts():
            if not isinstance(part, Simplex):
                raise ProblemError(
                    f"an entropy needs a simplex, or a product of simplices; got a {type(part).__name__}; "
                    "use bd.convex.Simplex(size, mass)"
                )

    @property
    def lipschitz(self) -> float:
        """Infinity: there is no Lipschitz constant."""
        return math.inf

    @property
    def largest(self) -> float:
        """The larger of the values at uniform parts and at vertices."""
        parts = [(part.bounds[1][0], part.size) for part in self._parts()]
        uniform = sum(mass * math.log(mass / size) for mass, size in parts)
        vertices = sum(mass * math.log(mass) for mass, _ in parts)
        return self.scale * max(abs(uniform), abs(vertices))

    def _parts(self) -> tuple[AbstractCompact, ...]:
        return self.K.parts if isinstance(self.K, Product) else (self.K,)

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return self.scale * float(np.sum(xlogy(x, np.maximum(x, _FLOOR))))

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return self.scale * (np.log(np.maximum(x, _FLOOR)) + 1)

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the cut at the maximiser mass * softmax(slope / (scale * own scale)) by parts; entries may be 0."""
        logs, start = [], 0
        for part in self._parts():
            own = slope[start : start + part.size]
            shifted = (own - own.max()) / (scale * self.scale)
            logs.append(shifted - logsumexp(shifted) + math.log(part.bounds[1][0]))
            start += part.size
        log = np.concatenate(logs)
        x = np.exp(log)
        # y log y >= y (log x + 1) - x for every x > 0
        mass = float(x.sum())
        slack = EPS * (x.size * mass + float(np.abs(log) @ x) + 8 * mass)
        return Cut(x, self.scale * (log + 1), -self.scale * mass, self.scale * slack)
