"""`Problem`: a constrained problem over an embedding, declared in CVXPY."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import cvxpy as cp
import numpy as np
from cvxpy.atoms.atom import Atom
from cvxpy.constraints.nonpos import Inequality
from cvxpy.constraints.zero import Equality
from jaxtyping import Float

from bidual._base.brief import shorten
from bidual._base.errors import ProblemError
from bidual._base.html import format_html_table
from bidual.problem.convex import AbstractProgram
from bidual.problem.features.embedding import Embedding
from bidual.problem.modelling._auxiliary import add_declared_bounds
from bidual.problem.modelling._curvature import check_convex, check_finite
from bidual.problem.modelling._curved import CurvedProblem
from bidual.problem.modelling._limits import Limit, Line, read_limit
from bidual.problem.modelling._linear import LinearProblem
from bidual.problem.modelling._parameters import Value, hold_parameters

# CVXPY types the result of <= and == as possibly a plain bool.
Constraints = Mapping[str, cp.Constraint | bool] | Sequence[cp.Constraint | bool] | cp.Constraint


class Problem:
    """Minimise or maximise a convex function of the embedding subject to convex constraints on it.

    Args:
        objective: ``cp.Minimize(...)`` of a convex or ``cp.Maximize(...)`` of a concave expression.
        constraints: a dictionary from name to CVXPY constraint (``<=``, ``>=``, ``==``), or a sequence of
            constraints, named by their CVXPY label or else ``c0``, ``c1``, ...
        totals: names of signals whose expected totals are printed with a result, such as those of groups.

    Other continuous CVXPY variables may be part of the formulation (a point of a set, for example): the problem then
    minimises over them too. Convexity is checked here, once; ``cp.Parameter`` values are read on solving.
    """

    def __init__(
        self,
        objective: cp.Minimize | cp.Maximize,
        constraints: Constraints = (),
        *,
        totals: Sequence[str] = (),
    ) -> None:
        if not isinstance(objective, cp.Minimize | cp.Maximize):
            raise ProblemError(
                "the objective must be cp.Minimize(...) or cp.Maximize(...); "
                f"got {type(objective).__name__}: wrap the expression"
            )
        self.constraints = _name_constraints(constraints)
        named = add_declared_bounds(objective, self.constraints)
        self.objective = objective
        self.maximises = isinstance(objective, cp.Maximize)
        self.limits = tuple(_read(name, constraint) for name, constraint in named.items())
        self.embedding = _find_embedding(objective, named)
        self.totals = _check_totals(totals, self.embedding)
        self._constraints_by_name = named
        self._compiled = _compile(self, named)
        self._fixed = None if self.parameters else self._numbers()

    @property
    def parameters(self) -> dict[str, cp.Parameter]:
        """The CVXPY parameters of the problem, by name."""
        found = [*self.objective.parameters(), *(p for c in self._constraints_by_name.values() for p in c.parameters())]
        named: dict[str, cp.Parameter] = {}
        for parameter in found:
            if named.setdefault(parameter.name(), parameter) is not parameter:
                raise ProblemError(f"two parameters are called {parameter.name()!r}: give each its own name")
        return named

    def holding(self, values: Mapping[str, Value]) -> AbstractContextManager[None]:
        """Set parameters temporarily: ``with problem.holding({"budget": 0.2}):`` restores their values at the end."""
        return hold_parameters(self.parameters, values)

    def program(self) -> AbstractProgram:
        """Return the program: the problem in arrays, at the parameters' present values."""
        return self._fixed or self._numbers()

    def lines(self) -> tuple[Line, ...]:
        """Return the constraints as the user wrote them, at the parameters' present values."""
        return tuple(limit.line() for limit in self.limits)

    def _numbers(self) -> AbstractProgram:
        for name, parameter in self.parameters.items():
            if parameter.value is None:
                raise ProblemError(f"parameter {name!r} has no value: set {name}.value before solving")
        self.lines()  # a limit that is not finite is named here
        if self.parameters:
            for what, part in _label_parts(self.objective, self._constraints_by_name):
                check_finite(what, part)
        return self._compiled.program()

    def sum_signals(self, embedding: Float[np.ndarray, "..."]) -> dict[str, float]:
        """Compute the expected total over an episode of every signal, by name, from an embedding."""
        totals = embedding if self.embedding.total else embedding.sum(axis=0)
        parts = self.embedding.features.parts
        return {part.name: float(totals[part.position]) for part in parts if part.shape == ()}

    def _repr_html_(self) -> str:
        x = self.embedding
        parts = ", ".join(part.name for part in x.features.parts)
        whole = "totals" if x.total else "values by step"
        rows = [("objective", shorten(str(self.objective)))]
        rows += [(name, shorten(str(constraint))) for name, constraint in self.constraints.items()]
        return format_html_table("Problem", [*rows, ("embedding", f"{whole} over {x.horizon} steps: {shorten(parts)}")])

    def __repr__(self) -> str:
        names = ", ".join(limit.name for limit in self.limits) or "none"
        return f"Problem({shorten(str(self.objective), 200)}, constraints: {shorten(names, 150)})"


def _name_constraints(constraints: Constraints) -> dict[str, cp.Constraint]:
    """Return the constraints by name: those of a list are c0, c1, ..., or have labels."""
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
    left, right = constraint.args
    limit = read_limit(name, (left, right), equal=isinstance(constraint, Equality))
    if not any(parameter.value is None for parameter in limit.limit.parameters()):
        limit.line()  # a bad limit is the caller's mistake here, not later in solve
    return limit


def _find_embedding(objective: cp.Minimize | cp.Maximize, named: dict[str, cp.Constraint]) -> Embedding:
    """Return the one embedding of the problem; raise `ProblemError` for none or several."""
    variables = {v.id: v for part in (objective, *named.values()) for v in part.variables()}
    embeddings = [v for v in variables.values() if isinstance(v, Embedding)]
    if not embeddings:
        raise ProblemError(
            "neither the objective nor a constraint mentions an embedding: make one with mdp.embedding(...)"
        )
    if len(embeddings) > 1:
        raise ProblemError(
            f"the problem is written over {len(embeddings)} different embeddings; make one with all signals, "
            "mdp.embedding(reward=r, cost=c), and use its parts"
        )
    return embeddings[0]


def _check_totals(names: Sequence[str], x: Embedding) -> tuple[str, ...]:
    signals = [part.name for part in x.features.parts if part.shape == ()]
    for name in [names] if isinstance(names, str) else names:
        if name not in signals or isinstance(names, str):
            raise ProblemError(f"totals must list names of signals, of {signals}; got {name!r}")
    return tuple(names)


def _compile(problem: Problem, named: dict[str, cp.Constraint]) -> "LinearProblem | CurvedProblem":
    """Check the problem by CVXPY's rules and compile it, as a linear one where it is one."""
    for what, part in _label_parts(problem.objective, named):
        check_finite(what, part)
        check_convex(what, part)
        _check_form(what, part)
    expressions = [problem.objective.expr, *(side for constraint in named.values() for side in constraint.args)]
    only_embedding = all(isinstance(v, Embedding) for expression in expressions for v in expression.variables())
    if only_embedding and all(expression.is_affine() for expression in expressions):
        linear = LinearProblem(problem.objective, named, problem.embedding)
        if linear.is_plain:
            return linear
    return CurvedProblem(problem.objective, named, problem.embedding)


def _label_parts(
    objective: cp.Minimize | cp.Maximize, named: Mapping[str, cp.Constraint]
) -> Iterator[tuple[str, cp.Minimize | cp.Maximize | cp.Constraint]]:
    """Yield objective and constraints with their names in error messages."""
    yield "the objective", objective
    for name, constraint in named.items():
        yield f"constraint {name!r}", constraint


def _check_form(what: str, part: cp.Minimize | cp.Maximize | cp.Constraint) -> None:
    """Check that all numbers are real, and that parameters enter only where CVXPY can vary them."""
    if any(inner.is_complex() for side in part.args for inner in _split(side)):
        raise ProblemError(f"{what} is written in complex numbers: costs and limits must be real")
    if not part.is_dcp(dpp=True):
        names = ", ".join(repr(parameter.name()) for parameter in part.parameters())
        raise ProblemError(
            f"{what} uses the parameters {names} in a way that CVXPY cannot vary (it is not DPP): "
            "parameters may be limits or coefficients, not products or functions of each other"
        )


def _split(expression: cp.Expression) -> Iterator[cp.Expression]:
    yield expression
    if isinstance(expression, Atom):
        for argument in expression.args:
            yield from _split(argument)
