"""`Solution`: the policy, its certified bounds, and their printed form."""

import abc
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.names import Names
from bidual._base.status import Status
from bidual.certificate import Evidence
from bidual.certificate.constraints import Conflict, ConstraintResult, Goal
from bidual.problem.modelling import Line, Value
from bidual.solving.outcome import AbstractOutcome, Records
from bidual.storage import save
from bidual.world.policies import MarkovPolicy, Mixture


@final
@dataclass(frozen=True, eq=False)
class Progress:
    """The bounds of a solve after a plan, in the user's sense; None where nothing is known yet."""

    plans: int
    lower: float | None
    upper: float | None
    violation: float
    seconds: float

    @property
    def gap(self) -> float | None:
        """The difference upper - lower."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower


class AbstractSession(abc.ABC):
    """The reusable state of a solve, from which the next one starts."""

    @abc.abstractmethod
    def resolve(self, values: Mapping[str, Value]) -> "Solution":
        """Solve the same problem with other values of its parameters."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Solution(AbstractOutcome):
    """The result of `solve`.

    `lower` and `upper` enclose the optimum. Minimising, `lower` is the bound that no policy can beat and `upper` the
    guaranteed value of this policy; maximising, the other way round. A bound that is not proved is None: the policy's
    side while it is not proved feasible, both where the problem is infeasible. Limits count as satisfied within the
    `tolerance` of each constraint: for linear ones a billionth of the limit, at most of what the constraint can pay, or
    what arithmetic can tell. `goal` is the gap that was asked for, in numbers.
    """

    status: Status
    sense: str
    value: float
    lower: float | None
    upper: float | None
    constraints: tuple[ConstraintResult, ...]
    conflict: Conflict | None
    policy: MarkovPolicy
    mixture: Mixture
    embedding: Float[np.ndarray, "..."]
    visits: Float[np.ndarray, "H S"]
    history: tuple[Progress, ...]
    plans: int
    seconds: float
    evidence: Evidence
    lines: tuple[Line, ...]
    goal: Goal
    task: str | None = None
    totals: Mapping[str, float] = field(default_factory=dict)  # expected, of every signal
    reported: tuple[str, ...] = ()  # signals whose totals are printed
    _session: AbstractSession | None = field(default=None, repr=False)

    def resolve(self, /, **values: Any) -> "Solution":  # noqa: ANN401 - run-time checks see the keywords as one dict
        """Solve again with other values of the problem's parameters, starting from the plans of this solution.

        ``solution.resolve(budget=0.2)`` sets the ``cp.Parameter`` named ``budget`` for the call and restores its own
        value afterwards. Parameters that are not named keep the values this solution was solved with. Gap, limits
        and players are those of the first solve, and the answer passes the same independent check.
        """
        if self._session is None:
            raise ProblemError("this solution was not made by solve, so there is nothing to start from: solve again")
        if not values:
            raise ProblemError("resolve wants at least one parameter by name, as in solution.resolve(budget=0.2)")
        return replace(self._session.resolve(values), task=self.task)

    def to_dict(self) -> dict[str, Any]:
        """Return the solution as plain JSON values; unknown values are None."""
        return self._list_entries(None, None, None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write policy, model, problem and certificate to one file, for `bd.load` and `bidual check`."""
        save(path, self.evidence, self.lines, self.goal, self.to_dict())

    @property
    def _names(self) -> Names:
        return self.policy.names

    def _list_history(self) -> Records:
        return self.history, ("plans", "lower", "upper", "gap", "violation", "seconds")

    def _write_title(self) -> str:
        return f"{self.status}: {self.status.message}"

    def _summarise(self) -> list[tuple[str, str]]:
        return self._list_facts()

    def _list_facts(self) -> list[tuple[str, str]]:
        """List all lines below the title."""
        facts = [] if self.conflict is None else [("conflict", str(self.conflict))]
        facts += [("undecided", text) for text in self._describe_doubt()]
        facts += [("objective", self._describe_objective())]
        facts += [("certificate", text) for text in self._describe_certificate()]
        facts += [("constraint", _describe_constraint(constraint)) for constraint in self.constraints]
        facts += self._describe_totals()
        facts += [("next", text) for text in self._suggest()]
        facts += [("policy", self._describe_policy())]
        facts += [("effort", f"{self.plans} plan{'' if self.plans == 1 else 's'}, {self.seconds:.2f} s")]
        return facts

    def _describe_doubt(self) -> list[str]:
        """Say what is missing for a verdict: neither within the tolerance nor proved to be out of reach."""
        if self.status is not Status.UNDECIDED or not self.constraints:
            return []
        worst = max(self.constraints, key=lambda c: c.violation_upper / max(c.tolerance, 1e-300))
        text = (
            f"the least violation of {worst.name!r} lies between 0 and {worst.violation_upper:.2g}; "
            f"{worst.tolerance:.2g} would count as none"
        )
        near = worst.violation_upper <= 1e3 * worst.tolerance
        further = "; search longer (a larger max_plans or time_limit, --plans or --time-limit)"
        return [text + (", so the limit is within rounding of what can be kept" if near else further)]

    def _suggest(self) -> list[str]:
        """Predict how many more plans would close the gap, from the rate at which it has fallen so far."""
        gap, allowed = self.gap, self.goal.allowed(self.lower or 0.0, self.upper or 0.0)
        known = [(one.plans, one.gap) for one in self.history if one.gap is not None and one.gap > 0]
        if self.status is not Status.FEASIBLE or gap is None or min(gap, allowed) <= 0 or len(known) < 2:
            return []
        (first, before), (last, after) = known[0], known[-1]
        rate = math.log(before / after) / max(last - first, 1)
        if rate <= 0:
            return [f"the gap did not fall in {last - first} plans: more of them may not close it"]
        more = math.ceil(max(math.log(gap / allowed), 0.0) / rate) + 1
        total = self.plans + more
        return [f"about {more} more plans close the gap, if it falls as so far: max_plans={total}, --plans {total}"]

    def _describe_policy(self) -> str:
        members, kind = self.mixture.members, "stationary" if self.policy.stationary else "Markov"
        if len(members) > 1:
            return f"one randomised {kind} policy, the same as a mixture of {len(members)} plans"
        drawn = any(isinstance(member, MarkovPolicy) for member in members)
        return f"one randomised {kind} policy" if drawn else f"one {kind} policy, not randomised"

    def _describe_objective(self) -> str:
        whose = {
            Status.INFEASIBLE: "at the policy with the least violation found",
            Status.UNDECIDED: "at the best policy found, which is not shown to be feasible",
        }.get(self.status, "reached by the policy")
        return f"{self.sense}: {_format(self.value)} {whose}"

    def _describe_certificate(self) -> list[str]:
        side, bound = ("above", self.upper) if self.sense == "maximize" else ("below", self.lower)
        if bound is None:
            return []
        distance = "" if self.gap is None else f": at most {self.gap:.2g} from optimal"
        return [f"no feasible policy can be {side} {_format(bound)}{distance}"]


def _describe_constraint(c: ConstraintResult) -> str:
    entries = f" (worst of {c.values.size} entries)" if c.values.size > 1 else ""
    verdict = "violated by" if c.violation > c.tolerance else "holds; violation at most"
    text = f"{c.name}: {_format(c.value)} {c.sense} {_format(c.limit)}{entries}, {verdict} {c.violation_upper:.2g}"
    return text if c.price is None else f"{text}; price {c.price:.5g} per unit of limit"


def _format(value: float) -> str:
    """Format with nine digits, the resolution of a gap of 1e-6 and a tolerance of 1e-9."""
    return f"{value + 0.0:.9g}"
