"""Expressions of a problem as they are written in a file: ``sum(x.reward)``, not entries of an array."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cvxpy as cp

    from bidual.problem.features.embedding import Embedding

_ATOMS = {"Sum": "sum", "Pnorm": "pnorm", "PnormApprox": "pnorm", "Hstack": "hstack", "Vstack": "vstack"}


def write_expression(expression: "cp.Expression | cp.Minimize | cp.Maximize", x: "Embedding") -> str:
    """Write an expression with the names of the features, and without the arguments that CVXPY fills in."""
    text = str(expression)
    for part in x.features.parts:
        text = text.replace(str(getattr(x, part.name)), f"x.{part.name}")
    text = re.sub(r"\bembedding\b", "x", text)
    text = re.sub(r", None, False\)", ")", text)
    text = re.sub(r", (\d+), False\)", r", axis=\1)", text)
    text = re.sub(r"Promote\(([^()]*), \([\d, ]*\)\)", r"\1", text)
    text = re.sub(r"\[[\d.eE+\-\s]{40,}\]", "[...]", text)  # arrays of many numbers
    text = text.replace(" + -", " - ")
    return re.sub(r"\b(\w+)\(", lambda call: f"{_ATOMS.get(call[1], call[1])}(", text)


def write_limit(limit: "cp.Expression") -> str:
    """Write a limit and, where it depends on parameters, its value."""
    if not limit.parameters() or limit.value is None:
        return str(limit)
    value = limit.value
    return f"{limit} (now {value:.6g})" if limit.is_scalar() else f"{limit} (now {value})"
