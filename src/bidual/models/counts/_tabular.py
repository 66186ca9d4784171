"""`Tabular`: finitely many states and actions, transitions to be learned by counting."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual._base.types import Episode
from bidual.models._declaration import AbstractDeclaration, EnvironmentFacts, Needs
from bidual.models._known import Known
from bidual.models.counts._arrivals import compute_arrival_rewards, compute_expected_features
from bidual.models.counts._counted import AbstractCounted, TablePolicy
from bidual.models.counts._counts import start_counts
from bidual.models.counts._optimistic import SETS, ConfidenceSet
from bidual.models.counts._posterior import (
    add_strangers,
    build_known,
    draw_posterior,
    estimate_start,
    list_successors_for_planner,
    smooth_counts,
)
from bidual.models.counts._support import Declared, read_absorbing, read_support
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP, check_initial
from bidual.world.policies import MarkovPolicy


@final
@dataclass(frozen=True, eq=False)
class Tabular(AbstractDeclaration):
    """Declarations about an unknown tabular model before the first episode. All of them are assumptions.

    Args:
        support: possible successors: an integer array (S, A, K), or (S, K) for all actions of a state, padded with
            -1; or a model whose successors (not their probabilities) are used; or a function of (state, action) that
            returns them; None: any state can follow any other.
            Nothing speeds up learning as much as short lists.
        absorbing: states that are never left.
        initial: the start state, or law over states (S,); None: the environment's own where it has one, else learned.
        set: the kind of confidence set of a row. "ball": its divergence from the frequencies; "box":
            an interval for every successor, from a mixture of likelihoods, a little wider; "bernstein",
            likewise from variances, and "l1", the distance in L1, are wider still, for comparison.
        stationary: whether the law is the same at every step of an episode. Where it is not, every step has counts of
            its own, which takes about H times as many episodes.
    """

    __repr__ = describe_briefly

    support: Declared = None
    absorbing: Sequence[int] | Int[np.ndarray, "e"] = ()
    initial: int | ArrayLike | None = None
    set: str = "ball"
    stationary: bool = True

    sets = SETS
    steps_apart = True
    subject = "counts"

    def __post_init__(self) -> None:
        """Check the settings that do not depend on an environment."""
        if self.set not in SETS:
            raise ModelError(f"set must be one of {', '.join(SETS)}; got {self.set!r}")

    @property
    def needs(self) -> Needs:
        """Numbered states, with one law where one is declared."""
        return Needs(one_law=self.stationary)

    @property
    def about_states(self) -> bool:
        """Whether successors, absorbing states or a start law are declared."""
        return self.support is not None or self.initial is not None or np.size(self.absorbing) > 0

    def adapt(self, confidence: str | None, *, per_step: bool, paper: bool) -> "Tabular":
        """Return the same with another set of laws, or with counts for every step."""
        del paper
        return replace(self, set=confidence or self.set, stationary=self.stationary and not per_step)

    def start(self, facts: EnvironmentFacts) -> "Knowledge":
        """Return what is known before the first episode, with what the environment itself declares."""
        pieces, allowed = facts.pieces, facts.allowed
        ends = np.union1d(read_absorbing(self.absorbing, len(allowed)), np.flatnonzero(facts.absorbing))
        support = read_support(self.support, ends, allowed)
        law = facts.initial if self.initial is None else check_initial(self.initial, len(allowed))
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        counts = start_counts(support, noisy, 1 if self.stationary else facts.horizon)
        return Knowledge(counts, pieces, facts.horizon, law, facts.delta, self.set, facts.met)


@final
@dataclass(frozen=True, eq=False)
class Knowledge(AbstractCounted):
    """Knowledge from counts alone: every row of transitions has a set of laws of its own."""

    __repr__ = describe_briefly

    met: bool = False  # whether states are numbered as they are met

    def update(self, *episodes: Episode) -> "Knowledge":
        """Learn from episodes; raise where one contradicts a declaration."""
        self.check_starts(episodes)
        counts = self.counts.update(*episodes)
        return replace(self, counts=counts)

    def build_confidence_set(self) -> ConfidenceSet:
        """Return the confidence set."""
        return ConfidenceSet(self.counts, self.delta, self.initial, self.set)

    def draw_posterior_sample(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """Draw one law from the posterior, and return it with the features under it."""
        if not self.counts.support.open:
            return self.single(draw_posterior(self.counts, rng))
        counts, prior = add_strangers(self.counts, rng)
        law, start = draw_posterior(counts, rng, prior), estimate_start(self.counts, self.initial)
        model = build_known(counts, law, start, list_successors_for_planner(counts))
        return model, compute_expected_features(
            self.pieces, compute_arrival_rewards(self.pieces, counts, self.delta), law
        )

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Draw several laws from the posterior, as models."""
        return [self.model(draw_posterior(self.counts, rng)) for _ in range(number)]

    @property
    def certifies(self) -> bool:
        """Whether the set is proved to hold the truth: every kind of set is."""
        return True

    @property
    def numbers_known(self) -> bool:
        """Whether states have numbers before they are met."""
        return not self.met

    def to_environment_policy(self, policy: TablePolicy) -> TablePolicy:
        """Return the policy; where states are numbered as they are met, with one row for all that were not met.

        It acts alike in all of them then, whichever number they get.
        """
        if not self.met:
            return policy
        first, end = self.counts.count_met(), policy.shape[1] - 1
        rows = np.where((np.arange(end + 1) >= first) & (np.arange(end + 1) < end), first, np.arange(end + 1))
        if isinstance(policy, MarkovPolicy):
            return replace(policy, table=policy.table[:, rows])
        return replace(policy, actions=policy.actions[:, rows])

    def compute_smoothed_estimate(self) -> Float[np.ndarray, "law S A K"]:
        """Return the smoothed estimate."""
        return smooth_counts(self.counts)
