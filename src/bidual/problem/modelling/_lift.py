"""Reduction of a problem over the embedding to the same problem over its affine images.

Every largest affine expression of the embedding alone, `x.cost` summed or `x.visits / H`, is replaced by a fresh
variable. The rest is small, holds all the curvature, and is independent of time, states and actions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import cvxpy as cp
from cvxpy.atoms.atom import Atom
from cvxpy.constraints.zero import Equality

from bidual.problem.features.embedding import Embedding
from bidual.problem.modelling._exact import rebuild_exactly
from bidual.problem.modelling._functions import Functions


class Piece(NamedTuple):
    """An affine expression of the embedding and the variable that stands for it."""

    affine: cp.Expression
    variable: cp.Variable


def lift(
    objective: cp.Minimize | cp.Maximize, constraints: Sequence[cp.Constraint]
) -> tuple[Functions, tuple[Piece, ...]]:
    """Return the problem as functions of images, in its minimising form, and the pieces that the images stand for."""
    variables = {v.id: v for part in (objective, *constraints) for v in part.variables()}
    # Plain copies: signs and bounds declared with a variable are constraints of the problem by now.
    plain = {i: cp.Variable(v.shape, name=v.name()) for i, v in variables.items() if not isinstance(v, Embedding)}
    pieces: list[Piece] = []
    f = _lift(objective.expr, pieces, plain)
    sides = []
    for constraint in constraints:
        left, right = (_lift(side, pieces, plain) for side in constraint.args)
        sides.append((left, right))
    functions = Functions(
        objective=-f if isinstance(objective, cp.Maximize) else f,
        sides=tuple(sides),
        equality=tuple(isinstance(constraint, Equality) for constraint in constraints),
        images=tuple(piece.variable for piece in pieces),
        auxiliary=tuple(plain.values()),
    )
    return functions, tuple(pieces)


def _lift(expression: cp.Expression, pieces: list[Piece], plain: dict[int, cp.Variable]) -> cp.Expression:
    """Replace the largest affine expressions of the embedding by image variables, listed in `pieces`."""
    variables = expression.variables()
    if isinstance(expression, cp.Variable) and expression.id in plain:
        return plain[expression.id]
    if not variables or not isinstance(expression, Atom | Embedding):
        return expression
    if len(variables) == 1 and isinstance(variables[0], Embedding) and expression.is_affine():
        pieces.append(Piece(expression, cp.Variable(expression.shape, name=f"y{len(pieces)}")))
        return pieces[-1].variable
    assert isinstance(expression, Atom)  # an embedding is affine
    return rebuild_exactly(expression, [_lift(argument, pieces, plain) for argument in expression.args])
