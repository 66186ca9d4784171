"""The user's auxiliary variables: continuous, real, and with their declared signs and bounds as constraints."""

from collections.abc import Mapping

import cvxpy as cp
import numpy as np

from bidual._base.errors import ProblemError
from bidual.problem.features.embedding import Embedding

_DISCRETE = ("integer", "boolean", "complex", "imag", "hermitian")
_SHAPED = ("symmetric", "diag", "PSD", "NSD", "sparsity")


def add_declared_bounds(
    objective: cp.Minimize | cp.Maximize, named: Mapping[str, cp.Constraint]
) -> dict[str, cp.Constraint]:
    """Return the constraints, and one more for every sign or bound declared with an auxiliary variable."""
    extended, seen = dict(named), set()
    places = {"the objective": objective, **{f"constraint {name!r}": constraint for name, constraint in named.items()}}
    for place, part in places.items():
        for variable in part.variables():
            if not isinstance(variable, Embedding) and variable.id not in seen:
                seen.add(variable.id)
                _check(variable, place)
                extended.update(_collect_declared_bounds(variable, place, extended, named))
    return extended


def _check(variable: cp.Variable, place: str) -> None:
    """Raise `ProblemError` for a variable that is not continuous and real, or whose shape hides constraints."""
    attributes = variable.attributes
    for kind in _DISCRETE:
        if attributes.get(kind):
            raise ProblemError(
                f"variable {variable.name()!r} in {place} is declared {kind}, so it is not continuous and real and the "
                f"problem is not convex: drop {kind}=True, or bound the variable with 0 <= v, v <= 1 and the like"
            )
    for kind in _SHAPED:
        if attributes.get(kind):
            raise ProblemError(
                f"variable {variable.name()!r} in {place} is declared {kind}; auxiliary variables may have signs and "
                "bounds only"
            )


def _collect_declared_bounds(
    variable: cp.Variable, place: str, taken: Mapping[str, cp.Constraint], users: Mapping[str, cp.Constraint]
) -> dict[str, cp.Constraint]:
    """Return the bounds that a variable was declared with, as constraints by name."""
    attributes, name = variable.attributes, variable.name()
    found: dict[str, cp.Constraint] = {}
    if attributes.get("nonneg") or attributes.get("pos"):
        found[f"{name} >= 0"] = variable >= 0
    if attributes.get("nonpos") or attributes.get("neg"):
        found[f"{name} <= 0"] = variable <= 0
    bounds = attributes.get("bounds")
    if bounds is not None:
        lower, upper = bounds
        if lower is not None and np.all(np.isfinite(lower)):
            found[f"{name} >= lower"] = variable >= lower
        if upper is not None and np.all(np.isfinite(upper)):
            found[f"{name} <= upper"] = variable <= upper
    for key in found:
        if key in users:
            raise ProblemError(
                f"the constraint name {key!r} is needed for the sign or bound declared with variable {name!r}: "
                "rename the constraint, or the variable with cp.Variable(name=...)"
            )
        if key in taken:
            raise ProblemError(
                f"two variables with a declared sign or bound are called {name!r}, one of them in {place}: "
                "give each its own name with cp.Variable(name=...), or use one variable in both places"
            )
    return found
