"""Problems with curvature or auxiliary variables: functions of affine images, and their cone forms."""

from collections.abc import Iterator, Mapping
from functools import cached_property

import cvxpy as cp
import numpy as np
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual.convex import AbstractSmooth, ConicForm, ConvexProgram, Image
from bidual.features.embedding import Embedding
from bidual.problem._compile import cone_program, conic_form, image_of, pieces_program
from bidual.problem._functions import Functions
from bidual.problem._lift import lift
from bidual.problem._lower import Held, Lowered, Smooth, lowered, smooth

# From so many numbers in an image on, derivatives are worth compiling: a cone master over it is slow.
_HIGH_DIMENSION = 48


class Relaxed:
    """The worst violation t, in units, to be minimised instead of the objective; equalities may be kept as they are."""

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
        self._cone = cone_program(cp.Problem(cp.Minimize(self._t), rows))

    def _group(self, g: cp.Expression, unit: cp.Parameter, equal: bool, keep: bool) -> list[cp.Constraint]:
        room = unit * self._t if g.shape == () else cp.multiply(unit, self._t)
        if not equal:
            return [g <= room]
        return [g == 0] if keep else [g <= room, -g <= room]

    def form(self, units: Float[np.ndarray, "m"]) -> ConicForm:
        """The cone form in these units."""
        start = 0
        for parameter in self._units:
            parameter.value = units[start : start + parameter.size].reshape(parameter.shape, order="F")
            start += parameter.size
        return conic_form(self._cone, self._groups, self._functions.images, self._functions.auxiliary)


class Forms:
    """The cone forms of functions of images, compiled once: the problem itself and its relaxations."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        limits = zip(functions.constraints, functions.equality, strict=True)
        self._constraints: list[cp.Constraint] = [g == 0 if equal else g <= 0 for g, equal in limits]
        self._cone = cone_program(cp.Problem(cp.Minimize(functions.objective), self._constraints))
        equal = functions.equality
        self._violation = Relaxed(functions, keep_equalities=False) if equal else None
        self._margin = Relaxed(functions, keep_equalities=True) if any(equal) and not all(equal) else None

    def program(self, image: Image) -> ConvexProgram:
        """The arrays, with the parameters' values of this moment."""
        functions = self._functions
        frozen = functions.frozen()
        main = conic_form(self._cone, [[c] for c in self._constraints], functions.images, functions.auxiliary)
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
        """Compiled once for all values of the parameters, where they enter smoothly; else for these."""
        compiled, parameters = self._opened
        if compiled is None or not parameters:
            return compiled or smooth(frozen)
        values = [np.asarray(parameter.value, dtype=np.float64).ravel(order="F") for parameter in parameters]
        return Held(compiled, np.concatenate(values))

    @cached_property
    def _opened(self) -> tuple[Smooth | None, tuple[cp.Parameter, ...]]:
        functions, parameters = self._functions.opened()
        return smooth(functions), parameters


class Curved:
    """A convex problem, compiled once; `program` fills in the parameters."""

    def __init__(
        self, objective: cp.Minimize | cp.Maximize, named: Mapping[str, cp.Constraint], embedding: Embedding
    ) -> None:
        self._embedding = embedding
        self._names = tuple(named)
        self._functions, self._pieces = lift(objective, list(named.values()))
        _check_without_signs(self._functions, named)
        self._rows = pieces_program(self._pieces)
        try:
            self._forms = Forms(self._functions)
        except ProblemError as error:
            raise _of_one_part(self._functions, named) or error from error

    def program(self) -> ConvexProgram:
        """The arrays, with the parameters' values of this moment."""
        return self._forms.program(image_of(self._pieces, self._embedding, self._rows))

    def lowered(self) -> Lowered | None:
        """In JAX, with the parameters' values of this moment; None, with a warning, where that cannot be."""
        return lowered(self._functions, self._names)


def _called(functions: Functions, named: Mapping[str, cp.Constraint]) -> Iterator[tuple[str, cp.Expression]]:
    """The functions, each as an error calls it."""
    yield "the objective", functions.objective
    yield from zip((f"constraint {name!r}" for name in named), functions.constraints, strict=True)


def _of_one_part(functions: Functions, named: Mapping[str, cp.Constraint]) -> ProblemError | None:
    """The reason why a problem has no cone form, said of the part that has none."""
    for what, expression in _called(functions, named):
        try:
            cone_program(cp.Problem(cp.Minimize(cp.sum(expression))))
        except ProblemError as error:
            return ProblemError(f"{what} cannot be used: {error}")
    return None


def _check_without_signs(functions: Functions, named: Mapping[str, cp.Constraint]) -> None:
    """The images and auxiliary variables of lifted functions are free; convexity must not rest on a declared sign."""
    for what, expression in _called(functions, named):
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
