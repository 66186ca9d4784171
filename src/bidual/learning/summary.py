"""Estimates and bounds in the user's terms: a status, intervals and assumptions, in their names, senses and units."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from bidual._base.brief import describe_briefly
from bidual._base.status import Status
from bidual.certificate import Certificate
from bidual.certificate.constraints import (
    Conflict,
    ConstraintResult,
    derive_learned_status,
    find_conflict,
    list_constraint_results,
)
from bidual.learning.outputs import DualBound, Estimates, ReturnedPolicy
from bidual.learning.setup import LearnSetup, features_over
from bidual.models import AbstractKnowledge
from bidual.problem.modelling import slice_rows
from bidual.world.policies import AbstractPolicy, Mixture, Played, find_distinct

UNIFORM, LAST_HALF = "uniform mixture", "last-half mixture"  # of the plans
BEHAVIOUR = "behaviour mixture"  # of the policies that were run, where these had a random action


@final
@dataclass(frozen=True)
class Interval:
    """A mean over episodes and an interval of the expectation; None where no bound is claimed on that side."""

    value: float
    lower: float | None
    upper: float | None

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return f"{self.value:.6g} on average, no interval is claimed"
        # Six digits of the largest: an end at 0 is known up to rounding, and -2e-08 would not be readable.
        ends = [end for end in (self.lower, self.upper) if end is not None]
        digits = 5 - math.floor(math.log10(max(map(abs, [self.value, *ends])) or 1.0))
        low, high = (("?" if end is None else f"{round(end, digits) + 0.0:.6g}") for end in (self.lower, self.upper))
        return f"{self.value:.6g} in [{low}, {high}]"


@final
@dataclass(frozen=True, eq=False)
class Output:
    """A returned policy with the estimates from its own episodes, in the user's sense and units."""

    __repr__ = describe_briefly

    name: str
    policy: AbstractPolicy
    objective: Interval
    constraints: dict[str, Interval]  # by name; a vector constraint by its worst entry
    episodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the output as plain JSON values; an end that is not claimed is None."""
        intervals = {"objective": self.objective, **self.constraints}
        values = {name: [one.value, one.lower, one.upper] for name, one in intervals.items()}
        return {"name": self.name, "episodes": self.episodes, "intervals": values}

    def __str__(self) -> str:
        parts = [f"objective {self.objective}", *(f"{name} {interval}" for name, interval in self.constraints.items())]
        return f"{self.name}: {', '.join(parts)} ({self.episodes} episodes)"


class Summary(NamedTuple):
    """The certified facts about the policy that learning returns."""

    status: Status
    value: float
    lower: float | None
    upper: float | None
    constraints: tuple[ConstraintResult, ...]
    conflict: Conflict | None


def summarise(
    setup: LearnSetup,
    dual_bound: DualBound,
    returned: ReturnedPolicy,
    estimates: Estimates,
    *,
    goal: float | None = None,
) -> Summary:
    """Derive status, bounds and constraints of the policy."""
    over, g = setup.over(estimates), estimates.mean[1:]
    certificate = Certificate(
        value=float(estimates.mean[0]),
        upper=float(estimates.upper[0]),
        lower=dual_bound.lower,
        conflict=dual_bound.conflict,
        g=g,
        violations=setup.program.violations(g),
        violations_upper=over,
        embedding=returned.embedding,
        visits=returned.visits,
    )
    lines = setup.problem.lines()
    conflict = None
    if dual_bound.record is not None and dual_bound.conflict is not None:
        conflict = find_conflict(lines, setup.program, certificate, dual_bound.record)
    pays = certificate.upper if np.isfinite(certificate.upper) else None
    ends = (None if end is None else setup.sense * end for end in (dual_bound.lower, pays))
    lower, upper = ends if setup.sense > 0 else reversed(list(ends))
    gap = None if lower is None or upper is None else upper - lower
    return Summary(
        status=derive_learned_status(certificate, gap, goal),
        value=float(setup.sense * estimates.mean[0]) + 0.0,
        lower=lower,
        upper=upper,
        constraints=list_constraint_results(lines, certificate, returned.gamma),
        conflict=conflict,
    )


def list_constraints_at(setup: LearnSetup, estimates: Estimates) -> tuple[ConstraintResult, ...]:
    """Return the constraints of a policy of which only estimates are known."""
    g, nothing = estimates.mean[1:], np.zeros((0, 0))
    certificate = Certificate(
        value=float(estimates.mean[0]),
        upper=float(estimates.upper[0]),
        lower=None,
        conflict=None,
        g=g,
        violations=setup.program.violations(g),
        violations_upper=setup.over(estimates),
        embedding=nothing,
        visits=nothing,
    )
    return list_constraint_results(setup.problem.lines(), certificate, None)


def describe_output(setup: LearnSetup, name: str, policy: AbstractPolicy, estimates: Estimates) -> Output:
    """A policy with its intervals."""
    constraints, parts = {}, (estimates.mean, estimates.lower, estimates.upper)
    for line, rows in slice_rows(setup.problem.lines()):
        g = estimates.mean[1:][rows]
        worst = int(np.argmax(np.abs(g) if line.sense == "==" else g))
        numbers = [part[1:][rows][worst] for part in parts]
        constraints[line.name] = _make_interval(*(line.bounds[worst] + line.sign * number for number in numbers))
    objective = _make_interval(*(setup.sense * part[0] for part in parts))
    return Output(name, policy, objective, constraints, estimates.episodes)


def _make_interval(value: float, *ends: float) -> Interval:
    low, high = sorted(float(end) for end in ends)
    return Interval(float(value) + 0.0, low if np.isfinite(low) else None, high if np.isfinite(high) else None)


def describe_constraint(c: ConstraintResult, seen: Interval) -> str:
    """Describe a constraint at a policy: its estimate, its limit, and the bound on its violation."""
    entries = f" (worst of {c.values.size} entries)" if c.values.size > 1 else ""
    claim = "holds" if c.violation_upper <= 0 else f"violated by at most {c.violation_upper:.3g}"
    if not np.isfinite(c.violation_upper):
        claim = "no bound on the violation is claimed"
    price = "" if c.price is None else f"; price about {c.price:.3g} per unit of limit"
    return f"{c.name}: {seen} {c.sense} {c.limit:.6g}{entries}: {claim}{price}"


def mix_policies(policies: Iterable[Played]) -> Mixture:
    """Return the uniform mixture of the policies of single episodes, each distinct one once.

    Distinct by their actions: a restored run has its policies as other objects.
    """
    members, order = find_distinct(policies)
    weights = np.bincount(order, minlength=len(members)).astype(np.float64)
    return Mixture(weights / weights.sum(), tuple(members))


def describe_exploration(setup: LearnSetup) -> str:
    """Return how episodes were chosen, and what is proved of that."""
    return setup.knowledge.exploration(setup.explorer.guarantee)


def describe_assumptions(setup: LearnSetup, knowledge: AbstractKnowledge) -> tuple[str, ...]:
    """Describe the assumptions of the bounds."""
    observed, split = features_over(setup.env, setup.problem).observed, setup.split
    numbering = () if setup.env.numbering is None else setup.env.numbering.assumptions()
    return numbering + knowledge.assumptions(setup.program, [name for name, _ in observed], split.delta, split.model)
