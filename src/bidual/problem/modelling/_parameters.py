"""Temporary values of the parameters of a problem."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from bidual._base.errors import ProblemError

Value: TypeAlias = float | int | ArrayLike


@contextmanager
def hold_parameters(parameters: Mapping[str, cp.Parameter], values: Mapping[str, Value]) -> Iterator[None]:
    """Set the parameters to these values and restore their own afterwards; raise where a value does not fit."""
    for name in values:
        if name not in parameters:
            raise ProblemError(_describe_unknown(name, parameters))
    before = {name: parameters[name].value for name in values}
    try:
        for name, value in values.items():
            _assign(parameters[name], name, value)
        yield
    finally:
        for name, value in before.items():
            parameters[name].value = value


def _describe_unknown(name: str, parameters: Mapping[str, cp.Parameter]) -> str:
    if not parameters:
        return (
            f"the problem has no cp.Parameter, so {name!r} cannot be changed: "
            f"write cp.Parameter(name={name!r}, value=...) in place of the number that is to vary"
        )
    return f"the problem has no parameter {name!r}; its cp.Parameters are: {', '.join(parameters)}"


def _assign(parameter: cp.Parameter, name: str, value: Value) -> None:
    """Set a parameter; raise `ProblemError` for a value that it cannot have."""
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ProblemError(f"parameter {name!r} must be given numbers; got {value!r}") from None
    if not np.all(np.isfinite(numbers)):
        raise ProblemError(f"parameter {name!r} must be given finite numbers; got {value!r}")
    try:
        parameter.value = numbers
    except ValueError as error:
        raise ProblemError(f"parameter {name!r} cannot be {value!r}: {error}") from None
