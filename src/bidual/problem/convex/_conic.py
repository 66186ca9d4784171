"""Convex problems in cone form, with the images of the embedding set apart from all other variables.

    min  c_y . y + c_u . u + offset    s.t.   h - G_y y - G_u u  in  cones

y is the image of an embedding; u holds the user's auxiliary variables first, then those that CVXPY's reduction
added. For any lam in the dual cone with c_u + G_u' lam = 0, every feasible point costs at least

    offset - lam . h + (c_y + G_y' lam) . y,

which is linear in y: this is the dual's linear cost, and its bound needs nothing but that one vector (spec: a conic
dual is a subgradient also at kinks, where a gradient is not).
"""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from bidual.problem.convex._cones import Cones

_ORDINARY = (
    1024.0  # a cone solver's tolerances and depths are absolute: they suit costs up to this, or from its inverse
)


@final
@dataclass(frozen=True, eq=False)
class ConicForm:
    """The arrays of a problem in cone form."""

    c_y: Float[np.ndarray, "n"]
    c_u: Float[np.ndarray, "p"]
    offset: float
    G_y: sp.csr_array
    G_u: sp.csc_array
    h: Float[np.ndarray, "r"]
    cones: Cones
    owner: Int[np.ndarray, "r"]  # the scalar constraint (0 to m-1) whose limit a row holds, else -1
    sign: Float[np.ndarray, "r"]  # and the sign with which that row's dual is its multiplier

    def slope(self, lam: Float[np.ndarray, "r"]) -> Float[np.ndarray, "n"]:
        """Return the cost of y under the multipliers lam."""
        return self.c_y + self.G_y.T @ lam

    def constant(self, lam: Float[np.ndarray, "r"]) -> float:
        """Return the constant of the bound under the multipliers lam."""
        return self.offset - float(lam @ self.h)

    def residual(self, lam: Float[np.ndarray, "r"]) -> Float[np.ndarray, "p"]:
        """Return c_u + G_u' lam, which must vanish for lam to prove a bound."""
        return self.c_u + self.G_u.T @ lam

    def with_moderate_costs(self) -> tuple["ConicForm", float]:
        """Return a form with costs of ordinary size, and the power of two by which its multipliers are too small."""
        size = max(float(np.abs(costs).max(initial=0.0)) for costs in (self.c_y, self.c_u))
        if size == 0 or 1 / _ORDINARY <= size <= _ORDINARY:
            return self, 1.0
        unit = 2.0 ** (math.frexp(size)[1] - 1)
        return replace(self, c_y=self.c_y / unit, c_u=self.c_u / unit, offset=self.offset / unit), unit

    def with_units(self, factors: Float[np.ndarray, "m"]) -> "ConicForm":
        """Return a form of a least violation t with every row's unit multiplied by a factor.

        t is the one variable with a cost, and a row that holds a limit is ``... <= unit t``.
        """
        t = int(np.argmax(np.abs(self.c_u)))
        entries = sp.coo_array(self.G_u)
        scaled = (entries.col == t) & (self.owner[entries.row] >= 0)
        data = np.where(scaled, entries.data * np.append(factors, 1.0)[self.owner[entries.row]], entries.data)
        return replace(self, G_u=sp.csc_array((data, (entries.row, entries.col)), shape=self.G_u.shape))

    def limits(self, m: int) -> Float[np.ndarray, "m"]:
        """Return the right-hand sides of the m scalar constraints."""
        limits, owned = np.zeros(m), (self.owner >= 0) & (self.sign > 0)
        limits[self.owner[owned]] = self.h[owned]
        return limits

    def gamma(self, lam: Float[np.ndarray, "r"], m: int) -> Float[np.ndarray, "m"]:
        """Return the multipliers of the m scalar constraints."""
        gamma, owned = np.zeros(m), self.owner >= 0
        np.add.at(gamma, self.owner[owned], self.sign[owned] * lam[owned])
        return gamma
