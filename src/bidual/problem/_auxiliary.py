"""The user's auxiliary variables: continuous, real, and with their declared signs and bounds as constraints."""

from collections.abc import Mapping

import cvxpy as cp
import numpy as np

from bidual._errors import ProblemError
from bidual.features.embedding import Embedding

_DISCRETE = ("integer", "boolean", "complex", "imag", "hermitian")
_SHAPED = ("symmetric", "diag", "PSD", "NSD", "sparsity")


def with_declared_bounds(
    objective: cp.Minimize | cp.Maximize, named: Mapping[str, cp.Constraint]
) -> dict[str, cp.Constraint]:
    """The constraints, and one more for every sign or bound that was declared with an auxiliary variable."""
    variables = {v.id: v for part in (objective, *named.values()) for v in part.variables()}
    extended = dict(named)
    for variable in variables.values():
        if not isinstance(variable, Embedding):
            _check(variable)
            extended.update(_declared(variable, extended))
    return extended


def _check(variable: cp.Variable) -> None:
    attributes = variable.attributes
    if any(attributes.get(kind) for kind in _DISCRETE):
        raise ProblemError(
            f"variable {variable.name()!r} is not continuous and real, so the problem is not convex: "
            "drop its integer, boolean or complex attribute"
        )
    for kind in _SHAPED:
        if attributes.get(kind):
            raise ProblemError(
                f"variable {variable.name()!r} is declared {kind}; auxiliary variables may have signs and bounds only"
            )


def _declared(variable: cp.Variable, taken: Mapping[str, cp.Constraint]) -> dict[str, cp.Constraint]:
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
    clash = [key for key in found if key in taken]
    if clash:
        raise ProblemError(f"the name {clash[0]!r} is needed for the declared bound of {name!r}: rename a constraint")
    return found
