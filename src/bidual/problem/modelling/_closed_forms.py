"""Functions with a conjugate in closed form, recognised by the shape of their CVXPY expressions.

Euclidean distances to points, boxes and balls, their squares, maxima of numbers, and entropies, each times a positive
number plus a constant.
"""

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.atom import Atom
from jaxtyping import Float

from bidual.problem.convex import (
    AbstractCompact,
    AbstractFunction,
    Distance,
    DistanceToBall,
    DistanceToBox,
    MaxAffine,
    NegativeEntropy,
    Scaled,
    Simplex,
    SquaredDistance,
)

Vector = Float[np.ndarray, "n"]


def find_closed_form(expression: cp.Expression, K: AbstractCompact, shift: Vector) -> AbstractFunction | None:
    """Return the function in closed form, or None where its shape is not among the known ones."""
    if not isinstance(expression, Atom):
        return None
    curved = [part for part in expression.args if part.variables()]
    plain = [part for part in expression.args if not part.variables()]
    if isinstance(expression, cp.AddExpression) and len(curved) == 1:
        return _scale(find_closed_form(curved[0], K, shift), 1.0, sum(to_number(part) for part in plain))
    if isinstance(expression, NegExpression):
        return _match_entropy(expression.args[0], K, shift)
    if isinstance(expression, cp.multiply | MulExpression) and len(curved) == 1 and plain[0].size == 1:
        factor = to_number(plain[0])
        inner = find_closed_form(curved[0], K, shift) if factor > 0 else _match_entropy(curved[0], K, shift)
        return _scale(inner, abs(factor), 0.0)
    if isinstance(expression, DivExpression) and curved == [expression.args[0]] and plain[0].size == 1:
        return _scale(find_closed_form(curved[0], K, shift), 1 / to_number(plain[0]), 0.0)
    return _match_atom(expression, K, shift)


def _match_atom(expression: Atom, K: AbstractCompact, shift: Vector) -> AbstractFunction | None:
    """Return the closed form of an atom; None where there is none."""
    arguments, target = expression.args, -shift  # |y| = |z + shift|
    if expression.size != 1:
        return None
    if not isinstance(arguments[0], cp.Variable):
        return _match_distance_to_set(expression, K, target)
    if isinstance(expression, cp.Pnorm) and expression.get_data()[0] == 2:
        return Distance(target, K)
    if isinstance(expression, cp.quad_over_lin) and not arguments[1].variables():
        return SquaredDistance(target, K, 1 / to_number(arguments[1]))
    if isinstance(expression, cp.Power) and expression.get_data()[0] == 2:
        return SquaredDistance(target, K, 1.0)
    if isinstance(expression, cp.max):
        return MaxAffine(np.eye(shift.size), shift, K)
    if isinstance(expression, cp.maximum) and shift.size == 1 and _is_positive_part(expression):
        return MaxAffine(np.array([[1.0], [0.0]]), np.append(shift, 0.0), K)
    return None


def _match_distance_to_set(expression: Atom, K: AbstractCompact, target: Vector) -> AbstractFunction | None:
    """Return the distance to a ball, pos(|y| - r), or to a box, the norm of pos(|y| - half) or pos(y)."""
    if isinstance(expression, cp.maximum) and _is_positive_part(expression):
        inner, radius = _split_constant(expression.args[0])
        is_norm = isinstance(inner, cp.Pnorm) and inner.get_data()[0] == 2 and isinstance(inner.args[0], cp.Variable)
        return DistanceToBall(target, float(-radius[0]), K) if is_norm and radius[0] <= 0 else None
    if not (isinstance(expression, cp.Pnorm) and expression.get_data()[0] == 2):
        return None
    beyond = expression.args[0]
    beyond = beyond.args[0] if isinstance(beyond, cp.reshape) else beyond
    if not isinstance(beyond, Atom) or not _is_positive_part(beyond) or beyond.ndim > 1:
        return None
    inner, half = _split_constant(beyond.args[0])
    if isinstance(inner, cp.Variable):
        return DistanceToBox(np.full(target.size, -np.inf), target - half, K)
    if isinstance(inner, cp.abs) and isinstance(inner.args[0], cp.Variable) and np.all(half <= 0):
        return DistanceToBox(target + half, target - half, K)
    return None


def _is_positive_part(expression: cp.Expression) -> bool:
    """Return whether an expression is the larger of another one and 0."""
    return (
        isinstance(expression, cp.maximum)
        and len(expression.args) == 2
        and not expression.args[1].variables()
        and not np.any(expression.args[1].value)
    )


def _split_constant(expression: cp.Expression) -> tuple[cp.Expression, Vector]:
    """Split a sum into the one part that varies and the constant, entry by entry; that is 0 where there is none."""
    if isinstance(expression, cp.AddExpression):
        varying = [part for part in expression.args if part.variables()]
        if len(varying) == 1 and varying[0].shape == expression.shape:
            constant = sum(np.asarray(part.value, dtype=np.float64) for part in expression.args if not part.variables())
            return varying[0], np.broadcast_to(np.ravel(constant), expression.size)
    return expression, np.zeros(expression.size)


def _match_entropy(expression: cp.Expression, K: AbstractCompact, shift: Vector) -> AbstractFunction | None:
    """Return the negative of a concave expression in closed form: only entropies of probabilities are known."""
    if not isinstance(expression, cp.Sum) or expression.axis is not None or not isinstance(expression.args[0], cp.entr):
        return None
    alone = isinstance(expression.args[0].args[0], cp.Variable)
    return NegativeEntropy(K) if alone and isinstance(K, Simplex) and not shift.any() else None


def _scale(function: AbstractFunction | None, factor: float, constant: float) -> AbstractFunction | None:
    if function is None or factor <= 0:
        return None
    return function if factor == 1 and constant == 0 else Scaled(function, factor, constant)


def to_number(constant: cp.Expression) -> float:
    return float(np.asarray(constant.value, dtype=np.float64).sum())
