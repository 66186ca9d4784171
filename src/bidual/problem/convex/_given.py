"""Convex functions given as JAX code.

Their conjugates have no formula: the maximiser is searched for (`_search`), and the search ends with a cut that proves
its bound, wherever it stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ProblemError
from bidual._base.types import float64
from bidual.problem.convex._cones import EPS
from bidual.problem.convex._function import AbstractFunction, Cut
from bidual.problem.convex._search import SearchGoal, descend, refine
from bidual.problem.convex._sets import AbstractCompact
from bidual.problem.convex._vectors import check_number, check_vector

Rule = Callable[[Array], Array]


@final
@dataclass(frozen=True, eq=False, init=False)
class Function(AbstractFunction):
    """A convex function of x in K, written with JAX. `bd.check_convex` searches for counterexamples to its claims.

    Args:
        value: from a vector to a number. It is called in double precision.
        K: the compact set it is used on.
        lipschitz: a Euclidean Lipschitz constant on K. It is never guessed: algorithms that need one fail without it.
        gradient: a subgradient, where JAX's own is not finite (the norm at 0) or not wanted.
    """

    __repr__ = describe_briefly

    rule: Rule
    K: AbstractCompact
    declared: float | None
    slope: Rule | None

    def __init__(
        self, value: Rule, K: AbstractCompact, lipschitz: float | None = None, gradient: Rule | None = None
    ) -> None:
        if lipschitz is not None:
            check_number(lipschitz, "the Lipschitz constant")
        for name, part in (("rule", value), ("K", K), ("declared", lipschitz), ("slope", gradient)):
            object.__setattr__(self, name, part)
        self._check_shapes()

    @float64
    def _check_shapes(self) -> None:
        shape = jax.eval_shape(self.rule, jnp.zeros(self.K.size)).shape
        if shape != ():
            raise ProblemError(f"the value of a function must be one number; got an array of shape {shape}; sum it")

    @property
    def lipschitz(self) -> float:
        """The declared constant; `ProblemError` where there is none."""
        if self.declared is None:
            raise ProblemError(
                "this function was given without a Lipschitz constant, and a sampled one would prove nothing; "
                "give one that holds on K: bd.convex.Function(value, K, lipschitz=...)"
            )
        return self.declared

    @property
    def largest(self) -> float:
        """The bound from the center, by the Lipschitz constant."""
        return self._at_center + self.lipschitz * self.K.farthest(self.K.center)

    @cached_property
    def _at_center(self) -> float:
        return abs(self._value(self.K.center))

    @cached_property
    def _compiled(self) -> Callable[[Array], tuple[Array, Array]]:
        if self.slope is None:
            return jax.jit(jax.value_and_grad(self.rule))
        rule, slope = self.rule, self.slope
        return jax.jit(lambda x: (rule(x), slope(x)))

    @float64
    def _evaluate_both(self, x: Float[np.ndarray, "n"]) -> tuple[float, Float[np.ndarray, "n"]]:
        value, slope = self._compiled(jnp.asarray(x))
        return float(value), np.asarray(slope, dtype=np.float64)

    def _evaluate_tangent(self, x: Float[np.ndarray, "n"]) -> tuple[float, Float[np.ndarray, "n"]]:
        """Evaluate value and subgradient; raise `ProblemError` where they are not finite."""
        value, slope = self._evaluate_both(x)
        if not np.isfinite(value):
            raise ProblemError(f"the function is {value} at x = {_format_point(x)}; it must be finite on all of K")
        check_vector(slope, self.K.size, "the gradient", finite=False)
        if not np.all(np.isfinite(slope)):
            raise ProblemError(
                f"the gradient is not finite at x = {_format_point(x)}; give a subgradient: "
                "Function(..., gradient=...), or keep JAX away from the kink with jnp.where on both its argument and "
                "its value"
            )
        return value, slope

    def _value(self, x: Float[np.ndarray, "n"]) -> float:
        value, _ = self._evaluate_both(x)
        if not np.isfinite(value):
            raise ProblemError(f"the function is {value} at x = {_format_point(x)}; it must be finite on all of K")
        return value

    def _gradient(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return self._evaluate_tangent(x)[1]

    def cut(self, slope: Float[np.ndarray, "n"], scale: float) -> Cut:
        """Return the best cut that a search finds."""
        goal = SearchGoal(self.K, self._evaluate_tangent, slope, scale)
        found = refine(goal, descend(goal))
        size = abs(found.value) + float(np.abs(found.slope) @ self.K.reach)
        return Cut(found.point, found.slope, found.constant, (self.K.size + 16) * EPS * size)


def _format_point(x: Float[np.ndarray, "n"]) -> str:
    return np.array2string(x, precision=6, threshold=8)
