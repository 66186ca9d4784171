"""The interface of knowledge: the state of a model while it is learned."""

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from bidual._base.types import Episode
from bidual.models.classes._collection import Rollout
from bidual.models.classes._plausible import Candidates
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import AbstractModelFeatures, Computed, Pieces
from bidual.world.policies import Played

if TYPE_CHECKING:
    from bidual.models.counts._counted import AbstractCounted
    from bidual.models.counts._optimistic import ConfidenceSet
    from bidual.models.regression._knr import ControlKnowledge

Bound = TypeVar("Bound", covariant=True)


@runtime_checkable
class BoundSolver(Protocol[Bound]):
    """The ways to bound all policies from below, of which every kind of knowledge chooses one."""

    def nothing(self) -> Bound:
        """Return no bound."""
        ...

    def over_counts(self, program: AbstractProgram, knowledge: "AbstractCounted") -> Bound:
        """Solve over all laws of numbered states that may be true."""
        ...

    def over_laws(self, program: AbstractProgram, knowledge: "ControlKnowledge") -> Bound:
        """Solve over all linear laws of vectors that may be true."""
        ...


class AbstractKnowledge(abc.ABC):
    """Everything learned from episodes so far; immutable, `update` returns the next."""

    pieces: Pieces
    horizon: int
    delta: float  # the probability that the truth ever leaves the confidence set

    @abc.abstractmethod
    def update(self, *episodes: Episode) -> "AbstractKnowledge":
        """Learn from episodes; raise where one contradicts a declaration."""

    @property
    @abc.abstractmethod
    def certifies(self) -> bool:
        """Whether the confidence set is proved to hold the truth with the claimed probability."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """The shape of its policies."""

    @property
    @abc.abstractmethod
    def invariants(self) -> tuple[object, ...]:
        """Sizes and settings that no update changes."""

    @property
    @abc.abstractmethod
    def signals_consistent(self) -> bool:
        """Whether every observed signal was a function of the transition so far."""

    @abc.abstractmethod
    def resume(self, now: "AbstractKnowledge") -> "AbstractKnowledge":
        """Return this stored knowledge with the failure probability of `now`; raise where the two do not match."""

    @abc.abstractmethod
    def check_restored(
        self, first: "AbstractKnowledge", episodes: int, check_stored: "Callable[[AbstractCounted], None]"
    ) -> None:
        """Check this knowledge of a checkpoint against the one before the first of so many episodes.

        What was declared is unchanged, and what was counted is that of so many episodes; `ValueError` if not.
        `check_stored` is the check of knowledge in files.
        """

    @abc.abstractmethod
    def assumptions(
        self, program: AbstractProgram, signals: Sequence[str], delta: float, share: float
    ) -> tuple[str, ...]:
        """Return the assumptions of all bounds, in words.

        `signals` are the names of observed signals, `delta` is the probability that some bound fails and `share` the
        part of it that belongs to the model.
        """

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the declared settings by name, as JSON values, arrays by their checksums: facts of a stored run."""

    def exploration(self, guarantee: str) -> str:
        """Return how episodes are chosen, in words, from the guarantee of the explorer."""
        return guarantee

    def final_bound(self, solver: BoundSolver[Bound], program: AbstractProgram) -> Bound:
        """Return a bound on all policies by the way of solving that suits this knowledge; here there is none."""
        del program
        return solver.nothing()

    @property
    def counted(self) -> "AbstractCounted | None":
        """This knowledge where states are numbered, so that policies and ranges of payments come from tables."""
        return None

    @property
    def controlled(self) -> "ControlKnowledge | None":
        """This knowledge where states are vectors, so that policies are controllers."""
        return None

    @property
    def bounds_policies(self) -> bool:
        """Whether the set of laws bounds single policies too, better than episodes of them may."""
        return False

    @property
    def all_supported_laws(self) -> "ConfidenceSet | None":
        """Every law within the declared support; None where only the bounds of signals are known."""
        return None

    @property
    def functions(self) -> tuple[Computed | None, AbstractModelFeatures | None]:
        """Signals and features that stored policies plan with: functions, which are not stored."""
        return None, None

    @property
    def observation_size(self) -> int | None:
        """The length of an observation; None where states are observed."""
        return None

    @property
    def symbols(self) -> int | None:
        """The number of symbols that an entry of an observation may be; None where entries are none."""
        return None

    @property
    def candidates(self) -> Candidates | None:
        """The numbers of candidates of a finite class that may be true; None where there is no such class."""
        return None

    @property
    def rollouts(self) -> int:
        """The number of rollouts per plan."""
        return 1

    @property
    def inserts_actions(self) -> bool:
        """Whether a rollout differs from its plan, so that episodes are no samples of the plans."""
        return False

    def rollout(self, policy: Played, number: int) -> Rollout:
        """Return rollout `number` (from 1 on) of a planned policy: here the policy itself."""
        del number
        return Rollout(policy)
