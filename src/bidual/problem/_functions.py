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

from bidual.convex import AbstractFunctions


@final
@dataclass(frozen=True, eq=False)
class Functions(AbstractFunctions):
    """Expressions over image variables and auxiliary variables, in the problem's minimising form.

    A constraint is kept as its two sides, ``left <= right`` or ``left == right``: they say what its limit is.
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
        """F and g as CVXPY evaluates them."""
        self._assign(y, auxiliary)
        g = [_number(constraint) for constraint in self.constraints]
        return float(_number(self.objective)[0]), np.concatenate([*g, np.zeros(0)])

    def errors(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"], error: Float[np.ndarray, "n"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """Sums of |derivative| times error, by CVXPY's derivatives."""
        self._assign(y, auxiliary)
        parts = np.split(error, np.cumsum([v.size for v in self.images])[:-1])
        moved = [self._moved(expression, parts) for expression in (self.objective, *self.constraints)]
        return float(moved[0][0]), np.concatenate([*moved[1:], np.zeros(0)])

    def magnitudes(
        self, y: Float[np.ndarray, "n"], auxiliary: Float[np.ndarray, "a"]
    ) -> tuple[float, Float[np.ndarray, "m"]]:
        """From the values of all parts of the expressions."""
        self._assign(y, auxiliary)
        g = [np.full(g.size, _largest(g)) for g in self.constraints]
        return _largest(self.objective), np.concatenate([*g, np.zeros(0)])

    def slope(
        self, y: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"], weight: float
    ) -> Float[np.ndarray, "n"] | None:
        """By CVXPY's derivatives."""
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
        """The same functions with parameters replaced by their present values."""
        return self._with(lambda parameter: cp.Constant(parameter.value))

    def opened(self) -> tuple["Functions", tuple[cp.Parameter, ...]]:
        """The same functions with parameters replaced by further image variables, and those parameters."""
        parts = (self.objective, *(side for pair in self.sides for side in pair))
        found = {parameter.id: parameter for part in parts for parameter in part.parameters()}
        variables = {i: cp.Variable(parameter.shape) for i, parameter in found.items()}
        opened = self._with(lambda parameter: variables[parameter.id])
        return replace(opened, images=(*self.images, *variables.values())), tuple(found.values())

    def _with(self, value: Callable[[cp.Parameter], cp.Expression]) -> "Functions":
        sides = tuple((_replaced(left, value), _replaced(right, value)) for left, right in self.sides)
        return replace(self, objective=_replaced(self.objective, value), sides=sides)

    def _moved(self, expression: cp.Expression, errors: Sequence[np.ndarray]) -> Float[np.ndarray, "n"]:
        total = np.zeros(expression.size)
        derivatives = _derivatives(expression)
        for variable, error in zip(self.images, errors, strict=True):
            jacobian = derivatives.get(variable)
            moved = None if jacobian is None else abs(_matrix(jacobian, variable.size)).T @ error
            if moved is not None and np.all(np.isfinite(moved)):
                total += moved
            elif variable in derivatives:  # at a kink or an edge of the domain: the one-sided change instead
                total += self._changed(expression, variable, error)
        return total

    def _changed(self, expression: cp.Expression, variable: cp.Variable, error: np.ndarray) -> np.ndarray:
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


def _replaced(expression: cp.Expression, value: Callable[[cp.Parameter], cp.Expression]) -> cp.Expression:
    """The expression with something else in the place of its parameters."""
    if isinstance(expression, cp.Parameter):
        return value(expression)
    if not expression.parameters() or not isinstance(expression, Atom):
        return expression
    arguments, data = [_replaced(argument, value) for argument in expression.args], expression.get_data() or []
    if any(isinstance(item, cp.Expression) and item.parameters() for item in data):
        # What an atom holds beside its arguments, such as the threshold of a Huber function.
        held = (_replaced(d, value) if isinstance(d, cp.Expression) else d for d in data)
        return type(expression)(*arguments, *held)
    return expression.copy(arguments)


def _derivatives(expression: cp.Expression) -> dict[cp.Variable, Any]:
    """CVXPY's derivatives by variable; None for a variable where an atom has none."""
    try:
        with np.errstate(all="ignore"):
            return expression.grad
    except (NotImplementedError, ValueError, ZeroDivisionError):
        return dict.fromkeys(expression.variables())


def _matrix(jacobian: ArrayLike | sp.sparray, rows: int) -> sp.csr_array:
    """CVXPY gives derivatives as sparse matrices, arrays or numbers."""
    return sp.csr_array(jacobian if sp.issparse(jacobian) else np.asarray(jacobian).reshape(rows, -1))


def _largest(expression: cp.Expression) -> float:
    """The largest number that comes up while an expression is evaluated."""
    value = _number(expression)
    here = float(np.max(np.abs(value[np.isfinite(value)]), initial=0.0))
    parts = expression.args if isinstance(expression, Atom) else []
    return max([here, *(_largest(part) for part in parts)])


def _number(expression: cp.Expression) -> Float[np.ndarray, "n"]:
    with np.errstate(all="ignore"):  # outside a domain there is no number, which the caller looks for
        value = expression.value
    assert value is not None  # every variable has been given one
    return np.asarray(value, dtype=np.float64).ravel(order="F")
