"""`Problem`: a constrained problem over an embedding, declared in CVXPY."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.constraints.nonpos import Inequality
from cvxpy.constraints.zero import Equality
from cvxpy.error import DCPError
from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg
from cvxpy.settings import PARAM_PROB
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual.convex import AffineProgram, affine_program
from bidual.features.embedding import Embedding

# CVXPY types the result of <= and == as possibly a plain bool.
Constraints = Mapping[str, cp.Constraint | bool] | Sequence[cp.Constraint | bool] | cp.Constraint
Sense = Literal["<=", ">=", "=="]


class Line(NamedTuple):
    """A constraint as the user wrote it: value `sense` bounds, entry by entry.

    In the solver's form each entry is ``sign * (value - bound) <= 0`` (or == 0).
    """

    name: str
    sense: Sense
    sign: float
    bounds: Float[np.ndarray, "n"]  # in CVXPY's column order


class Limit(NamedTuple):
    """A constraint as CVXPY holds it, its two sides put back in the user's order."""

    name: str
    sense: Sense
    sign: float
    value: cp.Expression
    limit: cp.Expression
    shape: tuple[int, ...]

    def line(self) -> Line:
        """The constraint with its limits as numbers, at the parameters' present values."""
        bounds = np.broadcast_to(np.asarray(self.limit.value, dtype=np.float64), self.shape).ravel(order="F")
        if not np.all(np.isfinite(bounds)):
            raise ProblemError(
                f"constraint {self.name!r} has the limit {bounds[~np.isfinite(bounds)][0]}: "
                "a limit must be a finite number (0 is fine); drop the constraint if there is none"
            )
        return Line(self.name, self.sense, self.sign, bounds)


class Problem:
    """Minimise or maximise a function of the embedding subject to constraints on it.

    Args:
        objective: ``cp.Minimize(...)`` or ``cp.Maximize(...)``.
        constraints: a dictionary from name to CVXPY constraint (``<=``, ``>=``, ``==``), or a sequence of
            constraints, named by their CVXPY label or else ``c0``, ``c1``, ...

    Convexity is checked here, once. This release solves problems that are linear in the embedding.
    ``cp.Parameter`` values are read when the problem is solved.
    """

    def __init__(
        self,
        objective: cp.Minimize | cp.Maximize,
        constraints: Constraints = (),
    ) -> None:
        if not isinstance(objective, cp.Minimize | cp.Maximize):
            raise ProblemError(
                "the objective must be cp.Minimize(...) or cp.Maximize(...); "
                f"got {type(objective).__name__}: wrap the expression"
            )
        named = _named(constraints)
        self.objective = objective
        self.maximises = isinstance(objective, cp.Maximize)
        self.limits = tuple(_read(name, constraint) for name, constraint in named.items())
        self.embedding = _find_embedding(objective, named)
        self._constraints = tuple(named.values())
        self._cone = _compile(objective, named)
        self._fixed = None if self.parameters else self._rows()

    @property
    def parameters(self) -> dict[str, cp.Parameter]:
        """The CVXPY parameters of the problem, by name."""
        found = [*self.objective.parameters(), *(p for c in self._constraints for p in c.parameters())]
        named: dict[str, cp.Parameter] = {}
        for parameter in found:
            if named.setdefault(parameter.name(), parameter) is not parameter:
                raise ProblemError(f"two parameters are called {parameter.name()!r}: give each its own name")
        return named

    def program(self) -> AffineProgram:
        """The problem as rows over the embedding, with the parameters' values of this moment."""
        return self._fixed or self._rows()

    def lines(self) -> tuple[Line, ...]:
        """The constraints as the user wrote them, with the parameters' values of this moment."""
        return tuple(limit.line() for limit in self.limits)

    def _rows(self) -> AffineProgram:
        for name, parameter in self.parameters.items():
            if parameter.value is None:
                raise ProblemError(f"parameter {name!r} has no value: set {name}.value before solving")
        self.lines()
        program = affine_program(
            self._cone,
            [constraint.id for constraint in self._constraints],
            [constraint.size for constraint in self._constraints],
            horizon=self.embedding.horizon,
            total=self.embedding.total,
        )
        self._check_finite(program)
        return program

    def _check_finite(self, program: AffineProgram) -> None:
        advice = "contains NaN or infinity: every coefficient must be finite"
        if not (np.isfinite(program.offset) and np.all(np.isfinite(program.objective))):
            raise ProblemError(f"the objective {advice}")
        finite = np.isfinite(program.limits) & np.all(np.isfinite(program.rows), axis=(1, 2))
        owners = np.repeat([limit.name for limit in self.limits], [c.size for c in self._constraints])
        if not finite.all():
            raise ProblemError(f"constraint {str(owners[~finite][0])!r} {advice}")

    def __repr__(self) -> str:
        names = ", ".join(limit.name for limit in self.limits) or "none"
        return f"Problem({self.objective}, constraints: {names})"


def _named(constraints: Constraints) -> dict[str, cp.Constraint]:
    if isinstance(constraints, cp.Constraint):
        constraints = [constraints]
    if not isinstance(constraints, Mapping | Sequence):
        raise ProblemError(f"constraints must be a dictionary or a list; got {type(constraints).__name__}")
    if isinstance(constraints, Mapping):
        pairs = [(str(name), constraint) for name, constraint in constraints.items()]
    else:
        pairs = [(getattr(c, "label", None) or f"c{i}", c) for i, c in enumerate(constraints)]
    named: dict[str, cp.Constraint] = {}
    for name, constraint in pairs:
        if isinstance(constraint, bool | np.bool_):
            raise ProblemError(
                f"constraint {name!r} is the plain truth value {bool(constraint)}: both sides were numbers, "
                "so it does not mention the embedding"
            )
        if isinstance(constraint, Inequality | Equality) and constraint.size == 0:
            raise ProblemError(f"constraint {name!r} has no entries: its expression is empty")
        if not isinstance(constraint, Inequality | Equality):
            raise ProblemError(
                f"constraint {name!r} must be written with <=, >= or ==; got {type(constraint).__name__}"
            )
        if not name.isprintable():
            raise ProblemError(f"constraint name {name!r} contains control characters: use printable text")
        if name in named:
            raise ProblemError(f"two constraints are called {name!r}: give each its own name")
        if any(constraint is other for other in named.values()):
            raise ProblemError(f"constraint {name!r} was given twice, under two names: drop one of them")
        named[name] = constraint
    return named


def _read(name: str, constraint: cp.Constraint) -> Limit:
    """Undo CVXPY's normal form: it stores ``a >= b`` as ``b <= a``."""
    left, right = constraint.args
    sense = "==" if isinstance(constraint, Equality) else "<="
    if right.is_constant():
        limit = Limit(name, sense, 1.0, left, right, constraint.shape)
    elif left.is_constant():
        limit = Limit(name, ">=" if sense == "<=" else sense, -1.0, right, left, constraint.shape)
    else:
        limit = Limit(name, sense, 1.0, left - right, cp.Constant(0), constraint.shape)
    if not any(parameter.value is None for parameter in limit.limit.parameters()):
        limit.line()  # a bad limit is the caller's mistake here, not later in solve
    return limit


def _find_embedding(objective: cp.Minimize | cp.Maximize, named: dict[str, cp.Constraint]) -> Embedding:
    variables = {v.id: v for part in (objective, *named.values()) for v in part.variables()}
    embeddings = [v for v in variables.values() if isinstance(v, Embedding)]
    others = [v.name() for v in variables.values() if not isinstance(v, Embedding)]
    if not embeddings:
        raise ProblemError(
            "neither the objective nor a constraint mentions an embedding: make one with mdp.embedding(...)"
        )
    if len(embeddings) > 1:
        raise ProblemError(
            f"the problem is written over {len(embeddings)} different embeddings; make one with all signals, "
            "mdp.embedding(reward=r, cost=c), and use its parts"
        )
    if others:
        raise ProblemError(
            f"variable {others[0]!r} is not part of the embedding; auxiliary variables are not supported yet"
        )
    return embeddings[0]


def _compile(objective: cp.Minimize | cp.Maximize, named: dict[str, cp.Constraint]) -> ParamConeProg:
    _check_linear("the objective", objective, objective.expr)
    for name, constraint in named.items():
        _check_linear(f"constraint {name!r}", constraint, *constraint.args)
    problem = cp.Problem(objective, list(named.values()))
    if not problem.is_dpp():
        raise ProblemError(
            "a cp.Parameter enters the problem in a way that CVXPY cannot vary (it is not DPP): "
            "parameters may be limits or coefficients, not products or functions of each other"
        )
    data, _, _ = problem.get_problem_data(cp.CLARABEL, canon_backend=cp.SCIPY_CANON_BACKEND, solver_opts={})
    return data[PARAM_PROB]


def _check_linear(what: str, part: cp.Minimize | cp.Maximize | cp.Constraint, *expressions: cp.Expression) -> None:
    if not part.is_dcp():
        alone = cp.Problem(cp.Minimize(0), [part]) if isinstance(part, cp.Constraint) else cp.Problem(part)
        try:
            alone.get_problem_data(cp.CLARABEL, canon_backend=cp.SCIPY_CANON_BACKEND, solver_opts={})
            reason = str(part)
        except DCPError as error:
            reason = str(error)
        raise ProblemError(
            f"{what} is not convex by CVXPY's rules (DCP), so no bound could be certified.\n{reason}\n"
            "Minimise convex or maximise concave expressions; write constraints as convex <= concave."
        )
    for expression in expressions:
        if not expression.is_affine():
            raise ProblemError(
                f"{what} is convex but not linear in the embedding: {expression}. "
                "This release solves linear objectives and constraints."
            )
