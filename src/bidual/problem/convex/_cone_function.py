"""A function given as a cone program: f(y) = min over u of the cone form (`ConicForm`), for y in K.

Everything comes from cone programs and their multipliers. For multipliers lam in the dual cone with
c_u + G_u' lam = 0, f(y) >= offset - lam.h + (c_y + G_y' lam).y: a cut, also at kinks. A cone solver's multipliers are
feasible to some eight digits only; `_repair` makes them exactly so, or bounds the distance to an exact vector.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual.problem.convex._clarabel import run_clarabel
from bidual.problem.convex._cones import EPS
from bidual.problem.convex._conic import ConicForm
from bidual.problem.convex._function import AbstractFunction, Cut
from bidual.problem.convex._repair import bound_movement, find_interior, repair_multipliers
from bidual.problem.convex._sets import AbstractCompact
from bidual.problem.convex._vectors import check_number

_MARGIN = 1e-6  # by which a Lipschitz constant from the cone solver is raised: its own digits
_AROUND = 1.0  # room around K, in widths of K, where it takes values outside to bound the slope
_MOST_CORNERS = 8  # numbers of which all corners are tried


@final
@dataclass(frozen=True, eq=False)
class ConeFunction(AbstractFunction):
    """The least value of a cone form as a function of its image y, which must be defined on all of K.

    Args:
        form: the cone form; its other variables u are minimised over.
        K: the set of images.
        declared: a known Lipschitz constant on K. Without it, one that holds everywhere is computed, if there is any,
            as for a norm; else, as for a square, one from the values at the corners of a larger box than K.
    """

    __repr__ = describe_briefly

    form: ConicForm
    K: AbstractCompact
    declared: float | None = None

    def __post_init__(self) -> None:
        """Refuse a set of another size."""
        if self.form.c_y.size != self.K.size:
            raise ProblemError(f"the cone form has {self.form.c_y.size} images, and K has {self.K.size} entries")
        if self.declared is not None:
            check_number(self.declared, "the Lipschitz constant")

    @property
    def lipschitz(self) -> float:
        """The declared constant, or one from the growth of f along every axis.

        No subgradient has an entry beyond f's growth at infinity in that direction: max over feasible multipliers of
        (c_y + G_y' lam)_j, by linear duality a cone program over u.
        """
        return self._steepest if self.declared is None else self.declared

    @property
    def largest(self) -> float:
        """The bound from the center, by the Lipschitz constant."""
        return self._at_center + self.lipschitz * self.K.farthest(self.K.center) + _MARGIN

    @cached_property
    def _at_center(self) -> float:
        return abs(self._value(self.K.center))

    @cached_property
    def _steepest(self) -> float:
        try:
            growths = [max(self._bound_growth(j, 1.0), self._bound_growth(j, -1.0)) for j in range(self.K.size)]
        except ProblemError:
            steepest = self._bound_slope_around()
            if steepest is None:
                raise
            return (1 + _MARGIN) * steepest + _MARGIN
        return (1 + _MARGIN) * float(np.linalg.norm(growths)) + _MARGIN

    def _bound_slope_around(self) -> float | None:
        """Bound the slope on K by the range of f over a box with room r around K; None where f is not known there.

        From a point of K along the slope g it rises by at least r |g| within the larger box, whose largest value is at
        a corner. On K itself f is at least the linear function of a cut.
        """
        (lower, upper), n = self.K.bounds, self.K.size
        room = _AROUND * (float(np.max(upper - lower)) or 1.0)
        if n > _MOST_CORNERS:
            return None
        corners = [np.where(np.array(bits, dtype=bool), upper + room, lower - room) for bits in np.ndindex(*(2,) * n)]
        try:
            most = max(self._value(corner) for corner in corners)
            cut = self.cut(np.zeros(n), 1.0)
        except ProblemError:
            return None
        return (most - cut.constant + self.K.support(-cut.slope) + cut.slack) / room

    def _bound_growth(self, j: int, sign: float) -> float:
        """Bound the slope in a direction of one entry, by a cone program."""
        direction = sign * self.form.G_y[:, [j]].toarray().ravel()
        try:
            u, _ = self._minimise_rest(-direction)
        except np.linalg.LinAlgError as error:
            raise ProblemError(
                f"no Lipschitz constant was found: the function grows without bound in direction {j} ({error}); "
                "give one that holds on K: ConeFunction(form, K, declared=...)"
            ) from error
        return sign * float(self.form.c_y[j]) + float(self.form.c_u @ u)

    def _minimise_rest(self, side: Float[np.ndarray, "r"]) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "r"]]:
        """Minimise c_u.u with side - G_u u in the cones; return u and its multipliers."""
        if self.form.c_u.size == 0:
            return np.zeros(0), np.zeros(side.size)
        return run_clarabel(self.form.c_u, self.form.G_u, side, self.form.cones, nonneg=0, zero=0)

    def _at(self, y: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "r"]]:
        try:
            return self._minimise_rest(self.form.h - self.form.G_y @ y)
        except np.linalg.LinAlgError as error:
            raise ProblemError(
                f"the function has no value at y = {np.array2string(y, precision=6, threshold=8)}: {error}; "
                "K must lie inside its domain"
            ) from error

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        u, _ = self._at(x)
        return float(self.form.c_y @ x) + float(self.form.c_u @ u) + self.form.offset

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        _, lam = self._at(x)
        exact = self._make_feasible(lam)
        return self.form.slope(lam if exact is None else exact)

    @cached_property
    def _inner(self) -> Float[np.ndarray, "r"] | None:
        return find_interior(self.form)

    def _make_feasible(self, lam: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"] | None:
        if self.form.c_u.size == 0:
            return np.zeros_like(lam)
        return None if self._inner is None else repair_multipliers(self.form, lam, self._inner)

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Compute the cut from one cone program over y and u."""
        point, lam = self._solve_jointly(slope, scale)
        exact = self._make_feasible(lam)
        if exact is None:
            raise ProblemError(
                "the multipliers of a conjugate could not be made exactly feasible, so it has no proven bound; "
                "remove redundant rows of the cone form or bring its numbers to similar sizes"
            )
        form, reach = self.form, self.K.reach
        # An exactly feasible vector is within `moved` of this one.
        moved = np.zeros_like(exact) if form.c_u.size == 0 else bound_movement(form, exact)
        slack = float(moved @ (np.abs(form.h) + abs(form.G_y) @ reach))
        terms = exact.size + reach.size + 8
        size = abs(form.offset) + float(np.abs(exact) @ (np.abs(form.h) + abs(form.G_y) @ reach))
        return Cut(point, form.slope(exact), form.constant(exact), slack + terms * EPS * size)

    def _solve_jointly(
        self, slope: Float[np.ndarray, "n"], scale: float
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "r"]]:
        """Return the maximiser of slope.y - scale f(y), and the multipliers of the cones there.

        One cone program over (y, u); where it fails, again with f of size 1 and the slope scaled instead.
        """
        failed = ""
        for unit in (max(scale, float(np.abs(slope).max())), scale):
            try:
                y, z = self._solve(slope / unit, scale / unit)
            except np.linalg.LinAlgError as error:
                failed = str(error)
                continue
            return self.K.project(y), z / (scale / unit)
        raise ProblemError(
            f"the cone program of a conjugate failed (scale {scale:.3g}, largest slope {np.abs(slope).max():.3g}): "
            f"{failed}; K must lie inside the function's domain"
        )

    def _solve(
        self, slope: Float[np.ndarray, "n"], scale: float
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "r"]]:
        form, n, p = self.form, self.K.size, self.form.c_u.size
        (lower, upper), (A, sides) = self.K.bounds, self.K.equations
        one, none = sp.eye_array(n), sp.csr_array((n, p))
        rows = [[form.G_y, form.G_u], [one, none], [-one, none], [A, sp.csr_array((sides.size, p))]]
        matrix = sp.vstack([sp.hstack([left, right]) for left, right in rows])
        side = np.concatenate([form.h, upper, -lower, sides])
        cost = np.concatenate([scale * form.c_y - slope, scale * form.c_u])
        x, z = run_clarabel(cost, sp.csc_array(matrix), side, form.cones, nonneg=2 * n, zero=sides.size)
        return x[:n], z[: form.h.size]
