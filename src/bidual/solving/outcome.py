"""What `Solution` and `Learned` have in common: bounds, constraints by name, and their forms as text, HTML and JSON."""

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bidual._base.brief import shorten
from bidual._base.errors import ProblemError
from bidual._base.frames import build_frame, build_frame_of_records
from bidual._base.html import format_html_table
from bidual._base.names import Names
from bidual._base.status import Status
from bidual._base.version import __version__
from bidual.certificate.constraints import Conflict, ConstraintResult, find_constraint

if TYPE_CHECKING:
    from pandas import DataFrame

Records = tuple[Sequence[object], Sequence[str]]
_MOST_TEXT = 400  # characters of a list of totals
Facts = Sequence[tuple[str, str]]  # labelled lines


class AbstractOutcome(abc.ABC):
    """The result for a problem: a status, certified bounds of the objective, and constraints."""

    status: Status
    sense: str
    value: float
    lower: float | None
    upper: float | None
    constraints: tuple[ConstraintResult, ...]
    conflict: Conflict | None
    visits: Float[np.ndarray, "H S"]
    plans: int
    seconds: float
    task: str | None
    totals: Mapping[str, float]  # expected over an episode, of every signal by name
    reported: tuple[str, ...]  # signals whose totals are printed

    @property
    def gap(self) -> float | None:
        """Upper - lower: the largest distance of the policy from optimal, once it is proved to keep the constraints."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower

    def constraint(self, name: str) -> ConstraintResult:
        """The constraint called `name`, at the policy."""
        return find_constraint(name, self.constraints)

    def __getitem__(self, name: str) -> float:
        """Return the left side of the constraint called `name` (of its worst entry), else the total of that signal."""
        for constraint in self.constraints:
            if constraint.name == name:
                return constraint.value
        if name in self.totals:
            return self.totals[name]
        constraints = [constraint.name for constraint in self.constraints]
        raise KeyError(f"no constraint or signal {name!r}; constraints: {constraints}, signals: {list(self.totals)}")

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON values; unknown values are None."""

    def __str__(self) -> str:
        return format_facts(self._write_title(), self._summarise())

    def __repr__(self) -> str:
        ends = ", ".join(f"{name} {end:.6g}" for name in ("lower", "upper") if (end := getattr(self, name)) is not None)
        kept = ", ".join(constraint.name for constraint in self.constraints) or "none"
        facts = f"{self.status}, {self.sense} {self.value:.6g}{ends and f', {ends}'}, constraints: {shorten(kept, 200)}"
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        return format_html_table(self._write_title(), self._list_facts())

    @property
    @abc.abstractmethod
    def _names(self) -> Names:
        """The names of states and actions."""

    @abc.abstractmethod
    def _list_history(self) -> Records:
        """Return the states of the search or of the learning, and the names of their values."""

    def to_frame(self, table: str = "visits") -> "DataFrame":
        """Return a frame of pandas: the probability of every state that is visited, by step, or the history of bounds.

        The actions of the policy are a frame of its own, ``solution.policy.to_frame()``.
        """
        if table == "visits" and not self.visits.size:
            raise ProblemError("states are vectors here, so there are no visits to list; see to_frame('history')")
        if table == "visits":
            steps, states = np.nonzero(self.visits)
            named = self._names.states_at(states)
            return build_frame({"step": steps, "state": named, "probability": self.visits[steps, states]})
        if table == "history":
            return build_frame_of_records(*self._list_history())
        raise ProblemError(f"to_frame has the tables 'visits' and 'history'; got {table!r}")

    @abc.abstractmethod
    def _write_title(self) -> str:
        """Describe the status in a line."""

    @abc.abstractmethod
    def _list_facts(self) -> Facts:
        """Describe everything that is known."""

    @abc.abstractmethod
    def _summarise(self) -> Facts:
        """Describe what is printed by default."""

    def _describe_totals(self) -> list[tuple[str, str]]:
        """Return a line with the totals that the problem asks for, such as those of groups; none for none."""
        texts = [f"{name} {self.totals[name]:.6g}" for name in self.reported]
        return [("totals", shorten(", ".join(texts), _MOST_TEXT))] if texts else []

    def _list_entries(self, episodes: int | None, seed: int | None, delta: float | None) -> dict[str, Any]:
        """Return the JSON values that all results have, in the order of the files."""
        return {
            "task": self.task,
            "status": str(self.status),
            "sense": self.sense,
            "value": self.value,
            "lower": self.lower,
            "upper": self.upper,
            "gap": self.gap,
            "constraints": [constraint.to_dict() for constraint in self.constraints],
            "episodes": episodes,
            "plans": self.plans,
            "seconds": self.seconds,
            "seed": seed,
            "delta": delta,
            "version": __version__,
        }


def format_facts(title: str, facts: Facts) -> str:
    """Return one line for the title and one for every fact, the labels aligned."""
    return "\n".join([title, *(f"  {label:<12} {text}" for label, text in facts)])
