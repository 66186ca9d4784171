"""NaN and infinity in what a problem is written with: where they are, and what was got."""

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.atom import Atom

from bidual._errors import ProblemError
from bidual.problem._words import words


def check_finite(what: str, part: cp.Minimize | cp.Maximize | cp.Constraint) -> None:
    """Raise `ProblemError` where a constant or the value of a parameter in an objective or a constraint is not finite.

    Parameters without a value are passed over: they are looked at when the problem is solved.
    """
    for side in part.args:
        found = _search(side)
        if found is not None:
            raise ProblemError(f"{what} contains NaN or infinity: {found}; every number in a problem must be finite")


def _search(expression: cp.Expression) -> str | None:
    """The first number that is not finite, in words."""
    parts = [*expression.args, *_data(expression)] if isinstance(expression, Atom) else []
    for part in parts:
        found = _search(part)
        if found is not None:
            return found
    # A constant may be made of finite ones: 1 / 0.
    return None if expression.variables() or _unset(expression) else _bad_entry(expression)


def _data(atom: Atom) -> list[cp.Expression]:
    """What an atom holds beside its arguments, such as the threshold of a Huber function."""
    data = atom.get_data() or []
    return [cp.Constant(d) if isinstance(d, float) else d for d in data if isinstance(d, float | cp.Expression)]


def _unset(expression: cp.Expression) -> bool:
    return any(parameter.value is None for parameter in expression.parameters())


def _bad_entry(constant: cp.Expression) -> str | None:
    with np.errstate(all="ignore"):
        value = constant.value
    entries = np.asarray(sp.coo_array(value).data if sp.issparse(value) else value)
    bad = ~np.isfinite(entries)
    if not bad.any():
        return None
    got = entries[bad][0]
    place = f" at {np.argwhere(bad)[0].tolist()}" if entries.ndim and not sp.issparse(value) else ""
    if isinstance(constant, cp.Parameter):
        return f"parameter {constant.name()!r} is {got}{place}"
    return f"{words(constant)} is {got}{place}" if isinstance(constant, Atom) or place else f"a number in it is {got}"
