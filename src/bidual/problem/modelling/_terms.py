"""Problems in the form of the paper's dual players: functions with closed-form conjugates where recognised.

CVXPY's expressions over images are compared with the few shapes that have a conjugate in closed form
(`_closed_forms`). Everything else is a cone program of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.convex import (
    AbstractCompact,
    AbstractProgram,
    Affine,
    AffineProgram,
    Box,
    ConeFunction,
    ConvexProgram,
    Image,
    Simplex,
    Term,
    VariationalProgram,
)
from bidual.problem.features import Psi
from bidual.problem.modelling._closed_forms import find_closed_form, to_number
from bidual.problem.modelling._compile import extract_affine_rows, extract_conic_form, reduce_to_cones
from bidual.problem.modelling._functions import Functions
from bidual.problem.modelling._recourse import check_recourse, group_by_variables

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
    """Return a convex problem with the terms that its expressions are recognised as.

    Functions that share auxiliary variables become one function of the image, minimised over these variables
    (`_recourse`): the objective with all that its variables are bound by, and else the least violation, in units.
    """
    functions = program.functions
    assert isinstance(functions, Functions)  # all programs hold these
    recogniser = _Recogniser(functions.images, program.image, psi, least)
    own, groups = group_by_variables(functions)
    if own.objective is None:
        f, *_ = recogniser.terms(functions.objective)
    else:
        f = recogniser.minimised(own.problem(program.units))
        check_recourse(f.function, own)
    g, equality, units = [], [], []
    for group in groups:
        if group.plain:
            rows = recogniser.terms(functions.constraints[group.constraints[0]])
            g += rows
            equality += [functions.equality[group.constraints[0]]] * len(rows)
            units += program.units[group.rows].tolist()
        else:
            g.append(recogniser.minimised(group.problem(program.units)))
            equality.append(False)
            units.append(1.0)
    return VariationalProgram(program.image, f, tuple(g), np.array(equality, dtype=bool), np.array(units, dtype=float))


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

    def minimised(self, problem: cp.Problem) -> Term:
        """Return the least value of a problem over its other variables, as a function of the images in it."""
        own = problem.variables()
        variables = [v for v in self._images if any(v is other for other in own)]
        rows = np.concatenate([self._rows[v.id] for v in variables] or [np.zeros(1, dtype=int)])
        K, shift = self._find_compact(rows)
        if not variables:  # a function of other variables alone is a constant
            return Term(Affine(np.zeros(1), float(problem.solve(solver=cp.CLARABEL)), K), rows, shift)  # pyright: ignore[reportArgumentType]
        return Term(_match_cone(problem, variables, K, shift), rows, shift)

    def _recognise(self, expression: cp.Expression) -> Term:
        """Return an expression as a function of a few images: affine, in closed form, or as a cone program."""
        variables = [v for v in self._images if any(v is other for other in expression.variables())]
        rows = np.concatenate([self._rows[v.id] for v in variables] or [np.zeros(0, dtype=int)])
        if rows.size == 0:  # a constant, as a function of some number
            K = Box(self._lower[:1], self._upper[:1])
            return Term(Affine(np.zeros(1), to_number(expression), K), np.zeros(1, dtype=int), np.zeros(1))
        K, shift = self._find_compact(rows)
        if expression.is_affine():
            return Term(_match_affine(expression, variables, K, shift), rows, shift)
        known = find_closed_form(expression, K, shift)
        if known is None:
            known = _match_cone(cp.Problem(cp.Minimize(cp.sum(expression))), variables, K, shift)
        return Term(known, rows, shift)

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
    problem: cp.Problem, variables: Sequence[cp.Variable], K: AbstractCompact, shift: Vector
) -> ConeFunction:
    form = extract_conic_form(reduce_to_cones(problem), [], variables, [])
    moved = replace(form, h=form.h - form.G_y @ shift, offset=form.offset + float(form.c_y @ shift))
    return ConeFunction(moved, K)
