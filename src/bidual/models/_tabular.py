"""`Tabular`: finitely many states and actions, transitions to be learned by counting."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._errors import EnvError, ModelError
from bidual._lists import check_initial
from bidual._types import Episode, Placed
from bidual.features import Pieces, Psi
from bidual.mdp import TabularMDP
from bidual.models._arrivals import Paid, expected, paid_on_lists
from bidual.models._base import Layout
from bidual.models._counts import Counts, no_counts
from bidual.models._known import Known
from bidual.models._optimistic import SETS, Optimistic
from bidual.models._posterior import (
    lists,
    lists_for_planner,
    posterior,
    single_law,
    smoothed,
    start_estimate,
    with_strangers,
)
from bidual.models._support import read_absorbing, read_support


@final
@dataclass(frozen=True, eq=False)
class Tabular:
    """What is declared about an unknown model before the first episode. All of it is taken for granted.

    Args:
        support: which states can follow: an integer array (S, A, K), or (S, K) for all actions of a state, padded with
            -1; or a model whose successors (not their probabilities) are used; None: any state can follow any other.
            Nothing helps learning as much as a short list.
        absorbing: states that are never left.
        initial: the start state, or law over states (S,); None: the environment's own where it tells, else learned.
        set: what is known of the law of a row after some samples. "ball": its divergence from the frequencies; "box":
            an interval for every successor, from a mixture of likelihoods, a little wider; "bernstein",
            likewise from variances, and "l1", the distance in L1, are wider still and there for comparison.
        stationary: whether the law is the same at every step of an episode. Where it is not, every step has counts of
            its own, which takes about H times as many episodes.
    """

    support: ArrayLike | TabularMDP | None = None
    absorbing: Sequence[int] | Int[np.ndarray, "e"] = ()
    initial: int | ArrayLike | None = None
    set: str = "ball"
    stationary: bool = True

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        if self.set not in SETS:
            raise ModelError(f"set must be one of {', '.join(SETS)}; got {self.set!r}")

    def start(
        self,
        pieces: Pieces,
        horizon: int,
        allowed: Bool[np.ndarray, "S A"],
        delta: float,
        *,
        absorbing: Bool[np.ndarray, "S"],
        initial: Float[np.ndarray, "S"] | None,
    ) -> "Knowledge":
        """What is known before the first episode, with what an environment itself tells."""
        ends = np.union1d(read_absorbing(self.absorbing, len(allowed)), np.flatnonzero(absorbing))
        support = read_support(self.support, ends, allowed)
        law = initial if self.initial is None else check_initial(self.initial, len(allowed))
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        counts = no_counts(support, noisy, 1 if self.stationary else horizon)
        return Knowledge(counts, pieces, horizon, law, delta, self.set)


@final
@dataclass(frozen=True, eq=False)
class Knowledge:
    """Everything that episodes have taught so far; `update` gives the next."""

    counts: Counts
    pieces: Pieces
    horizon: int
    initial: Float[np.ndarray, "S"] | None
    delta: float  # the probability that the true law is outside the set, at any time
    set: str

    def update(self, *episodes: Episode) -> "Knowledge":
        """Learn from episodes; raises where one shows what was declared impossible."""
        starts = (int(episode.states[0]) for episode in episodes)
        start = None if self.initial is None else next((s for s in starts if not self.initial[s]), None)
        if start is not None:
            raise EnvError(
                f"an episode began in state {start}, which has probability 0 in the start law: declare the true one, "
                "or an unknown one (hidden_start=True of a simulator, no initial=... of Tabular)"
            )
        counts = self.counts.update(*episodes)
        return Knowledge(counts, self.pieces, self.horizon, self.initial, self.delta, self.set)

    @cached_property
    def optimistic(self) -> Optimistic:
        """All laws that may be true."""
        return Optimistic(self.counts, self.delta, self.initial, self.set)

    @cached_property
    def layout(self) -> Layout:
        """The features for the optimistic planner."""
        return self.optimistic.restrict(self.pieces)

    @property
    def anything(self) -> Optimistic:
        """Every law within the declared support, chance chosen freely: what an episode can possibly pay."""
        empty = no_counts(self.counts.support, self.counts.noisy)
        return Optimistic(empty, self.delta, self.initial, "ball", pathwise=True)

    def drawn(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """One law from the posterior, and the features under it."""
        if not self.counts.support.open:
            return self._single(posterior(self.counts, rng))
        counts, prior = with_strangers(self.counts, rng)
        law, start = posterior(counts, rng, prior), start_estimate(self.counts, self.initial)
        model = single_law(counts, law, start, lists_for_planner(counts))
        return model, expected(self.pieces, paid_on_lists(self.pieces, counts, self.delta), law)

    @property
    def estimate(self) -> tuple[Known, Psi]:
        """The smoothed law, and the features under it."""
        return self._single(smoothed(self.counts))

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Several laws from the posterior, as models."""
        return [self._model(posterior(self.counts, rng)) for _ in range(number)]

    def smoothed(self) -> TabularMDP:
        """The smoothed law as a model."""
        return self._model(smoothed(self.counts))

    def features(self, mdp: TabularMDP) -> Psi:
        """The features under a model that was made from these counts."""
        return expected(self.pieces, self._paid, mdp.successors.probabilities)

    @cached_property
    def _paid(self) -> Paid:
        return paid_on_lists(self.pieces, self.counts, self.delta)

    @cached_property
    def _lists(self) -> Int[Placed, "1 K A S"]:
        return lists_for_planner(self.counts)

    def _single(self, law: Float[np.ndarray, "law S A K"]) -> tuple[Known, Psi]:
        start = start_estimate(self.counts, self.initial)
        return single_law(self.counts, law, start, self._lists), expected(self.pieces, self._paid, law)

    def _model(self, law: Float[np.ndarray, "law S A K"]) -> TabularMDP:
        if not self.counts.episodes and self.initial is None:
            raise ModelError("nothing is known of where episodes start: run at least one, or declare initial=...")
        start = start_estimate(self.counts, self.initial)
        probabilities = law[0] if len(law) == 1 else law
        return TabularMDP((lists(self.counts), probabilities), start, self.horizon, actions=self.counts.support.allowed)
