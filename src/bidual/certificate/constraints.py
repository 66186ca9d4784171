"""Certificates in the user's terms: a status, and constraints in their own names, senses and units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual._base.status import Status
from bidual.certificate import Certificate, Record, read_multipliers
from bidual.problem.convex import AbstractProgram
from bidual.problem.modelling import Line, slice_rows


class Goal(NamedTuple):
    """The gap, absolute or relative, that counts as closed; `floor` is what does whatever the size of the bounds."""

    gap: float
    relative: bool
    floor: float = 0.0

    def is_met(self, lower: float, upper: float) -> bool:
        """Return whether the bounds are close, from either side: crossing by more than the gap is no success."""
        return math.isfinite(lower) and math.isfinite(upper) and abs(upper - lower) <= self.allowed(lower, upper)

    def allowed(self, lower: float, upper: float) -> float:
        """Return the gap that counts as closed for bounds of this size."""
        return max(self.gap * max(abs(lower), abs(upper)), self.floor) if self.relative else self.gap

    def reduce_goal(self) -> "Goal":
        """Return the goal of a search: a certificate subtracts its rounding slack."""
        return Goal(0.99 * self.gap, self.relative, 0.99 * self.floor)

    def settled(self, lower: float | None, upper: float | None) -> "Goal":
        """Return the absolute gap that was asked for, given the certified bounds; a file keeps that."""
        if not self.relative or not self.floor or lower is None or upper is None:
            return self
        asked = self._replace(floor=0.0)  # the floor is named only where it is needed
        goal = asked if asked.is_met(lower, upper) else self
        return Goal(goal.allowed(lower, upper) * (1 + 1e-9), False)


def derive_status(program: AbstractProgram, certificate: Certificate, goal: Goal) -> Status:
    """Return the status that the certificate proves."""
    if certificate.conflict is not None and certificate.conflict > 0:
        return Status.INFEASIBLE
    if not certificate.feasible(program):
        return Status.UNDECIDED
    if certificate.lower is None:
        return Status.FEASIBLE
    return Status.OPTIMAL if goal.is_met(certificate.lower, certificate.upper) else Status.FEASIBLE


def derive_learned_status(certificate: Certificate, gap: float | None, goal: float | None) -> Status:
    """Return the status where bounds come from episodes, and hold without tolerances; `goal` is the requested gap."""
    if certificate.conflict is not None:
        return Status.INFEASIBLE
    if not np.all(certificate.violations_upper <= 0):
        return Status.UNDECIDED
    return Status.OPTIMAL if goal is not None and gap is not None and gap <= goal else Status.FEASIBLE


@final
@dataclass(frozen=True, eq=False)
class ConstraintResult:
    """A constraint at the solution, in the user's sense and units.

    A vector constraint is reported by its worst entry; `values`, `limits` and `prices` hold all of them.
    """

    name: str
    sense: str
    value: float
    limit: float
    violation: float
    violation_upper: float
    price: float | None  # gain of the optimum per unit of relaxation, all entries together; signed for ==
    values: Float[np.ndarray, "n"]
    limits: Float[np.ndarray, "n"]
    prices: Float[np.ndarray, "n"] | None
    tolerance: float = 0.0  # the violation that still counts as holding

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        keys = ("name", "sense", "value", "limit", "violation", "violation_upper", "price")
        return {key: getattr(self, key) for key in keys}


@final
@dataclass(frozen=True, eq=False)
class Conflict:
    """Constraints that no policy satisfies together: the reason why a problem is infeasible.

    Every policy violates at least one constraint in `least` by at least the amount given there.
    """

    least: dict[str, float]

    def __str__(self) -> str:
        names = [repr(name) for name in self.least]
        amounts = [f"{amount:.6g}" for amount in self.least.values()]
        if len(names) == 1:
            return f"constraint {names[0]} cannot hold: every policy violates it by at least {amounts[0]}"
        clash = f"constraints {', '.join(names[:-1])} and {names[-1]} cannot hold together"
        if len(set(amounts)) == 1:
            return f"{clash}: every policy violates one of them by at least {amounts[0]}"
        pairs = " or ".join(f"{name} by at least {amount}" for name, amount in zip(names, amounts, strict=True))
        return f"{clash}: every policy violates {pairs}"


def find_constraint(name: str, results: Sequence[ConstraintResult]) -> ConstraintResult:
    """Return the constraint called `name`."""
    for result in results:
        if result.name == name:
            return result
    raise KeyError(f"no constraint {name!r}; there are {[result.name for result in results]}")


def list_constraint_results(
    lines: Sequence[Line],
    certificate: Certificate,
    gamma: Float[np.ndarray, "m"] | None,
    tolerances: Float[np.ndarray, "m"] | None = None,
) -> tuple[ConstraintResult, ...]:
    """Return the constraints at the certified policy; `gamma` are the multipliers, where prices are reported."""
    results = []
    for line, rows in slice_rows(lines):
        g = certificate.g[rows]
        values = line.bounds + line.sign * g
        score = np.abs(g) if line.sense == "==" else g
        # The first of those that differ by rounding only: another order of sums must not name another entry.
        worst = int(np.argmax(score >= score.max() - 1e-11 * max(1.0, float(np.abs(line.bounds).max()))))
        # Relaxing an inequality always helps; for an equality the price is signed like the limit as written.
        prices = None if gamma is None else gamma[rows] * (line.sign if line.sense == "==" else 1.0)
        results.append(
            ConstraintResult(
                name=line.name,
                sense=line.sense,
                value=float(values[worst]),
                limit=float(line.bounds[worst]),
                violation=float(certificate.violations[rows].max()),
                violation_upper=float(certificate.violations_upper[rows].max()),
                price=None if prices is None else float(prices.sum()),
                values=values,
                limits=line.bounds,
                prices=prices,
                tolerance=0.0 if tolerances is None else float(tolerances[rows].max()),
            )
        )
    return tuple(results)


def find_conflict(
    lines: Sequence[Line], program: AbstractProgram, certificate: Certificate, record: Record
) -> Conflict | None:
    """Return the constraints with a multiplier, if the certificate proves that they clash."""
    if certificate.conflict is None:
        return None
    gamma, least = read_multipliers(program, record), {}
    for line, rows in slice_rows(lines):
        guilty = gamma[rows] != 0
        if guilty.any():
            least[line.name] = certificate.conflict * float(program.units[rows][guilty].min())
    return Conflict(least)
