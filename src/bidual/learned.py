"""`Learned`: what learning returns: policies, what is known of each of them, and what the bounds rest on."""

import abc
import html
import math
import os
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bidual._errors import ProblemError
from bidual._status import Status
from bidual._version import __version__
from bidual.constraints import Conflict, ConstraintResult
from bidual.mdp import TabularMDP
from bidual.models import AbstractKnowledge, Candidates
from bidual.outputs import Regret
from bidual.policies import AbstractPolicy, ControlPolicy, DecodedPolicy, MarkovPolicy, Mixture, Played


@final
@dataclass(frozen=True)
class Interval:
    """A mean over episodes and where the expectation lies; None where nothing is claimed on that side."""

    value: float
    lower: float | None
    upper: float | None

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return f"{self.value:.6g} on average, no interval is claimed"
        # Six digits of the largest: an end at 0 is known up to what rounding can do, and nobody reads -2e-08.
        ends = [end for end in (self.lower, self.upper) if end is not None]
        digits = 5 - math.floor(math.log10(max(map(abs, [self.value, *ends])) or 1.0))
        low, high = (("?" if end is None else f"{round(end, digits) + 0.0:.6g}") for end in (self.lower, self.upper))
        return f"{self.value:.6g} in [{low}, {high}]"


@final
@dataclass(frozen=True, eq=False)
class Output:
    """A policy that learning offers, with what its own episodes say about it, in the user's sense and units."""

    name: str
    policy: AbstractPolicy
    objective: Interval
    constraints: dict[str, Interval]  # by name; a vector constraint by its worst entry
    episodes: int

    def __str__(self) -> str:
        parts = [f"objective {self.objective}", *(f"{name} {interval}" for name, interval in self.constraints.items())]
        return f"{self.name}: {', '.join(parts)} ({self.episodes} episodes)"


@final
@dataclass(frozen=True)
class Look:
    """Where learning stood after some episodes, in the user's sense; None where nothing was known yet.

    `bound` is what no feasible policy can beat, `reached` what the mixture of the policies run so far is shown to
    reach, and `violation` how much that mixture is shown to violate at most. `candidates` says how many are left of a
    finite class of laws.
    """

    episodes: int
    bound: float | None
    reached: float | None
    violation: float | None
    plans: int
    seconds: float
    candidates: Candidates | None = None

    @property
    def gap(self) -> float | None:
        """Between what no policy can beat and what the mixture reaches."""
        return None if self.bound is None or self.reached is None else abs(self.bound - self.reached)


@final
@dataclass(frozen=True, eq=False)
class Paid:
    """What every episode paid, by name ("objective", or a constraint), in the user's sense and units.

    Single episodes do not pay what is not linear: of the names in `averaged` it is the value at the mean of all
    episodes so far. Nothing is certified by these numbers.
    """

    values: dict[str, Float[np.ndarray, "n"]]
    averaged: tuple[str, ...] = ()


class AbstractLearning(abc.ABC):
    """What a run leaves behind, so that more episodes can be spent."""

    @abc.abstractmethod
    def certify(self, solution: "Learned", episodes: int) -> "Learned":
        """Evaluate the policy on fresh episodes."""

    @abc.abstractmethod
    def save(self, solution: "Learned", path: str | os.PathLike[str]) -> None:
        """Write what was seen and what is claimed of it to one file."""

    @abc.abstractmethod
    def regret(self, solution: "Learned", truth: TabularMDP) -> Regret:
        """What the policies that were run would have paid in another model, against its optimum."""


@final
@dataclass(frozen=True, eq=False)
class Learned:
    """What `learn` returns.

    With probability 1 - delta all of its bounds hold at once: minimising, no policy that keeps the constraints can be
    below `lower`, and `policy` pays at most `upper`; maximising, the other way round. `gap` is their distance: how far
    from optimal the policy can be at most, once it is shown to keep the constraints. None: not shown.
    """

    status: Status
    sense: str
    value: float
    lower: float | None
    upper: float | None
    constraints: tuple[ConstraintResult, ...]
    conflict: Conflict | None
    outputs: tuple[Output, ...]
    model: TabularMDP | None  # None where it has no finite states: see `knowledge`
    knowledge: AbstractKnowledge
    embedding: Float[np.ndarray, "..."]  # of the policy, in the learned model
    visits: Float[np.ndarray, "H S"]
    assumptions: tuple[str, ...]
    exploration: str  # how the episodes were chosen, and what is proved of that
    history: tuple[Look, ...]
    executed: tuple[Played, ...]  # of every episode, before a class of laws had one action at random
    episodes: int
    evaluation_episodes: int
    plans: int
    seconds: float
    seed: int
    delta: float
    task: str | None = None
    paid: Paid | None = None  # of controls, where no bounds tell how learning went
    _learning: AbstractLearning | None = field(default=None, repr=False)

    @property
    def policy(self) -> MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture:
        """The certainty-equivalent policy: optimal in the learned model, with limits a little tighter."""
        policy = self.outputs[0].policy
        assert isinstance(policy, MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture)  # by construction
        return policy

    @property
    def mixture(self) -> Mixture:
        """The uniform mixture of all policies that were run, as the paper defines the output."""
        policy = self.output("uniform mixture").policy
        assert isinstance(policy, Mixture)  # by construction
        return policy

    @property
    def gap(self) -> float | None:
        """Upper - lower; it may be negative only while the policy is not shown to keep the constraints."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower

    @property
    def candidates(self) -> Candidates | None:
        """How many candidates of a finite class of laws may still be true, after evaluation too."""
        return self.knowledge.candidates

    def output(self, name: str) -> Output:
        """The output called `name`."""
        for output in self.outputs:
            if output.name == name:
                return output
        raise KeyError(f"no output {name!r}; there are {[output.name for output in self.outputs]}")

    def constraint(self, name: str) -> ConstraintResult:
        """The constraint called `name`, at the policy."""
        for result in self.constraints:
            if result.name == name:
                return result
        raise KeyError(f"no constraint {name!r}; there are {[result.name for result in self.constraints]}")

    def certify(self, episodes: int) -> "Learned":
        """Spend fresh episodes on evaluating the policy; bounds so far and new ones hold together."""
        if self._learning is None:
            raise ProblemError("this solution has no environment to run episodes in: it was not made by learn")
        if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
            raise ProblemError(f"certify wants a whole number of episodes, at least 1; got {episodes!r}")
        return self._learning.certify(self, int(episodes))

    def regret(self, truth: TabularMDP) -> Regret:
        """Regret and violation of the policies that were run, were `truth` the true model: both definitions."""
        if self._learning is None:
            raise ProblemError("this solution does not know its problem any more: it was not made by learn")
        return self._learning.regret(self, truth)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write policy, problem, counts, samples and certificate to one file, for `bd.load` and `bidual check`.

        Functions that tell signals are not stored, and nothing in the file is ever executed. The same result gives the
        same bytes.
        """
        if self._learning is None:
            raise ProblemError("this solution does not know its problem any more: it was not made by learn")
        self._learning.save(self, path)

    def to_dict(self) -> dict[str, Any]:
        """The solution as plain JSON values; what is not known is None."""
        told = {
            "task": self.task,
            "status": str(self.status),
            "sense": self.sense,
            "value": self.value,
            "lower": self.lower,
            "upper": self.upper,
            "gap": self.gap,
            "constraints": [_without_infinity(constraint.to_dict()) for constraint in self.constraints],
            "episodes": self.episodes,
            "plans": self.plans,
            "seconds": self.seconds,
            "seed": self.seed,
            "delta": float(self.delta),
            "version": __version__,
            "candidates": None if self.candidates is None else self.candidates.to_dict(),
        }
        return _without_infinity(told)

    def __str__(self) -> str:
        lines = [f"{self.status}: {self._status_words()}"]
        lines += [f"  {label:<12} {text}" for label, text in self._facts()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in self._facts()
        )
        title = html.escape(f"{self.status}: {self._status_words()}")
        return f"<table><caption style='text-align:left'><b>{title}</b></caption>{rows}</table>"

    def _status_words(self) -> str:
        if self.status is Status.UNDECIDED:
            return "the episodes do not show yet that the policy keeps every constraint"
        return self.status.message

    def _facts(self) -> list[tuple[str, str]]:
        facts = [] if self.conflict is None else [("conflict", str(self.conflict))]
        facts += [("objective", self._objective_words())]
        facts += [("certificate", words) for words in self._certificate_words()]
        seen = self.outputs[0].constraints
        facts += [("constraint", constraint_words(one, seen[one.name])) for one in self.constraints]
        facts += [("also", str(output)) for output in self.outputs[1:]]
        facts += [("rests on", assumption) for assumption in self.assumptions]
        facts += [] if self.candidates is None else [("candidates", f"{self.candidates} may still be true")]
        facts += [("explored", self.exploration)]
        facts += [("effort", self._effort_words())]
        return facts

    def _objective_words(self) -> str:
        own = self.outputs[0]
        if not own.episodes:
            return f"{self.sense}: {own.objective.value:.6g} in the learned model: no episode was spent on the policy"
        left = "" if self.candidates is None else " and the candidates that are left"
        return f"{self.sense}: {own.objective}, from {own.episodes} fresh episodes{left}"

    def _certificate_words(self) -> list[str]:
        side, bound = ("above", self.upper) if self.sense == "maximize" else ("below", self.lower)
        if bound is None:
            return ["no bound on what other policies can reach is claimed"]
        words = f"no policy that keeps the constraints can be {side} {bound:.6g}"
        if self.gap is None:
            return [words]
        # A policy that may violate something may also be beyond the optimum.
        what = "that" if self.status is Status.UNDECIDED else "optimal"
        return [f"{words}: the policy is at most {max(self.gap, 0.0):.3g} from {what}"]

    def _effort_words(self) -> str:
        return (
            f"{self.episodes} episodes of learning and {self.evaluation_episodes} of evaluation, {self.plans} plans, "
            f"{self.seconds:.1f} s, seed {self.seed}"
        )


def constraint_words(c: ConstraintResult, seen: Interval) -> str:
    """A constraint at a policy: what was seen of it, its limit, and what is shown."""
    entries = f" (worst of {c.values.size} entries)" if c.values.size > 1 else ""
    shown = "holds" if c.violation_upper <= 0 else f"violated by at most {c.violation_upper:.3g}"
    if not np.isfinite(c.violation_upper):
        shown = "no bound on the violation is claimed"
    price = "" if c.price is None else f"; price about {c.price:.3g} per unit of limit"
    return f"{c.name}: {seen} {c.sense} {c.limit:.6g}{entries}: {shown}{price}"


def _without_infinity(entries: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: what is not bounded is None."""
    return {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in entries.items()}
