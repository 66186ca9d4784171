"""`Tabular`: finitely many states and actions, transitions to be learned by counting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._errors import ModelError
from bidual._lists import check_initial
from bidual._types import Episode
from bidual.features import Pieces, Psi
from bidual.mdp import TabularMDP
from bidual.models._arrivals import expected, paid_on_lists
from bidual.models._counted import AbstractCounted
from bidual.models._counts import no_counts
from bidual.models._known import Known
from bidual.models._optimistic import SETS, Optimistic
from bidual.models._posterior import (
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
class Knowledge(AbstractCounted):
    """What counts alone say: every row of transitions has a set of laws of its own."""

    def update(self, *episodes: Episode) -> "Knowledge":
        """Learn from episodes; raises where one shows what was declared impossible."""
        self.check_starts(episodes)
        counts = self.counts.update(*episodes)
        return Knowledge(counts, self.pieces, self.horizon, self.initial, self.delta, self.set)

    def possible(self) -> Optimistic:
        """All laws that may be true."""
        return Optimistic(self.counts, self.delta, self.initial, self.set)

    def drawn(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """One law from the posterior, and the features under it."""
        if not self.counts.support.open:
            return self.single(posterior(self.counts, rng))
        counts, prior = with_strangers(self.counts, rng)
        law, start = posterior(counts, rng, prior), start_estimate(self.counts, self.initial)
        model = single_law(counts, law, start, lists_for_planner(counts))
        return model, expected(self.pieces, paid_on_lists(self.pieces, counts, self.delta), law)

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Several laws from the posterior, as models."""
        return [self.model(posterior(self.counts, rng)) for _ in range(number)]

    @property
    def certifies(self) -> bool:
        """All sets are."""
        return True

    def likely(self) -> Float[np.ndarray, "law S A K"]:
        """The smoothed law."""
        return smoothed(self.counts)
