"""Expressions in the words they were written in: ``x.cost`` instead of columns of a variable, atoms by their names."""

import re

import cvxpy as cp

from bidual.features.embedding import Embedding

_LONGEST = 160  # characters; constants are printed entry by entry
_NAMES = {
    r"\bPower(Approx)?\(": "power(",
    r"\bPnorm(Approx)?\(": "pnorm(",
    r"\bGeoMean(Approx)?\(": "geo_mean(",
    r"\bSum\(": "sum(",
    r", None, False\)": ")",  # axis and keepdims, where they were not given
    r", 2\.0\)": ", 2)",
    r"\s+": " ",
}


def words(expression: cp.Expression) -> str:
    """The expression as the user may have written it, on one line and not too long."""
    text = str(expression)
    for variable in expression.variables():
        if isinstance(variable, Embedding):
            for part in variable.features.parts:
                text = text.replace(str(getattr(variable, part.name)), f"x.{part.name}")
    for pattern, name in _NAMES.items():
        text = re.sub(pattern, name, text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
