"""The common part of ready problems: one embedding for their own signals and those of the limits, and the limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import cvxpy as cp
import numpy as np

from bidual._base.errors import ProblemError
from bidual.problem.features import Observed
from bidual.problem.features import Signal as ComputedSignal
from bidual.problem.features.embedding import Embedding
from bidual.tasks.problems._sources import Quantities, Source, embed
from bidual.world.mdp import Signal

Number = float | int | np.floating | np.integer
Bound = Number | cp.Expression
# CVXPY types the result of <= and == as possibly a plain bool.
Written = cp.Constraint | bool
AnySignal = Signal | Observed | ComputedSignal | Callable[..., Any]
Limit = tuple[AnySignal, Bound] | tuple[AnySignal, str, Bound] | Callable[[Embedding], Written]
Limits = Mapping[str, Limit]

_SENSES: dict[str, Callable[[cp.Expression, Bound], Written]] = {
    "<=": lambda total, bound: total <= bound,
    ">=": lambda total, bound: total >= bound,
    "==": lambda total, bound: total == bound,
}
_FORMS = "(signal, bound), (signal, '>=', bound) or a function from the embedding to a CVXPY constraint"
_PARTS = ("total", "visits", "occupancy")  # names that mdp.embedding uses itself


class _SignalLimit(NamedTuple):
    """A limit on the expected total of a signal."""

    signal: AnySignal
    sense: str
    bound: Bound


@final
@dataclass(frozen=True, eq=False)
class Declared:
    """What a problem is written over, with the constraints of its limits by name."""

    quantities: Quantities
    constraints: dict[str, Written]


def declare(
    source: Source, signals: Mapping[str, AnySignal], limits: Limits | None, *, visits: bool = False
) -> Declared:
    """Create the embedding, or take the one that is there, and the constraints by name.

    The first columns of a new one are `signals`, in order, then come those of the limits, then the visits of every
    state.
    """
    read = _read_all(limits)
    signal_limits = {name: limit for name, limit in read.items() if isinstance(limit, _SignalLimit)}
    for name in signal_limits:
        if name in signals and not isinstance(source, Embedding):
            raise ProblemError(
                f"a signal and a limit are both called {name!r}: rename the limit, or limit that signal itself with "
                f"limits={{...: lambda x: cp.sum(x.{name}) <= ...}}"
            )
    named = {**signals, **{name: limit.signal for name, limit in signal_limits.items()}}
    for name in _PARTS:
        if name in named:
            raise ProblemError(f"a signal cannot be called {name!r}: embeddings use that name; try {name}_signal")
    quantities = embed(source, named, visits=visits)
    return Declared(quantities, {name: _write(quantities, name, limit) for name, limit in read.items()})


def check_named(what: str, named: object) -> None:
    """Raise where a value is not a dictionary with text as keys."""
    if not isinstance(named, Mapping):
        raise ProblemError(f"{what} must be a dictionary from names; got {type(named).__name__}")
    for name in named:
        if not isinstance(name, str):
            raise ProblemError(f"{what}: the name {name!r} is not text; put it in quotes")


def merge(first: Mapping[str, Written], second: Mapping[str, Written]) -> dict[str, Written]:
    """Merge constraints; raise where two have one name."""
    for name in first:
        if name in second:
            raise ProblemError(f"two constraints are called {name!r}: rename the one in limits")
    return {**first, **second}


def is_number(value: object) -> bool:
    """Return whether a value is a real number: neither an array nor a truth value."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _read_all(limits: Limits | None) -> dict[str, _SignalLimit | Callable[[Embedding], Written]]:
    if limits is None:
        return {}
    check_named("limits", limits)
    return {name: _read(name, limit) for name, limit in limits.items()}


def _read(name: str, limit: Limit) -> _SignalLimit | Callable[[Embedding], Written]:
    """Read a limit: a function of the embedding, or (signal, sense, bound)."""
    if callable(limit):
        return limit
    if not isinstance(limit, tuple) or len(limit) not in (2, 3):
        got = f"a tuple of {len(limit)}" if isinstance(limit, tuple) else type(limit).__name__
        raise ProblemError(f"limit {name!r} must be {_FORMS}; got {got}")
    signal, sense, bound = limit if len(limit) == 3 else (limit[0], "<=", limit[1])
    if not isinstance(sense, str) or sense not in _SENSES:
        raise ProblemError(f"limit {name!r} has the sense {sense!r}; it must be '<=', '>=' or '=='")
    scalar = bound.is_constant() and bound.is_scalar() if isinstance(bound, cp.Expression) else is_number(bound)
    if not scalar:
        raise ProblemError(
            f"the bound of limit {name!r} must be one number or a scalar cp.Parameter; got {_describe(bound)}. "
            f"The order is (signal, bound) or (signal, '>=', bound)"
        )
    return _SignalLimit(signal, sense, bound)


def _describe(value: object) -> str:
    shape = getattr(value, "shape", ())
    return f"{type(value).__name__} of shape {shape}" if shape else repr(value)


def _write(quantities: Quantities, name: str, limit: _SignalLimit | Callable[[Embedding], Written]) -> Written:
    if not isinstance(limit, _SignalLimit):
        return limit(quantities.x)
    return _SENSES[limit.sense](quantities.total(name), limit.bound)
