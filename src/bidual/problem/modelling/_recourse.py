"""Functions that share auxiliary variables, as one function of the image each.

With variables v in the objective,  F(y) = min over v of f(y, v)  s.t.  the constraints that v is bound by; without,
G(y) = min over v of the worst violation of the constraints on v, in units. Both are convex in y; slopes and conjugates
come from the multipliers of these cone programs (`ConeFunction`). F needs values of v for every embedding (complete
recourse): constraints that leave none have a price, which is no slope of F.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import cvxpy as cp
import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import ProblemError
from bidual.problem.convex import AbstractFunction
from bidual.problem.modelling._functions import Functions

_MOST_CORNERS = 8  # numbers of an image whose corners are tried


@final
@dataclass(frozen=True, eq=False)
class Group:
    """Constraints that share auxiliary variables, and the objective where it has some of these."""

    functions: Functions
    objective: cp.Expression | None
    variables: tuple[cp.Variable, ...]
    constraints: tuple[int, ...]  # by number
    rows: Int[np.ndarray, "r"]  # of the scalar constraints

    @property
    def plain(self) -> bool:
        """Whether it is one constraint without auxiliary variables."""
        return not self.variables

    def problem(self, units: Float[np.ndarray, "m"]) -> cp.Problem:
        """Return the problem over the auxiliary variables whose least value is the function."""
        limits = [(self.functions.constraints[i], self.functions.equality[i]) for i in self.constraints]
        if self.objective is not None:
            return cp.Problem(cp.Minimize(self.objective), [g == 0 if equal else g <= 0 for g, equal in limits])
        t, start, members = cp.Variable(name="violation"), 0, []
        for g, equal in limits:
            unit = units[self.rows[start : start + g.size]]
            room = float(unit[0]) * t if g.shape == () else cp.multiply(unit.reshape(g.shape, order="F"), t)
            members += [g <= room, -g <= room] if equal else [g <= room]
            start += g.size
        return cp.Problem(cp.Minimize(t), [*members, t >= -1])  # more than one unit of room is of no use


def group_by_variables(functions: Functions) -> tuple[Group, list[Group]]:
    """Return the group of the objective (without one where it has no auxiliary variables), and those of the rest."""
    used = [_list_auxiliary(functions, expression) for expression in (functions.objective, *functions.constraints)]
    owners = _connect(used)
    starts = np.cumsum([0, *(g.size for g in functions.constraints)])
    names = {v.id: v for v in functions.auxiliary}

    def make_group(members: Sequence[int]) -> Group:
        constraints = tuple(i - 1 for i in members if i > 0)
        rows = [np.arange(starts[i], starts[i + 1]) for i in constraints]
        ids = set().union(*(used[i] for i in members))
        return Group(
            functions,
            functions.objective if 0 in members and used[0] else None,
            tuple(v for i, v in names.items() if i in ids),
            constraints,
            np.concatenate([*rows, np.zeros(0, dtype=int)]).astype(int),
        )

    sets: dict[int, list[int]] = {}
    for i, owner in enumerate(owners):
        sets.setdefault(owner, []).append(i)
    own = sets.pop(owners[0])
    return make_group(own), [make_group(members) for members in sets.values()]


def _list_auxiliary(functions: Functions, expression: cp.Expression) -> set[int]:
    return {v.id for v in expression.variables()} & {v.id for v in functions.auxiliary}


def _connect(used: Sequence[set[int]]) -> list[int]:
    """Return for every function the first one that it is connected with by shared variables."""
    owners = list(range(len(used)))
    for i in range(len(used)):
        for j in range(i):
            if used[i] & used[j] and owners[i] != owners[j]:
                first, last = sorted((owners[i], owners[j]))
                owners = [first if owner == last else owner for owner in owners]
    return owners


def check_recourse(f: AbstractFunction, group: Group) -> None:
    """Raise where the objective has no finite value at the middle or a corner of the images: then it has no slope."""
    lower, upper = f.K.bounds
    points = [f.K.center]
    if lower.size <= _MOST_CORNERS:
        points += [np.where(np.array(bits, dtype=bool), upper, lower) for bits in np.ndindex(*(2,) * lower.size)]
    names = ", ".join(repr(v.name()) for v in group.variables)
    for point in points:
        try:
            f.value(point)
        except ProblemError as error:
            raise ProblemError(
                f"this dual player needs an objective that is finite for every policy, and no values of {names} keep "
                f"the constraints on them for some ({error}): let these variables exceed the constraints at a price in "
                "the objective, or use the default, the corrective player"
            ) from error
