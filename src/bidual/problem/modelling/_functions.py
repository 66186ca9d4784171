"""f and g evaluated by CVXPY itself, at images of the embedding."""

from collections.abc import Callable, Sequence
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
        g = [_number(constraint) for constraint in self.constraints]
        return float(_number(self.objective)[0]), np.concatenate([*g, np.zeros(0)])

    def errors(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"], error: Float[np.ndarray, "n"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Sum |derivative| times error, by CVXPY's derivatives."""
        self._assign(y, auxiliary)
        parts = np.split(error, np.cumsum([v.size for v in self.images])[:-1])
        moved = [self._propagate_error(expression, parts) for expression in (self.objective, *self.constraints)]
        return float(moved[0][0]), np.concatenate([*moved[1:], np.zeros(0)])

    def magnitudes(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Compute the magnitudes from the values of all parts of the expressions."""
        self._assign(y, auxiliary)
        g = [np.full(g.size, _largest(g)) for g in self.constraints]
        return _largest(self.objective), np.concatenate([*g, np.zeros(0)])

    def slope(
        self, y: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"], weight: float
    ) -> Float[np.ndarray, "n"] | None:
        """Compute the subgradient from CVXPY's derivatives."""
        self._assign(y, np.zeros(0))
        weights = np.split(gamma, np.cumsum([g.size for g in self.constraints])[:-1]) if self.constraints else []
        slope = np.zeros(y.size)
        factors = (np.full(1, weight), *weights)
        for expression, factor in zip((self.objective, *self.constraints), factors, strict=True):
            derivatives, start = _derivatives(expression), 0
            for variable in self.images:
                if variable in derivatives:
                    jacobian = derivatives[variable]
                    if jacobian is None:
                        return None
                    slope[start : start + variable.size] += _matrix(jacobian, variable.size) @ factor
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

    def _propagate_error(self, expression: cp.Expression, errors: Sequence[np.ndarray]) -> Float[np.ndarray, "n"]:
        total = np.zeros(expression.size)
        derivatives = _derivatives(expression)
        for variable, error in zip(self.images, errors, strict=True):
            jacobian = derivatives.get(variable)
            moved = None if jacobian is None else abs(_matrix(jacobian, variable.size)).T @ error
            if moved is not None and np.all(np.isfinite(moved)):
                total += moved
            elif variable in derivatives:  # at a kink or an edge of the domain: the one-sided change instead
                total += self._one_sided_change(expression, variable, error)
        return total

    def _one_sided_change(self, expression: cp.Expression, variable: cp.Variable, error: np.ndarray) -> np.ndarray:
        here, at = _number(expression), np.asarray(variable.value)
        change = np.zeros(expression.size)
        for sign in (1.0, -1.0):
            variable.value = at + sign * error.reshape(at.shape, order="F")
            there = _number(expression)
            change = np.maximum(change, np.where(np.isfinite(there), np.abs(there - here), 0.0))
        variable.value = at
        return change

    def _assign(self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]) -> None:
        for variables, numbers in ((self.images, y), (self.auxiliary, auxiliary)):
            start = 0
            for variable in variables:
                variable.value = numbers[start : start + variable.size].reshape(variable.shape, order="F")
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


def _derivatives(expression: cp.Expression) -> dict[cp.Variable, Any]:
    """Return CVXPY's derivatives by variable; None for a variable where an atom has none."""
    try:
        with np.errstate(all="ignore"):
            return expression.grad
    except (NotImplementedError, ValueError, ZeroDivisionError):
        return dict.fromkeys(expression.variables())


def _matrix(jacobian: ArrayLike | sp.sparray, rows: int) -> sp.csr_array:
    """Convert a derivative to a sparse matrix: CVXPY returns sparse matrices, arrays or numbers."""
    return sp.csr_array(jacobian if sp.issparse(jacobian) else np.asarray(jacobian).reshape(rows, -1))


def _largest(expression: cp.Expression) -> float:
    """Return the largest number that occurs while an expression is evaluated."""
    value = _number(expression)
    here = float(np.max(np.abs(value[np.isfinite(value)]), initial=0.0))
    parts = expression.args if isinstance(expression, Atom) else []
    return max([here, *(_largest(part) for part in parts)])


def _number(expression: cp.Expression) -> Float[np.ndarray, "n"]:
    with np.errstate(all="ignore"):  # outside a domain there is no number, which the caller checks
        value = expression.value
    assert value is not None  # every variable has been given one
    return np.asarray(value, dtype=np.float64).ravel(order="F")
