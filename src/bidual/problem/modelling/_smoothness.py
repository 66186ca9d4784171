"""Where the expressions of a problem have the derivatives that the proximal player needs."""

from collections.abc import Iterator, Sequence

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.affine_atom import AffAtom
from cvxpy.atoms.atom import Atom

from bidual.problem.modelling._atoms import find_rule, is_euclidean


def is_smooth(expression: cp.Expression, norms: bool) -> bool:
    """Return whether all atoms of an expression are smooth, with Euclidean norms among them or not."""
    if isinstance(expression, cp.Variable) or not expression.variables():
        return True
    if isinstance(expression, AffAtom) and expression.is_affine():
        return True
    rule = find_rule(expression)
    known = rule is not None and (rule.smooth(expression) or (norms and is_euclidean(expression)))
    return known and all(is_smooth(part, norms) for part in (expression.args if isinstance(expression, Atom) else ()))


def has_inner_kink(constraint: cp.Expression, parameters: Sequence[cp.Variable]) -> bool:
    """Return whether g is a Euclidean norm below a positive limit: it is smooth wherever it can be tight.

    The kink is where the norm is 0, and there the constraint holds with room. A limit that is a parameter counts as
    positive here; its value is looked at when it is known.
    """
    terms, known = list(_split_terms(constraint)), {variable.id for variable in parameters}
    curved = [term for term in terms if not {v.id for v in term.variables()} <= known]
    if len(curved) != 1 or not (is_euclidean(norm := curved[0]) and isinstance(norm, cp.Pnorm)):
        return False
    rest = [term for term in terms if term is not norm]
    if not (norm.args[0].is_affine() and all(term.is_affine() for term in rest)):
        return False
    return any(term.variables() for term in rest) or sum(float(np.sum(np.asarray(term.value))) for term in rest) < 0


def _split_terms(expression: cp.Expression) -> Iterator[cp.Expression]:
    """Yield the terms of a sum."""
    if isinstance(expression, cp.AddExpression):
        for argument in expression.args:
            yield from _split_terms(argument)
    else:
        yield expression
