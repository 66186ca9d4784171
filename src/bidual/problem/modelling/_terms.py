"""Problems in the form of the paper's dual players: functions with closed-form conjugates where recognised.

CVXPY's expressions over images are compared with the few shapes that have a conjugate in closed form: linear
functions, Euclidean distances and their squares, maxima of numbers, entropies, each times a positive number plus a
constant. Everything else is a cone program of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.atom import Atom
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.convex import (
    AbstractCompact,
    AbstractFunction,
    AbstractProgram,
    Affine,
    AffineProgram,
    Box,
    ConeFunction,
    ConvexProgram,
    Distance,
    Image,
    MaxAffine,
    NegativeEntropy,
    Scaled,
    Simplex,
    SquaredDistance,
    Term,
    VariationalProgram,
)
from bidual.problem.features import Psi
from bidual.problem.modelling._compile import extract_affine_rows, extract_conic_form, reduce_to_cones
from bidual.problem.modelling._functions import Functions

Vector = Float[np.ndarray, "n"]
Least = Callable[[Float[np.ndarray, "H d"]], float]

_PLANNED = 256  # numbers of an image whose extremes are worth two plans each


def make_variational(program: AbstractProgram, psi: Psi | None, least: Least | None = None) -> VariationalProgram:
    """Return the problem with a conjugate for every function, on compact sets that hold the images of all policies.

    Args:
        program: the problem.
        psi: the features; None where they depend on the next state, so that only `least` can bound their range.
        least: the least cost of any policy in the known model, for sets as small as it allows; without it they hold
            the images under every model.
    """
    return program.dispatch(lambda rows: _lower_rows(rows, psi, least), lambda cones: _lower_cones(cones, psi, least))


def _lower_rows(program: AffineProgram, psi: Psi | None, least: Least | None) -> VariationalProgram:
    """Return a linear problem with one affine term for every row."""
    H, d = program.objective.shape
    rows, constants = program.functionals()
    image = Image(sp.csr_array(rows.reshape(-1, H * d)), np.zeros(len(rows)), H, total=False)
    lower, upper = _compute_ranges(image, psi, least)
    terms = [
        Term(Affine(np.ones(1), float(c), Box(lower[i : i + 1], upper[i : i + 1])), np.array([i]), np.zeros(1))
        for i, c in enumerate(constants)
    ]
    return VariationalProgram(image, terms[0], tuple(terms[1:]), program.equality, program.units)


def _lower_cones(program: ConvexProgram, psi: Psi | None, least: Least | None) -> VariationalProgram:
    """Return a convex problem with the terms that its expressions are recognised as."""
    functions = program.functions
    assert isinstance(functions, Functions)  # all programs hold these
    if functions.auxiliary:
        raise ProblemError(
            "this dual player cannot minimise over auxiliary variables "
            f"({', '.join(repr(v.name()) for v in functions.auxiliary)}): use the corrective one"
        )
    recogniser = _Recogniser(functions.images, program.image, psi, least)
    f, *_ = recogniser.terms(functions.objective)
    g = [term for constraint in functions.constraints for term in recogniser.terms(constraint)]
    return VariationalProgram(program.image, f, tuple(g), program.equality, program.units)


class _Recogniser:
    """The variables of an image, their entries in it, and the ranges of these over all policies."""

    def __init__(self, images: Sequence[cp.Variable], image: Image, psi: Psi | None, least: Least | None) -> None:
        self._images = images
        starts = np.cumsum([0, *(v.size for v in images)])
        self._rows = {v.id: start + np.arange(v.size) for v, start in zip(images, starts[:-1], strict=True)}
        self._image, self._psi = image, psi
        self._lower, self._upper = _compute_ranges(image, psi, least)

    def terms(self, expression: cp.Expression) -> list[Term]:
        """Return one term per entry of the expression."""
        if expression.size == 1:
            return [self._recognise(expression)]
        flat = cp.vec(expression, order="F")
        return [self._recognise(flat[i]) for i in range(expression.size)]

    def _recognise(self, expression: cp.Expression) -> Term:
        """Return an expression as a function of a few images: affine, in closed form, or as a cone program."""
        variables = [v for v in self._images if any(v is other for other in expression.variables())]
        rows = np.concatenate([self._rows[v.id] for v in variables] or [np.zeros(0, dtype=int)])
        if rows.size == 0:  # a constant, as a function of some number
            K = Box(self._lower[:1], self._upper[:1])
            return Term(Affine(np.zeros(1), _to_number(expression), K), np.zeros(1, dtype=int), np.zeros(1))
        K, shift = self._find_compact(rows)
        if expression.is_affine():
            return Term(_match_affine(expression, variables, K, shift), rows, shift)
        known = _find_closed_form(expression, K, shift)
        return Term(_match_cone(expression, variables, K, shift) if known is None else known, rows, shift)

    def _find_compact(self, rows: np.ndarray) -> tuple[AbstractCompact, Float[np.ndarray, "n"]]:
        """Return a shifted simplex where the numbers have a constant sum, as visits do, else a box; and the shift."""
        lower, upper = self._lower[rows], self._upper[rows]
        if rows.size > 1 and self._psi is not None:
            total = Image(
                sp.csr_array(self._image.matrix[rows].sum(axis=0).reshape(1, -1)),
                self._image.offset[rows].sum(keepdims=True),
                self._image.horizon,
                self._image.total,
            )
            few, many = bound_ranges(total, self._psi)
            shift = np.zeros(rows.size) if lower.min() >= 0 else lower  # laws as they are, differences of laws moved
            mass = float(many[0] - shift.sum())
            if mass > 0 and many[0] - few[0] <= 1e-9 * mass:
                return Simplex(rows.size, mass), shift
        return Box(lower, upper), np.zeros(rows.size)


def _compute_ranges(image: Image, psi: Psi | None, least: Least | None) -> tuple[Vector, Vector]:
    """Compute the extremes over all policies in the known model, where their number allows planning for each."""
    if psi is not None and (least is None or image.size > _PLANNED):
        return bound_ranges(image, psi)
    if least is None:
        raise ProblemError("the range of these features is known only to a planner")
    costs = [image.adjoint(np.eye(1, image.size, i)[0]) for i in range(image.size)]
    # A little wider, for rounding: K must hold them all.
    lower, upper = (np.array([sign * least(sign * cost) for cost in costs]) + image.offset for sign in (1.0, -1.0))
    slack = 1e-9 * np.maximum(1.0, np.maximum(np.abs(lower), np.abs(upper)))
    if psi is None:
        return lower - slack, upper + slack
    loose_lower, loose_upper = bound_ranges(image, psi)
    return np.maximum(lower - slack, loose_lower), np.minimum(upper + slack, loose_upper)


def bound_ranges(image: Image, psi: Psi) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Bound every number of the image over all policies and all models: the sums of the extremes of every step."""
    lower, upper = image.offset.copy(), image.offset.copy()
    same = image.total and len(psi.signals) == 1
    for i in range(image.size):
        theta = image.adjoint(np.eye(1, image.size, i)[0])
        for h in range(1 if same else image.horizon):
            pay, times = psi.pay(theta[h], h), image.horizon if same else 1
            lower[i] += times * pay.min()
            upper[i] += times * pay.max()
    return lower, upper


def _match_affine(
    expression: cp.Expression, variables: Sequence[cp.Variable], K: AbstractCompact, shift: Vector
) -> Affine:
    matrix, offset = extract_affine_rows(expression, variables)
    weights = np.asarray(matrix.toarray())[0]
    return Affine(weights, float(offset[0] + weights @ shift), K)


def _match_cone(
    expression: cp.Expression, variables: Sequence[cp.Variable], K: AbstractCompact, shift: Vector
) -> ConeFunction:
    form = extract_conic_form(reduce_to_cones(cp.Problem(cp.Minimize(cp.sum(expression)))), [], variables, [])
    moved = replace(form, h=form.h - form.G_y @ shift, offset=form.offset + float(form.c_y @ shift))
    return ConeFunction(moved, K)


def _find_closed_form(expression: cp.Expression, K: AbstractCompact, shift: Vector) -> AbstractFunction | None:
    """Return the function in closed form, or None where its shape is not among the known ones."""
    if not isinstance(expression, Atom):
        return None
    curved = [part for part in expression.args if part.variables()]
    plain = [part for part in expression.args if not part.variables()]
    if isinstance(expression, cp.AddExpression) and len(curved) == 1:
        return _scale(_find_closed_form(curved[0], K, shift), 1.0, sum(_to_number(part) for part in plain))
    if isinstance(expression, NegExpression):
        return _match_entropy(expression.args[0], K, shift)
    if isinstance(expression, cp.multiply | MulExpression) and len(curved) == 1 and plain[0].size == 1:
        factor = _to_number(plain[0])
        inner = _find_closed_form(curved[0], K, shift) if factor > 0 else _match_entropy(curved[0], K, shift)
        return _scale(inner, abs(factor), 0.0)
    if isinstance(expression, DivExpression) and curved == [expression.args[0]] and plain[0].size == 1:
        return _scale(_find_closed_form(curved[0], K, shift), 1 / _to_number(plain[0]), 0.0)
    return _match_atom(expression, K, shift)


def _match_atom(expression: Atom, K: AbstractCompact, shift: Vector) -> AbstractFunction | None:
    """Return the closed form of an atom; None where there is none."""
    arguments = expression.args
    if not isinstance(arguments[0], cp.Variable) or expression.size != 1:
        return None
    target = -shift  # |y| = |z + shift|
    if isinstance(expression, cp.Pnorm) and expression.get_data()[0] == 2:
        return Distance(target, K)
    if isinstance(expression, cp.quad_over_lin) and not arguments[1].variables():
        return SquaredDistance(target, K, 1 / _to_number(arguments[1]))
    if isinstance(expression, cp.Power) and expression.get_data()[0] == 2:
        return SquaredDistance(target, K, 1.0)
    if isinstance(expression, cp.max):
        return MaxAffine(np.eye(shift.size), shift, K)
    return None


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


def _to_number(constant: cp.Expression) -> float:
    return float(np.asarray(constant.value, dtype=np.float64).sum())
