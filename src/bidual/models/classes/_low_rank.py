"""`LowRank`: transitions with two unknown factors, each one of a list of candidates, learned by their likelihood."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual.models._declaration import AbstractDeclaration, EnvironmentFacts
from bidual.models._maximum_likelihood import AbstractMaximumLikelihood
from bidual.models.classes._collection import COLLECTIONS
from bidual.models.classes._enumeration import Transitions
from bidual.models.classes._factors import Factors, list_class_support, read_factors
from bidual.models.classes._knowledge import ClassKnowledge
from bidual.models.classes._likelihood import CLASS_SETS, VALID, start_likelihoods
from bidual.models.counts._counts import start_counts
from bidual.models.counts._support import read_absorbing
from bidual.world.mdp import check_initial


@final
@dataclass(frozen=True, eq=False)
class LowRank(AbstractDeclaration):
    """A finite class of low-rank laws: P_h(s' | s, a) = phi_h(s, a) . mu_h(s'), the true phi and mu among candidates.

    The truth is assumed to be among them, until episodes prove that it is not.

    Args:
        phis: candidates for phi, arrays (S, A, d).
        mus: candidates for mu, arrays (d, S). Every phi with every mu must be a law.
        shared: whether all steps have the same candidates (though not the same truth); otherwise `phis` and `mus` are
            lists with the candidates of every step.
        set: which candidates may still be true. "likelihood": those whose likelihood is close to the best; "paper":
            those whose laws are close to the best one at the sampled pairs, as in the paper.
        c: the constant of the paper's set. Below 8 the set may lose the truth, and no bound is claimed.
        collection: the rollouts of a plan. "one-rollout": the plan, with one action at random; "paper": that for every
            step in turn, learning only from the step with the random action.
        delta: the failure probability of the set, if less than the half of its own that `learn` gives to the model.
        absorbing: states that are never left.
        initial: the start state, or law over states (S,); None: the environment's own where it has one, else learned.
        oracle: the search for the pair of largest likelihood at a step, `Enumeration()` by default. It is the centre of
            the paper's set, and the first pair that planning tries.
    """

    __repr__ = describe_briefly

    phis: Iterable[Any]
    mus: Iterable[Any]
    shared: bool = True
    set: str = "likelihood"
    c: float = VALID
    collection: str = "one-rollout"
    delta: float | None = None
    absorbing: Sequence[int] | Int[np.ndarray, "e"] = ()
    initial: int | ArrayLike | None = None
    oracle: AbstractMaximumLikelihood[Factors, Transitions, int] | None = None

    sets = CLASS_SETS
    steps_apart = True
    subject = "a class of laws"

    def __post_init__(self) -> None:
        """Check the settings that do not depend on an environment; iterators of candidates are stored as tuples."""
        if self.set not in CLASS_SETS:
            raise ModelError(f"set must be one of {', '.join(CLASS_SETS)}; got {self.set!r}")
        if self.collection not in COLLECTIONS:
            raise ModelError(f"collection must be one of {', '.join(COLLECTIONS)}; got {self.collection!r}")
        if self.oracle is not None and not isinstance(self.oracle, AbstractMaximumLikelihood):
            raise ModelError(f"oracle must be an AbstractMaximumLikelihood, such as Enumeration(); got {self.oracle!r}")
        if not self.c > 0:
            raise ModelError(f"the constant c of the paper's set must be positive; got {self.c!r}")
        for name in ("phis", "mus"):
            given = getattr(self, name)
            try:
                kept = tuple(given) if self.shared else tuple(tuple(step) for step in given)
            except TypeError:
                what = "a list of arrays" if self.shared else "a list with a list of arrays for every step"
                raise ModelError(f"{name} must be {what}; got {given!r:.80}") from None
            object.__setattr__(self, name, kept)

    def adapt(self, confidence: str | None, *, per_step: bool, paper: bool) -> "LowRank":
        """Return the same with another set of laws, or with the set and the rollouts of the paper's Algorithm 3."""
        del per_step  # there are candidates for every step in any case
        if paper:
            return replace(self, set=confidence or "paper", collection="paper")
        return replace(self, set=confidence or self.set)

    @property
    def about_states(self) -> bool:
        """Whether something is declared of single states: all of it is."""
        return True

    def start(self, facts: EnvironmentFacts) -> ClassKnowledge:
        """Return what is known before the first episode, with what the environment itself declares."""
        pieces, horizon, allowed = facts.pieces, facts.horizon, facts.allowed
        factors = read_factors(self.phis, self.mus, shared=self.shared, horizon=horizon, allowed=allowed)
        ends = np.union1d(read_absorbing(self.absorbing, len(allowed)), np.flatnonzero(facts.absorbing))
        law = facts.initial if self.initial is None else check_initial(self.initial, len(allowed))
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        counts = start_counts(list_class_support(factors, ends, allowed), noisy, horizon)
        known = counts, pieces, horizon, law, self._share(facts.delta), self.set
        settings = float(self.c), self.collection, facts.seed, self.oracle
        return ClassKnowledge(*known, factors, start_likelihoods(factors), *settings)

    def _share(self, most: float) -> float:
        """Return the failure probability of the set, which is at most `most`."""
        if self.delta is None:
            return most
        if not 0 < self.delta <= most:
            raise ModelError(
                f"delta of the class must be in (0, {most:g}], the share of the model in learn's own delta; "
                f"got {self.delta!r}: give learn a larger one, or leave that of the class away"
            )
        return float(self.delta)
