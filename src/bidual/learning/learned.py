"""`Learned`: the result of learning: policies, their estimates and bounds, and the assumptions behind these."""

import abc
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.names import Names
from bidual._base.status import Status
from bidual.certificate.constraints import Conflict, ConstraintResult
from bidual.learning.curve import LearnedCurve, Limits
from bidual.learning.description import list_learned_facts, summarise_learned
from bidual.learning.outputs import PolicyBounds, Regret
from bidual.learning.summary import BEHAVIOUR, UNIFORM, Output
from bidual.models import AbstractKnowledge, Candidates
from bidual.planners.control import LinearQuadratic
from bidual.solving.outcome import AbstractOutcome, Facts, Records, format_facts
from bidual.world.mdp import TabularMDP
from bidual.world.policies import ControlPolicy, DecodedPolicy, MarkovPolicy, Mixture, Played


@final
@dataclass(frozen=True)
class LearnProgress:
    """The bounds after some episodes, in the user's sense; None where nothing was known yet.

    `bound` is the value that no feasible policy can beat, `reached` the proved value of the mixture of the policies run
    so far (for a class of laws: with their random actions), and `violation` its largest possible violation.
    `candidates` counts those left of a finite class of laws.
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
        """The distance between the bound that no policy can beat and the value that the mixture reaches."""
        return None if self.bound is None or self.reached is None else abs(self.bound - self.reached)


@final
@dataclass(frozen=True, eq=False)
class EpisodeValues:
    """The values of every episode, by name ("objective", or a constraint), in the user's sense and units.

    Nonlinear functions have no value for single episodes: for the names in `averaged` it is the value at the mean of
    all episodes so far. Nothing is certified by these numbers.
    """

    values: dict[str, Float[np.ndarray, "n"]]
    averaged: tuple[str, ...] = ()


class AbstractLearnSession(abc.ABC):
    """The state of a finished run, from which more episodes can be evaluated."""

    @abc.abstractmethod
    def certify(self, solution: "Learned", episodes: int) -> "Learned":
        """Evaluate the policy on fresh episodes."""

    @abc.abstractmethod
    def suggest(self, solution: "Learned") -> tuple[str, ...]:
        """Return what would make the result certain or tighter."""

    @abc.abstractmethod
    def assign(self, solution: "Learned") -> None:
        """Set the problem's variables to their values at the policy."""

    @abc.abstractmethod
    def save(self, solution: "Learned", path: str | os.PathLike[str], signals: Mapping[str, str] | None) -> None:
        """Write evidence and claims to one file."""

    @abc.abstractmethod
    def price(
        self,
        solution: "Learned",
        constraint: str | None,
        points: int,
        limits: Limits | None,
    ) -> LearnedCurve:
        """Bound and estimate the optimum at several limits of one constraint."""

    @abc.abstractmethod
    def bound_policy(self, solution: "Learned", policy: Played | None) -> PolicyBounds:
        """Bound what a policy pays under every law that may be true."""

    @abc.abstractmethod
    def find_cautious_policy(self) -> ControlPolicy:
        """Find a policy that keeps the constraints under every law that may be true."""

    @abc.abstractmethod
    def regret(
        self,
        solution: "Learned",
        truth: TabularMDP | LinearQuadratic | None,
        optimum: float | None,
        reference: Played | None,
        paths: int,
    ) -> Regret:
        """Compute the regret of the executed policies in another model, or beside a reference policy."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Learned(AbstractOutcome):
    """The result of `learn`.

    With probability 1 - delta all of its bounds hold at once: minimising, no policy that keeps the constraints can be
    below `lower`, and `policy` is at most at `upper`; maximising, the other way round. `gap` is their distance, the
    largest possible suboptimality of the policy, once it is proved to keep the constraints. None: not proved.
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
    exploration: str  # the choice of the episodes' policies, and its guarantee
    history: tuple[LearnProgress, ...]
    executed: Sequence[Played]  # the plan of every episode, before a class of laws had one action at random
    episodes: int
    evaluation_episodes: int
    plans: int
    seconds: float
    seed: int
    delta: float
    task: str | None = None
    totals: Mapping[str, float] = field(default_factory=dict)  # expected of every signal, in the learned model
    reported: tuple[str, ...] = ()  # signals whose totals are printed
    values_per_episode: EpisodeValues | None = None  # of controls, where there are no bounds over time
    _session: AbstractLearnSession | None = field(default=None, repr=False)

    @property
    def policy(self) -> MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture:
        """The certainty-equivalent policy: optimal in the learned model, with limits a little tighter."""
        policy = self.outputs[0].policy
        assert isinstance(policy, MarkovPolicy | DecodedPolicy | ControlPolicy | Mixture)  # by construction
        return policy

    @property
    def mixture(self) -> Mixture:
        """The uniform mixture of the plans of all episodes, as the paper defines the output."""
        return self._find_mixture(UNIFORM)

    @property
    def behaviour(self) -> Mixture:
        """The uniform mixture of what was run: of the plans or, for a class of laws, of these with a random action."""
        names = [output.name for output in self.outputs]
        return self._find_mixture(BEHAVIOUR if BEHAVIOUR in names else UNIFORM)

    @property
    def candidates(self) -> Candidates | None:
        """The number of candidates of a finite class of laws that may still be true, after evaluation too."""
        return self.knowledge.candidates

    @cached_property
    def suggestions(self) -> tuple[str, ...]:
        """What to do next where something is undecided or loose, computed from the episodes: predictions, no claims."""
        return () if self._session is None else self._session.suggest(self)

    def output(self, name: str) -> Output:
        """Return the output called `name`."""
        for output in self.outputs:
            if output.name == name:
                return output
        raise KeyError(f"no output {name!r}; there are {[output.name for output in self.outputs]}")

    def _find_mixture(self, name: str) -> Mixture:
        policy = self.output(name).policy
        assert isinstance(policy, Mixture)  # by construction
        return policy

    def certify(self, episodes: int) -> "Learned":
        """Evaluate the policy on more fresh episodes; bounds so far and new ones hold together."""
        if self._session is None:
            raise ProblemError("this solution has no environment to run episodes in: it was not made by learn")
        if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
            raise ProblemError(f"certify wants a whole number of episodes, at least 1; got {episodes!r}")
        return assign_to_variables(self._session.certify(self, int(episodes)))

    def regret(
        self,
        truth: TabularMDP | LinearQuadratic | None = None,
        *,
        optimum: float | None = None,
        reference: Played | None = None,
        paths: int = 64,
    ) -> Regret:
        """Compute regret and violation of the executed policies, were `truth` the true model: both definitions.

        Policies of controls have exact moments in a linear law; else `paths` episodes beside a `reference` policy.
        """
        return self._require_session().regret(self, truth, optimum, reference, paths)

    def bound_policy(self, policy: Played | None = None) -> PolicyBounds:
        """Bound what an affine policy pays under every linear law that may be true, without episodes or ranges of it.

        By default the returned one. For linear dynamics with quadratic costs, all numbers of the model declared.
        """
        return self._require_session().bound_policy(self, policy)

    def cautious_policy(self) -> ControlPolicy:
        """Find an affine policy that keeps every limit under every linear law that may be true."""
        return self._require_session().find_cautious_policy()

    def price(self, constraint: str | None = None, *, points: int = 10, limits: Limits | None = None) -> LearnedCurve:
        """Bound and estimate the optimum as a function of the limit of one constraint.

        Args:
            constraint: the name of a scalar constraint; may be left out where there is only one.
            points: number of limits, evenly spread over those that matter in the estimated model.
            limits: these limits instead, increasing.
        """
        return self._require_session().price(self, constraint, points, limits)

    def save(self, path: str | os.PathLike[str], signals: Mapping[str, str] | None = None) -> None:
        """Write policy, problem, counts, samples and certificate to one file, for `bd.load` and `bidual check`.

        `signals`: texts for functions that the policy plans with (`ControlPolicy.save`); nothing of a file is executed.
        """
        self._require_session().save(self, path, signals)

    def to_dict(self) -> dict[str, Any]:
        """Return the solution as plain JSON values; an unknown value is None."""
        left = None if self.candidates is None else self.candidates.to_dict()
        entries: dict[str, Any] = self._list_entries(self.episodes, self.seed, float(self.delta)) | {"candidates": left}
        entries["constraints"] = [_drop_infinities(constraint) for constraint in entries["constraints"]]
        return _drop_infinities(entries)

    def details(self) -> dict[str, Any]:
        """Return what `to_dict` leaves out and `describe` prints, as plain JSON values."""
        return {
            "outputs": [output.to_dict() for output in self.outputs],
            "assumptions": list(self.assumptions),
            "exploration": self.exploration,
            "evaluation_episodes": self.evaluation_episodes,
            "suggestions": list(self.suggestions),
        }

    def describe(self) -> str:
        """Return everything that is known of the result as text: `print(learned)` with all policies and assumptions."""
        return format_facts(self._write_title(), self._list_facts())

    def _require_session(self) -> AbstractLearnSession:
        if self._session is None:
            raise ProblemError("this solution does not know its problem any more: it was not made by learn")
        return self._session

    @property
    def _names(self) -> Names:
        return self.policy.names

    def _list_history(self) -> Records:
        names = ("episodes", "bound", "reached", "gap", "violation", "plans", "seconds", "candidates")
        return self.history, names

    def _write_title(self) -> str:
        if self.status is Status.UNDECIDED:
            return f"{self.status}: the episodes do not show yet that the policy keeps every constraint"
        return f"{self.status}: {self.status.message}"

    def _summarise(self) -> Facts:
        return summarise_learned(self, self._describe_totals())

    def _list_facts(self) -> Facts:
        return list_learned_facts(self, self._describe_totals())

    def _describe_totals(self) -> list[tuple[str, str]]:
        return [(label, f"{text} in the learned model") for label, text in super()._describe_totals()]


def assign_to_variables(solution: Learned) -> Learned:
    """Set the variables of its problem to their values at the policy, in the learned model; return the solution."""
    if solution._session is not None:
        solution._session.assign(solution)
    return solution


def _drop_infinities(entries: dict[str, Any]) -> dict[str, Any]:
    """Replace infinite values by None: JSON has no infinity."""
    return {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in entries.items()}
