"""Knowledge from counts of states and actions: all laws that may be true, and single ones to plan in."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from bidual._base.checksum import compute_checksum
from bidual._base.errors import EnvError, ModelError, ProblemError
from bidual._base.types import DeviceArray, Episode
from bidual.models._base import Layout
from bidual.models._knowledge import AbstractKnowledge, Bound, BoundSolver
from bidual.models._known import Known
from bidual.models.classes._plausible import Plausible
from bidual.models.counts._arrivals import ArrivalRewards, compute_arrival_rewards, compute_expected_features
from bidual.models.counts._counts import Counts, start_counts
from bidual.models.counts._optimistic import ConfidenceSet
from bidual.models.counts._posterior import build_known, estimate_start, list_successors, list_successors_for_planner
from bidual.models.latent._latents import Latents
from bidual.models.linear._elliptical import Rectangular
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Pieces, Psi
from bidual.world.mdp import TabularMDP
from bidual.world.policies import DecodedPolicy, DeterministicPolicy, MarkovPolicy

ANYWHERE = "no successors were declared: any state may follow any other"

TablePolicy = TypeVar("TablePolicy", DeterministicPolicy, MarkovPolicy)


@dataclass(frozen=True, eq=False)
class AbstractCounted(AbstractKnowledge):
    """Everything learned from episodes over finitely many states and actions so far."""

    counts: Counts
    pieces: Pieces
    horizon: int
    initial: Float[np.ndarray, "S"] | None
    delta: float  # the probability that the true law is outside the set, at any time
    set: str

    @abc.abstractmethod
    def build_confidence_set(self) -> Rectangular | Plausible | Latents:
        """Return the confidence set; raise where it is empty."""

    @abc.abstractmethod
    def draw_posterior_sample(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """Draw one law from the posterior, and return it with the features under it."""

    @abc.abstractmethod
    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Draw several laws from the posterior, as models."""

    @abc.abstractmethod
    def compute_smoothed_estimate(self) -> Float[np.ndarray, "law S A K"]:
        """Return the smoothed estimate of the law, on the lists of the counts."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        _, S, A = self.counts.pairs.shape
        return self.horizon, S, A

    @property
    def invariants(self) -> tuple[object, ...]:
        """Sizes and settings."""
        return self.counts.pairs.shape, self.horizon, self.delta, self.set

    @property
    def signals_consistent(self) -> bool:
        """Whether every observed signal was a function of the transition so far."""
        return self.counts.signals_consistent

    @property
    def counted(self) -> "AbstractCounted":
        """This knowledge: its states are numbered."""
        return self

    @property
    def numbers_known(self) -> bool:
        """Whether something can be declared of single states, whose numbers are known beforehand."""
        return True

    def find_policy_laws(self) -> Plausible | None:
        """Return the laws under each of which a single policy can be evaluated; None where they are too many."""
        return None

    def pack_declaration(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the declarations about laws besides the support, as JSON values and arrays: here none."""
        return {}, {}

    def final_bound(self, solver: BoundSolver[Bound], program: AbstractProgram) -> Bound:
        """Return the bound over all laws; where a signal is no function of the transition its mean is not known."""
        return solver.over_counts(program, self) if self.signals_consistent and self.certifies else solver.nothing()

    def settings(self) -> dict[str, Any]:
        """Return support, start law and set."""
        support = self.counts.support
        return {
            "declared successors": compute_checksum([], support.states, support.allowed, support.absorbing),
            "start law": "learned" if self.initial is None else compute_checksum([], self.initial),
            "set": self.set,
            "stationary": len(self.counts.pairs) == 1,
            "class": self.law_settings(),
        }

    def law_settings(self) -> str | None:
        """Return what is declared of laws besides the support: a checksum, or None where that is nothing."""
        return None

    def assumptions(
        self, program: AbstractProgram, signals: Sequence[str], delta: float, share: float
    ) -> tuple[str, ...]:
        """Return the assumptions of all bounds, in conditions."""
        del program
        counts, ends = self.counts, int(self.counts.support.absorbing.sum())
        conditions = ["stationary Markov dynamics: the next state depends on (state, action) only, at every step"]
        if len(counts.pairs) > 1:
            conditions = ["Markov dynamics: the next state depends on (step, state, action) only"]
        conditions += self.law_assumptions()
        if ends:
            conditions.append(
                "one declared state is never left" if ends == 1 else f"{ends} declared states are never left"
            )
        conditions.append("the start law is known" if self.initial is not None else "the start law is learned too")
        for name, noisy, steady in zip(signals, counts.noisy, counts.steady, strict=True):
            if noisy:
                conditions.append(f"signal {name!r} has one mean for every transition, and its noise is independent")
            elif steady:
                conditions.append(f"signal {name!r} is a function of the transition: so it was in every episode")
            else:
                conditions.append(
                    f"signal {name!r} is no function of the transition: no bound on other policies is claimed"
                )
        conditions.append(
            f"all bounds hold together with probability {1 - delta:.6g}: of {delta:.3g}, {share:.3g} is for the "
            f"model, {delta * 3 / 8:.3g} for evaluation and {delta / 8:.3g} for the mixtures"
        )
        return tuple(conditions)

    def law_assumptions(self) -> list[str]:
        """Return the assumptions about the law of transitions, in conditions."""
        support = self.counts.support
        if support.open:
            return [ANYWHERE]
        return [f"only declared successors follow: at most {int(support.sizes.max())} for each state and action"]

    def resume(self, now: "AbstractKnowledge") -> "AbstractCounted":
        """Return the same counts with the `delta` of `now`; the confidence set is a function of both."""
        if not isinstance(now, AbstractCounted) or type(now) is not type(self):
            raise ProblemError("the state to go on from was learned with another kind of model: give the model of then")
        then, asked = self.counts.pairs.shape, now.counts.pairs.shape
        if then[1:] != asked[1:]:
            raise ProblemError(
                f"the state to go on from is over {then[1:]} states and actions, the environment has {asked[1:]}: "
                "give the environment that it was learned in"
            )
        if then != asked:
            raise ProblemError(
                f"the state to go on from has counts for {then[0]} of the steps, the model asks for {asked[0]}: "
                "declare stationary=... as it was then"
            )
        return replace(self, delta=now.delta)

    def check_restored(
        self, first: AbstractKnowledge, episodes: int, check_stored: "Callable[[AbstractCounted], None]"
    ) -> None:
        """Check the number of episodes, then the rest by the kind of knowledge."""
        if first.counted is None:
            raise ValueError("its declarations are not those of the model")
        if self.counts.episodes != episodes:
            raise ValueError(f"it counts {self.counts.episodes} episodes of {episodes}")
        self.check_evidence(first.counted, check_stored)

    def check_evidence(self, first: "AbstractCounted", check_stored: "Callable[[AbstractCounted], None]") -> None:
        """Check that declared support and start law are those of `first`, then counts as if read from a file."""
        now, then = self.counts.support, first.counts.support
        same = [(now.absorbing, then.absorbing), (now.allowed, then.allowed), (self.initial, first.initial)]
        same += [] if then.open else [(now.states, then.states)]
        if now.open != then.open or not all(np.array_equal(one, other) for one, other in same):
            raise ValueError("its declarations are not those of the model")
        check_stored(self)

    def check_derived(self) -> None:
        """Check what is kept besides the counts and follows from them, here nothing; raise `ValueError`."""

    def at(self, counts: Counts) -> "AbstractCounted":
        """Return the knowledge for which these counts are all the evidence."""
        return replace(self, counts=counts)

    @cached_property
    def confidence_set(self) -> Rectangular | Plausible | Latents:
        """The confidence set."""
        return self.build_confidence_set()

    @cached_property
    def layout(self) -> Layout:
        """The features for the optimistic planner."""
        return self.confidence_set.restrict(self.pieces)

    @property
    def all_supported_laws(self) -> ConfidenceSet | None:
        """Every law within the declared support, chance chosen freely: for the range of values of an episode."""
        empty = start_counts(self.counts.support, self.counts.noisy)
        return ConfidenceSet(empty, self.delta, self.initial, "ball", pathwise=True)

    @property
    def estimate(self) -> tuple[Known, Psi]:
        """The smoothed estimate, and the features under it."""
        return self.single(self.compute_smoothed_estimate())

    def to_environment_policy(self, policy: TablePolicy) -> TablePolicy | DecodedPolicy:
        """Convert a policy planned in such a model to one for the environment."""
        return policy

    def smoothed_model(self) -> TabularMDP:
        """Return the smoothed estimate as a model."""
        return self.model(self.compute_smoothed_estimate())

    def features(self, mdp: TabularMDP) -> Psi:
        """Return the features under a model built from these counts."""
        return compute_expected_features(self.pieces, self._arrival_rewards, mdp.successors.probabilities)

    def single(self, law: Float[np.ndarray, "law S A K"]) -> tuple[Known, Psi]:
        """Return a law on the lists for the exact planner, and the features under it."""
        start = estimate_start(self.counts, self.initial)
        return build_known(self.counts, law, start, self._lists), compute_expected_features(
            self.pieces, self._arrival_rewards, law
        )

    def model(self, law: Float[np.ndarray, "law S A K"]) -> TabularMDP:
        """Return a law on the lists as a model."""
        if not self.counts.episodes and self.initial is None:
            raise ModelError("nothing is known of where episodes start: run at least one, or declare initial=...")
        start = estimate_start(self.counts, self.initial)
        probabilities = law[0] if len(law) == 1 else law
        return TabularMDP(
            (list_successors(self.counts), probabilities), start, self.horizon, actions=self.counts.support.allowed
        )

    def check_starts(self, episodes: Sequence[Episode]) -> None:
        """Raise where an episode began in a state that the declared start law holds impossible."""
        starts = (int(episode.states[0]) for episode in episodes)
        start = None if self.initial is None else next((s for s in starts if not self.initial[s]), None)
        if start is not None:
            raise EnvError(
                f"an episode began in state {start}, which has probability 0 in the start law: declare the true one, "
                "or an unknown one (hidden_start=True of a simulator, no initial=... of the model)"
            )

    @cached_property
    def _arrival_rewards(self) -> ArrivalRewards:
        return compute_arrival_rewards(self.pieces, self.counts, self.delta)

    @cached_property
    def _lists(self) -> Int[DeviceArray, "1 K A S"]:
        return list_successors_for_planner(self.counts)
