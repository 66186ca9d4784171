"""f and g evaluated by CVXPY itself, at images of the embedding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.atom import Atom
from jaxtyping import Float
from numpy.typing import ArrayLike

from bidual.problem.convex import AbstractFunctions
from bidual.problem.modelling._enclosures import NoEnclosureError, enclose
from bidual.problem.modelling._hulls import EPS, Hull

_MOST_POINTS = 5000  # entries that a function is evaluated around


@final
@dataclass(frozen=True, eq=False)
class Functions(AbstractFunctions):
    """Expressions over image variables and auxiliary variables, in the problem's minimising form.

    A constraint is kept as its two sides, ``left <= right`` or ``left == right``, which determine its limit.
    """

    objective: cp.Expression
    sides: tuple[tuple[cp.Expression, cp.Expression], ...]
    equality: tuple[bool, ...]
    images: tuple[cp.Variable, ...]
    auxiliary: tuple[cp.Variable, ...]

    @cached_property
    def constraints(self) -> tuple[cp.Expression, ...]:
        """The functions g of ``g <= 0`` or ``g == 0``."""
        return tuple(left - right for left, right in self.sides)

    def values(self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]) -> tuple[float, np.ndarray]:
        """Evaluate f and g by CVXPY."""
        self._assign(y, auxiliary)
        g = [_to_numbers(constraint) for constraint in self.constraints]
        return float(_to_numbers(self.objective)[0]), np.concatenate([*g, np.zeros(0)])

    def enclosures(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"], error: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows"]]:
        """Enclose f (row 0) and every g in interval arithmetic, or by convexity where an atom has no rule."""
        leaves = {v.id: Hull(end, end) for v, end in split_numbers(self.auxiliary, auxiliary)}
        low = np.where(error == 0, y, np.nextafter(y - error, -np.inf))  # one more rounding where there is one
        leaves |= self._boxes(low, np.where(error == 0, y, np.nextafter(y + error, np.inf)))
        found = []
        for expression in (self.objective, *self.constraints):
            try:
                found.append(enclose(expression, leaves))
            except NoEnclosureError:
                found.append(self._enclose_by_convexity(expression, y, auxiliary, error))
        low, high = (np.concatenate([np.ravel(one[end], order="F") for one in found]) for end in (0, 1))
        return low, high

    def floor(self, low: Float[np.ndarray, "n"], high: Float[np.ndarray, "n"]) -> float:
        """Bound f from below in interval arithmetic alone."""
        leaves = {v.id: Hull(np.full(v.shape, -np.inf), np.full(v.shape, np.inf)) for v in self.auxiliary}
        try:
            return float(np.min(enclose(self.objective, leaves | self._boxes(low, high)).low))
        except NoEnclosureError:
            return -np.inf

    def magnitudes(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Compute the magnitudes from the values of all parts of the expressions."""
        self._assign(y, auxiliary)
        g = [np.full(g.size, _find_largest(g)) for g in self.constraints]
        return _find_largest(self.objective), np.concatenate([*g, np.zeros(0)])

    def slope(
        self, y: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"], weight: float
    ) -> Float[np.ndarray, "n"] | None:
        """Compute the subgradient from CVXPY's derivatives."""
        self._assign(y, np.zeros(0))
        weights = np.split(gamma, np.cumsum([g.size for g in self.constraints])[:-1]) if self.constraints else []
        slope = np.zeros(y.size)
        factors = (np.full(1, weight), *weights)
        for expression, factor in zip((self.objective, *self.constraints), factors, strict=True):
            derivatives, start = _differentiate_by_variable(expression), 0
            for variable in self.images:
                if variable in derivatives:
                    jacobian = derivatives[variable]
                    if jacobian is None:
                        return None
                    slope[start : start + variable.size] += _to_matrix(jacobian, variable.size) @ factor
                start += variable.size
        return slope

    def frozen(self) -> "Functions":
        """Replace the parameters by their present values."""
        return self._with(lambda parameter: cp.Constant(parameter.value))

    def with_variables(self) -> tuple["Functions", tuple[cp.Parameter, ...]]:
        """Replace the parameters by further image variables; return the functions and those parameters."""
        parts = (self.objective, *(side for pair in self.sides for side in pair))
        found = {parameter.id: parameter for part in parts for parameter in part.parameters()}
        variables = {i: cp.Variable(parameter.shape) for i, parameter in found.items()}
        with_variables = self._with(lambda parameter: variables[parameter.id])
        return replace(with_variables, images=(*self.images, *variables.values())), tuple(found.values())

    def _with(self, value: Callable[[cp.Parameter], cp.Expression]) -> "Functions":
        sides = tuple(
            (_replace_parameters(left, value), _replace_parameters(right, value)) for left, right in self.sides
        )
        return replace(self, objective=_replace_parameters(self.objective, value), sides=sides)

    def _enclose_by_convexity(
        self,
        expression: cp.Expression,
        y: Float[np.ndarray, "n"],
        auxiliary: Float[np.ndarray, "a"],
        error: Float[np.ndarray, "n"],
    ) -> Hull:
        """Enclose a convex function over the box |d| <= error, by its values at 2 k points around the box.

        With the k entries that have an error, y + d is the mean of the k points y + k d_i e_i, and each of those lies
        between the two points y -+ k error_i e_i. So f(y + d) is at most the mean of the larger of their two values.
        And f(y + d) >= 2 f(y) - f(y - d). CVXPY's own values err by a rounding for each number.
        """
        moved = np.flatnonzero(error)
        if moved.size > _MOST_POINTS:
            return Hull(np.full(expression.size, -np.inf), np.full(expression.size, np.inf))
        self._assign(y, auxiliary)
        here, largest = _to_numbers(expression), _find_largest(expression)
        total = np.zeros(expression.size)
        for i in moved:
            values = []
            for sign in (1.0, -1.0):
                there = y.copy()
                there[i] += sign * moved.size * error[i]
                self._assign(there, auxiliary)
                values.append(_to_numbers(expression))
                largest = max(largest, _find_largest(expression))
            total += np.maximum(*values) / moved.size
        slack = 64 * EPS * (y.size + moved.size) * largest
        high = (total if moved.size else here) + slack
        return Hull(2 * here - high - slack, np.where(np.isnan(high), np.inf, high))

    def _boxes(self, low: Float[np.ndarray, "n"], high: Float[np.ndarray, "n"]) -> dict[int, Hull]:
        """Return the hulls of the image variables, by id."""
        ends = zip(split_numbers(self.images, low), split_numbers(self.images, high), strict=True)
        return {variable.id: Hull(least, most) for (variable, least), (_, most) in ends}

    def _assign(self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]) -> None:
        for variable, value in (*split_numbers(self.images, y), *split_numbers(self.auxiliary, auxiliary)):
            variable.value = value


def split_numbers(variables: Sequence[cp.Variable], numbers: np.ndarray) -> Iterator[tuple[cp.Variable, np.ndarray]]:
    """Yield every variable with its part of a vector, in its own shape."""
    start = 0
    for variable in variables:
        yield variable, numbers[start : start + variable.size].reshape(variable.shape, order="F")
        start += variable.size


def _replace_parameters(expression: cp.Expression, value: Callable[[cp.Parameter], cp.Expression]) -> cp.Expression:
    """Replace the parameters in an expression by `value` of each."""
    if isinstance(expression, cp.Parameter):
        return value(expression)
    if not expression.parameters() or not isinstance(expression, Atom):
        return expression
    arguments, data = (
        [_replace_parameters(argument, value) for argument in expression.args],
        expression.get_data() or [],
    )
    if any(isinstance(item, cp.Expression) and item.parameters() for item in data):
        # The data of an atom beside its arguments, such as the threshold of a Huber function.
        new_data = (_replace_parameters(d, value) if isinstance(d, cp.Expression) else d for d in data)
        return type(expression)(*arguments, *new_data)
    return expression.copy(arguments)


def _differentiate_by_variable(expression: cp.Expression) -> dict[cp.Variable, Any]:
    """Return CVXPY's derivatives by variable; None for a variable where an atom has none."""
    try:
        with np.errstate(all="ignore"):
            return expression.grad
    except (NotImplementedError, ValueError, ZeroDivisionError):
        return dict.fromkeys(expression.variables())


def _to_matrix(jacobian: ArrayLike | sp.sparray, rows: int) -> sp.csr_array:
    """Convert a derivative to a sparse matrix: CVXPY returns sparse matrices, arrays or numbers."""
    return sp.csr_array(jacobian if sp.issparse(jacobian) else np.asarray(jacobian).reshape(rows, -1))


def _find_largest(expression: cp.Expression) -> float:
    """Return the largest number that occurs while an expression is evaluated."""
    value = _to_numbers(expression)
    here = float(np.max(np.abs(value[np.isfinite(value)]), initial=0.0))
    parts = expression.args if isinstance(expression, Atom) else []
    return max([here, *(_find_largest(part) for part in parts)])


def _to_numbers(expression: cp.Expression) -> Float[np.ndarray, "n"]:
    with np.errstate(all="ignore"):  # outside a domain there is no number, which the caller checks
        value = expression.value
    assert value is not None  # every variable has been given one
    return np.asarray(value, dtype=np.float64).ravel(order="F")
