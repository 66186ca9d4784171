"""Convexity by CVXPY's rules, and which term breaks them.

A rule breaks at an expression that is neither convex nor concave although everything in it is. Where there is none,
an expression is convex where a concave one is needed, or the other way round.
"""

from collections.abc import Iterator
from typing import Literal

import cvxpy as cp
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.affine.binary_operators import BinaryOperator
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.atom import Atom
from cvxpy.constraints.zero import Equality

from bidual._errors import ProblemError
from bidual.problem._words import words

Wanted = Literal["convex", "concave", "affine"]
_ADVICE = (
    "Minimise convex or maximise concave expressions; write constraints as convex <= concave, or affine == affine."
)


def check_convex(what: str, part: cp.Minimize | cp.Maximize | cp.Constraint) -> None:
    """Raise `ProblemError` where an objective or a constraint, called `what`, is not convex by the rules."""
    if part.is_dcp():
        return
    raise ProblemError(
        f"{what} is not convex by CVXPY's rules (DCP), so no bound could be certified: {_reason(part)}.\n{_ADVICE}"
    )


def curvature(expression: cp.Expression) -> str:
    """In one word."""
    if expression.is_constant():
        return "constant"
    if expression.is_affine():
        return "affine"
    if expression.is_convex():
        return "convex"
    return "concave" if expression.is_concave() else "neither convex nor concave"


def _reason(part: cp.Minimize | cp.Maximize | cp.Constraint) -> str:
    for side in part.args:
        for term in _breaking(side):
            return f"the rules break at {words(term)}, {_why(term)}"
    if isinstance(part, cp.Minimize | cp.Maximize):
        wanted: Wanted = "convex" if isinstance(part, cp.Minimize) else "concave"
        return f"cp.{type(part).__name__} needs a {wanted} expression, but {_offender(part.args[0], wanted)}"
    if isinstance(part, Equality):
        return f"both sides of == must be affine, but {_first_offender(part, 'affine', 'affine')}"
    return (
        f"the smaller side must be convex and the larger one concave, but {_first_offender(part, 'convex', 'concave')}"
    )


def _breaking(expression: cp.Expression) -> Iterator[cp.Expression]:
    """The smallest terms that are neither convex nor concave, in the order they were written."""
    arguments = expression.args if isinstance(expression, Atom) else []
    for argument in arguments:
        yield from _breaking(argument)
    if not expression.is_dcp() and all(argument.is_dcp() for argument in arguments):
        yield expression


def _why(term: cp.Expression) -> str:
    """Why an expression with convex or concave arguments is neither."""
    assert isinstance(term, Atom)  # a variable or a constant is affine
    if isinstance(term, BinaryOperator | cp.multiply):
        return _why_product(*term.args)
    convex = [a for a in term.args if not a.is_concave()]
    concave = [a for a in term.args if not a.is_convex()]
    if isinstance(term, AffAtom) and convex and concave:
        return f"which puts the convex {words(convex[0])} and the concave {words(concave[0])} together"
    if not (term.is_atom_convex() or term.is_atom_concave()):
        return "which is neither convex nor concave in its arguments"
    for i, argument in enumerate(term.args):
        wanted = _wanted(term, i)
        if not _is(argument, wanted):
            return f"whose argument {words(argument)} is {curvature(argument)} and would have to be {wanted}"
    return "which is neither convex nor concave"


def _why_product(left: cp.Expression, right: cp.Expression) -> str:
    if not (left.is_constant() or right.is_constant()):
        return f"which multiplies or divides {words(left)} by {words(right)}: one of them must be a constant"
    factor, other = (left, right) if left.is_constant() else (right, left)
    remedy = "declare cp.Parameter(nonneg=True)" if factor.parameters() else "use factors of one sign"
    return f"where the {curvature(other)} {words(other)} is multiplied by {words(factor)} of unknown sign: {remedy}"


def _wanted(atom: Atom, i: int) -> Wanted:
    """The curvature that the rules ask of an argument."""
    rising, falling = atom.is_incr(i), atom.is_decr(i)
    if not atom.is_atom_convex():
        rising, falling = falling, rising
    return "convex" if rising else "concave" if falling else "affine"


def _is(expression: cp.Expression, wanted: Wanted) -> bool:
    return {"convex": expression.is_convex, "concave": expression.is_concave, "affine": expression.is_affine}[wanted]()


def _first_offender(part: cp.Constraint, left: Wanted, right: Wanted) -> str:
    sides = zip(part.args, (left, right), strict=True)
    return next(_offender(side, wanted) for side, wanted in sides if not _is(side, wanted))


def _offender(expression: cp.Expression, wanted: Wanted) -> str:
    """The smallest summand that has the wrong curvature, with that curvature."""
    opposite: dict[str, Wanted] = {"convex": "concave", "concave": "convex", "affine": "affine"}
    while isinstance(expression, cp.AddExpression | NegExpression | cp.Sum):
        if isinstance(expression, NegExpression):
            wanted = opposite[wanted]
        expression = next(a for a in expression.args if not _is(a, wanted))
    return f"{words(expression)} is {curvature(expression)} where {wanted} is needed"
