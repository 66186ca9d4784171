"""Checks of objectives and constraints, with errors in the words that they were written in.

Convexity is by CVXPY's rules, and an error names the term that breaks them. A rule breaks at an expression that is
neither convex nor concave although everything in it is. Where there is none, an expression is convex where a concave
one is needed, or the other way round. Of NaN and infinity an error says where they are, and what was got.
"""

import re
from collections.abc import Iterator
from typing import Literal

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import BinaryOperator
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.atom import Atom
from cvxpy.constraints.zero import Equality

from bidual._base.errors import ProblemError
from bidual.problem.features.embedding import Embedding

Wanted = Literal["convex", "concave", "affine"]
_ADVICE = (
    "Minimise convex or maximise concave expressions; write constraints as convex <= concave, or affine == affine."
)


def check_convex(what: str, part: cp.Minimize | cp.Maximize | cp.Constraint) -> None:
    """Raise `ProblemError` where an objective or a constraint, called `what`, is not convex by the rules."""
    if part.is_dcp():
        return
    raise ProblemError(
        f"{what} is not convex by CVXPY's rules (DCP), so no bound could be certified: {_explain_sides(part)}.\n"
        f"{_ADVICE}"
    )


def describe_curvature(expression: cp.Expression) -> str:
    """Return the curvature in one word, by CVXPY's rules."""
    if expression.is_constant():
        return "constant"
    if expression.is_affine():
        return "affine"
    if expression.is_convex():
        return "convex"
    return "concave" if expression.is_concave() else "neither convex nor concave"


def _explain_sides(part: cp.Minimize | cp.Maximize | cp.Constraint) -> str:
    """Explain which part breaks the rules, or which side has the wrong curvature."""
    for side in part.args:
        for term in _find_breaking_terms(side):
            return f"the rules break at {describe(term)}, {_explain_term(term)}"
    if isinstance(part, cp.Minimize | cp.Maximize):
        wanted: Wanted = "convex" if isinstance(part, cp.Minimize) else "concave"
        return f"cp.{type(part).__name__} needs a {wanted} expression, but {_describe_offender(part.args[0], wanted)}"
    if isinstance(part, Equality):
        return f"both sides of == must be affine, but {_describe_first(part, 'affine', 'affine')}"
    return (
        f"the smaller side must be convex and the larger one concave, but {_describe_first(part, 'convex', 'concave')}"
    )


def _find_breaking_terms(expression: cp.Expression) -> Iterator[cp.Expression]:
    """Yield the smallest terms that are neither convex nor concave, in the order of the expression."""
    arguments = expression.args if isinstance(expression, Atom) else []
    for argument in arguments:
        yield from _find_breaking_terms(argument)
    if not expression.is_dcp() and all(argument.is_dcp() for argument in arguments):
        yield expression


def _explain_term(term: cp.Expression) -> str:
    """Explain why an expression with convex or concave arguments is neither."""
    assert isinstance(term, Atom)  # a variable or a constant is affine
    if isinstance(term, BinaryOperator | cp.multiply):
        return _explain_product(*term.args)
    convex = [a for a in term.args if not a.is_concave()]
    concave = [a for a in term.args if not a.is_convex()]
    if isinstance(term, AffAtom) and convex and concave:
        return f"which puts the convex {describe(convex[0])} and the concave {describe(concave[0])} together"
    if not (term.is_atom_convex() or term.is_atom_concave()):
        return "which is neither convex nor concave in its arguments"
    for i, argument in enumerate(term.args):
        wanted = _require_curvature(term, i)
        if not _is(argument, wanted):
            return (
                f"whose argument {describe(argument)} is {describe_curvature(argument)} and would have to be {wanted}"
            )
    return "which is neither convex nor concave"


def _explain_product(left: cp.Expression, right: cp.Expression) -> str:
    if not (left.is_constant() or right.is_constant()):
        return f"which multiplies or divides {describe(left)} by {describe(right)}: one of them must be a constant"
    factor, other = (left, right) if left.is_constant() else (right, left)
    remedy = "declare cp.Parameter(nonneg=True)" if factor.parameters() else "use factors of one sign"
    kind = describe_curvature(other)
    return f"where the {kind} {describe(other)} is multiplied by {describe(factor)} of unknown sign: {remedy}"


def _require_curvature(atom: Atom, i: int) -> Wanted:
    """Return the curvature that the rules require of an argument."""
    rising, falling = atom.is_incr(i), atom.is_decr(i)
    if not atom.is_atom_convex():
        rising, falling = falling, rising
    return "convex" if rising else "concave" if falling else "affine"


def _is(expression: cp.Expression, wanted: Wanted) -> bool:
    return {"convex": expression.is_convex, "concave": expression.is_concave, "affine": expression.is_affine}[wanted]()


def _describe_first(part: cp.Constraint, left: Wanted, right: Wanted) -> str:
    sides = zip(part.args, (left, right), strict=True)
    return next(_describe_offender(side, wanted) for side, wanted in sides if not _is(side, wanted))


def _describe_offender(expression: cp.Expression, wanted: Wanted) -> str:
    """Describe the smallest summand of the wrong curvature, with that curvature."""
    opposite: dict[str, Wanted] = {"convex": "concave", "concave": "convex", "affine": "affine"}
    while isinstance(expression, cp.AddExpression | NegExpression | cp.Sum):
        if isinstance(expression, NegExpression):
            wanted = opposite[wanted]
        expression = next(a for a in expression.args if not _is(a, wanted))
    return f"{describe(expression)} is {describe_curvature(expression)} where {wanted} is needed"


def check_finite(what: str, part: cp.Minimize | cp.Maximize | cp.Constraint) -> None:
    """Raise `ProblemError` where a constant or the value of a parameter in an objective or a constraint is not finite.

    Parameters without a value are skipped: they are checked when the problem is solved.
    """
    for side in part.args:
        found = _search(side)
        if found is not None:
            raise ProblemError(f"{what} contains NaN or infinity: {found}; every number in a problem must be finite")


def _search(expression: cp.Expression) -> str | None:
    """Describe the first number that is not finite."""
    parts = [*expression.args, *_read_data(expression)] if isinstance(expression, Atom) else []
    for part in parts:
        found = _search(part)
        if found is not None:
            return found
    # Finite constants may combine to one that is not: 1 / 0.
    return None if expression.variables() or _has_unset_parameter(expression) else _describe_bad_entry(expression)


def _read_data(atom: Atom) -> list[cp.Expression]:
    """Return the data of an atom beside its arguments, such as the threshold of a Huber function."""
    data = atom.get_data() or []
    return [cp.Constant(d) if isinstance(d, float) else d for d in data if isinstance(d, float | cp.Expression)]


def _has_unset_parameter(expression: cp.Expression) -> bool:
    return any(parameter.value is None for parameter in expression.parameters())


def _describe_bad_entry(constant: cp.Expression) -> str | None:
    """Describe the first entry of a constant that is not finite; None where all are."""
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
    return (
        f"{describe(constant)} is {got}{place}" if isinstance(constant, Atom) or place else f"a number in it is {got}"
    )


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


def describe(expression: cp.Expression) -> str:
    """Describe the expression as the user may have written it, on one line and not too long."""
    text = str(expression)
    for variable in expression.variables():
        if isinstance(variable, Embedding):
            for part in variable.features.parts:
                text = text.replace(str(getattr(variable, part.name)), f"x.{part.name}")
    for pattern, name in _NAMES.items():
        text = re.sub(pattern, name, text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
