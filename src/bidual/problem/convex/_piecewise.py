"""Affine functions, and the largest of several of them."""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy.optimize import linprog

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex._cones import EPS
from bidual.problem.convex._function import AbstractFunction, Cut
from bidual.problem.convex._sets import AbstractCompact
from bidual.problem.convex._vectors import check_finite, check_vector

_LP_TOLERANCES = (1e-10, 1e-7)  # the least that HiGHS accepts; its default, where that fails


@final
@dataclass(frozen=True, eq=False)
class Affine(AbstractFunction):
    """weights.x + constant."""

    __repr__ = describe_briefly

    weights: Float[np.ndarray, "n"]
    constant: float
    K: AbstractCompact

    def __post_init__(self) -> None:
        """Refuse weights of another size, and NaN."""
        check_vector(self.weights, self.K.size, "the weights")
        check_finite(np.array([self.constant]), "the constant")

    @property
    def lipschitz(self) -> float:
        """The norm of the weights."""
        return float(np.linalg.norm(self.weights))

    @property
    def largest(self) -> float:
        """The value at one of two vertices."""
        most, least = self.K.support(self.weights), -self.K.support(-self.weights)
        return max(abs(most + self.constant), abs(least + self.constant))

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return float(self.weights @ x) + self.constant

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return self.weights.copy()

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the function itself as the cut."""
        return Cut(self.K.maximiser(slope - scale * self.weights), self.weights, self.constant, 0.0)


@final
@dataclass(frozen=True, eq=False)
class MaxAffine(AbstractFunction):
    """max_i W_i.x + b_i."""

    __repr__ = describe_briefly

    W: Float[np.ndarray, "k n"]
    b: Float[np.ndarray, "k"]
    K: AbstractCompact

    def __post_init__(self) -> None:
        """Refuse rows of another size, no rows, and NaN."""
        rows = self.b.size
        if rows == 0 or self.W.shape != (rows, self.K.size):
            raise ProblemError(
                f"W must have one row for every entry of b and one column for every entry of K, "
                f"({rows}, {self.K.size}), and at least one row; got shape {self.W.shape}"
            )
        check_finite(self.W, "W")
        check_vector(self.b, rows, "b")

    @property
    def lipschitz(self) -> float:
        """The largest norm of a row."""
        return float(np.linalg.norm(self.W, axis=1).max())

    @property
    def largest(self) -> float:
        """The larger of two bounds: the largest of the rows' least values, and the largest of their largest."""
        most = max(self.K.support(w) + b for w, b in zip(self.W, self.b, strict=True))
        least = max(b - self.K.support(-w) for w, b in zip(self.W, self.b, strict=True))
        return float(max(abs(most), abs(least)))

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        return float(np.max(self.W @ x + self.b))

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return self.W[np.argmax(self.W @ x + self.b)].copy()

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Compute the cut from a linear program over (x, z): max slope.x - scale z with z >= W_i.x + b_i.

        The multipliers of the rows, normalised to a mixture, give a cut; an inexact program loosens it only.
        """
        point, duals = self._solve_program(slope, scale)
        shares = np.maximum(duals, 0.0)
        shares = shares / shares.sum()
        # The shares sum to 1 up to rounding only, and the missing part may cost as much as the largest row.
        size = float(np.abs(self.b).max()) + float(np.abs(self.W).max(axis=0) @ self.K.reach)
        slack = (self.b.size + 8) * EPS * size
        return Cut(self.K.project(point), shares @ self.W, float(shares @ self.b), slack)

    def _solve_program(
        self, slope: Float[np.ndarray, "n"], scale: float
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "k"]]:
        """Maximise slope.x - scale f(x) over K by a linear program; return the point and the weights of the pieces."""
        (lower, upper), (A, sides) = self.K.bounds, self.K.equations
        unit = max(scale, float(np.abs(slope).max()))
        failed = ""
        for tolerance in _LP_TOLERANCES:
            answer = linprog(
                np.append(-slope, scale) / unit,
                A_ub=np.hstack([self.W, -np.ones((self.b.size, 1))]),
                b_ub=-self.b,
                A_eq=sp.hstack([A, sp.csr_array((sides.size, 1))]) if sides.size else None,
                b_eq=sides if sides.size else None,
                bounds=np.vstack([np.column_stack([lower, upper]), [-np.inf, np.inf]]),
                method="highs",
                options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
            )
            failed = answer.message
            if answer.status == 0 and float(answer.ineqlin.marginals.min()) < 0:
                return answer.x[:-1], -answer.ineqlin.marginals
        raise ProblemError(f"the linear program of a conjugate failed: {failed}; rescale W, b or the slope")
