"""Problems with curvature or auxiliary variables: functions of affine images, and their cone forms."""

from collections.abc import Iterator, Mapping
from functools import cached_property

import cvxpy as cp
import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual.problem.convex import AbstractSmooth, ConicForm, ConvexProgram, Image
from bidual.problem.features.embedding import Embedding
from bidual.problem.modelling._compile import compile_image, compile_pieces, extract_conic_form, reduce_to_cones
from bidual.problem.modelling._functions import Functions
from bidual.problem.modelling._lift import lift
from bidual.problem.modelling._lower import JaxFunctions, Smooth, SmoothAtParameters, lower_to_jax, smooth

# The least image size for which derivatives are worth compiling: a cone master over it is slow.
_HIGH_DIMENSION = 48
# The least image size for which a norm counts as smooth: a cone master takes too many plans there, and a search that
# stalls at the kink is handed over to it all the same (`dual/_proximal.py`).
_VERY_HIGH_DIMENSION = 512


class LeastViolation:
    """The problem of least worst violation t, in units; equalities may be kept as they are."""

    def __init__(self, functions: Functions, *, keep_equalities: bool) -> None:
        self._functions = functions
        self._t = cp.Variable(name="violation")
        self._units = [cp.Parameter(g.shape, nonneg=True) for g in functions.constraints]
        self._groups = [
            self._group(g, unit, equal, keep_equalities)
            for g, unit, equal in zip(functions.constraints, self._units, functions.equality, strict=True)
        ]
        # More than one unit of room is of no use, and auxiliary variables may allow any amount.
        rows = [row for group in self._groups for row in group] + [self._t >= -1]
        self._cone = reduce_to_cones(cp.Problem(cp.Minimize(self._t), rows))

    def _group(self, g: cp.Expression, unit: cp.Parameter, equal: bool, keep: bool) -> list[cp.Constraint]:
        room = unit * self._t if g.shape == () else cp.multiply(unit, self._t)
        if not equal:
            return [g <= room]
        return [g == 0] if keep else [g <= room, -g <= room]

    def form(self, units: Float[np.ndarray, "m"]) -> ConicForm:
        """Return the cone form in these units."""
        start = 0
        for parameter in self._units:
            parameter.value = units[start : start + parameter.size].reshape(parameter.shape, order="F")
            start += parameter.size
        return extract_conic_form(self._cone, self._groups, self._functions.images, self._functions.auxiliary)


class Forms:
    """The cone forms of functions of images, compiled once: the problem itself and its relaxations."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        limits = zip(functions.constraints, functions.equality, strict=True)
        self._constraints: list[cp.Constraint] = [g == 0 if equal else g <= 0 for g, equal in limits]
        self._cone = reduce_to_cones(cp.Problem(cp.Minimize(functions.objective), self._constraints))
        equal = functions.equality
        self._violation = LeastViolation(functions, keep_equalities=False) if equal else None
        self._margin = LeastViolation(functions, keep_equalities=True) if any(equal) and not all(equal) else None

    def program(self, image: Image) -> ConvexProgram:
        """Return the program at the parameters' present values."""
        functions = self._functions
        frozen = functions.frozen()
        main = extract_conic_form(self._cone, [[c] for c in self._constraints], functions.images, functions.auxiliary)
        units = np.maximum(1.0, np.abs(main.limits(sum(g.size for g in functions.constraints))))
        program = ConvexProgram(
            image=image,
            functions=frozen,
            main=main,
            violation=None if self._violation is None else self._violation.form(units),
            margin=None if self._margin is None else self._margin.form(units),
            equality=np.repeat(np.array(functions.equality, dtype=bool), [g.size for g in functions.constraints]),
            units=units,
            num_auxiliary=sum(v.size for v in functions.auxiliary),
            smooth=self._smooth(frozen) if image.size >= _HIGH_DIMENSION else None,
        )
        _check_finite(program)
        return program

    def _smooth(self, frozen: Functions) -> AbstractSmooth | None:
        """Compile derivatives for all parameter values at once, where these enter smoothly; else for these values."""
        compiled, parameters = self._compiled_with_variables
        at_values = smooth(frozen, norms=self._norms_are_smooth)  # a limit of 0 may be a kink where others are none
        if at_values is None:
            return None
        if compiled is None or not parameters:
            return compiled or at_values
        values = [np.asarray(parameter.value, dtype=np.float64).ravel(order="F") for parameter in parameters]
        return SmoothAtParameters(compiled, np.concatenate(values))

    @cached_property
    def _compiled_with_variables(self) -> tuple[Smooth | None, tuple[cp.Parameter, ...]]:
        functions, parameters = self._functions.with_variables()
        more = functions.images[len(self._functions.images) :]
        return smooth(functions, more, norms=self._norms_are_smooth), parameters

    @property
    def _norms_are_smooth(self) -> bool:
        return sum(v.size for v in self._functions.images) >= _VERY_HIGH_DIMENSION


class CurvedProblem:
    """A convex problem, compiled once; `program` fills in the parameters."""

    def __init__(
        self, objective: cp.Minimize | cp.Maximize, named: Mapping[str, cp.Constraint], embedding: Embedding
    ) -> None:
        self._embedding = embedding
        self._names = tuple(named)
        self._functions, self._pieces = lift(objective, list(named.values()))
        _check_without_signs(self._functions, named)
        self._rows = compile_pieces(self._pieces)
        try:
            self._forms = Forms(self._functions)
        except ProblemError as error:
            raise _explain_by_part(self._functions, named) or error from error

    def program(self) -> ConvexProgram:
        """Return the program at the parameters' present values."""
        return self._forms.program(compile_image(self._pieces, self._embedding, self._rows))

    def jax_functions(self) -> JaxFunctions | None:
        """Return the functions in JAX at the parameters' present values; None, with a warning, where JAX cannot."""
        return lower_to_jax(self._functions, self._names)


def _label_functions(functions: Functions, named: Mapping[str, cp.Constraint]) -> Iterator[tuple[str, cp.Expression]]:
    """Yield the functions with their names in error messages."""
    yield "the objective", functions.objective
    yield from zip((f"constraint {name!r}" for name in named), functions.constraints, strict=True)


def _explain_by_part(functions: Functions, named: Mapping[str, cp.Constraint]) -> ProblemError | None:
    """Find the part of a problem that has no cone form, and return the error that names it."""
    for what, expression in _label_functions(functions, named):
        try:
            reduce_to_cones(cp.Problem(cp.Minimize(cp.sum(expression))))
        except ProblemError as error:
            return ProblemError(f"{what} cannot be used: {error}")
    return None


def _check_without_signs(functions: Functions, named: Mapping[str, cp.Constraint]) -> None:
    """Check that convexity rests on no declared sign: images and auxiliary variables of lifted functions are free."""
    for what, expression in _label_functions(functions, named):
        if not expression.is_convex():
            own = {v.id for v in functions.auxiliary}
            signed = sorted(v.name() for v in expression.variables() if v.id in own)
            raise ProblemError(
                f"{what} is convex only because of the declared sign of {' or '.join(map(repr, signed))}, which bidual "
                f"states as a constraint of its own: write it so that it is convex for any sign, with cp.pos(...) "
                "around that variable for example"
            )


def _check_finite(program: ConvexProgram) -> None:
    image, main = program.image, program.main
    parts = (image.matrix.data, image.offset, main.c_y, main.c_u, main.G_y.data, main.G_u.data, main.h)
    if not (np.isfinite(main.offset) and all(np.all(np.isfinite(part)) for part in parts)):
        raise ProblemError(
            "the problem in cone form contains NaN or infinity, though it is written in finite numbers: scale them down"
        )
