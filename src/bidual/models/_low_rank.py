"""`LowRank`: transitions with two unknown factors, each one of a list of candidates, learned by their likelihood."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.special import softmax

from bidual._errors import EnvError, ModelError
from bidual._lists import check_initial
from bidual._types import Episode
from bidual.features import Pieces, Psi
from bidual.mdp import TabularMDP
from bidual.models._arrivals import NOISE
from bidual.models._candidates import Candidates
from bidual.models._collection import COLLECTIONS, Rollout, inserted
from bidual.models._counted import AbstractCounted
from bidual.models._counts import Counts, no_counts
from bidual.models._factors import Factors, read_factors
from bidual.models._known import Known
from bidual.models._likelihood import (
    CLASS_SETS,
    VALID,
    add_episodes,
    likelihoods_of,
    likely,
    near_best,
    no_likelihoods,
    of_all_laws,
)
from bidual.models._plausible import Plausible
from bidual.models._support import NOBODY, Support, read_absorbing, read_support
from bidual.policies import DeterministicPolicy, Played


@final
@dataclass(frozen=True, eq=False)
class LowRank:
    """A finite class of low-rank laws: P_h(s' | s, a) = phi_h(s, a) . mu_h(s'), the true phi and mu among candidates.

    That the truth is among them is taken for granted, until episodes show that it is not.

    Args:
        phis: candidates for phi, arrays (S, A, d).
        mus: candidates for mu, arrays (d, S). Every phi with every mu must be a law.
        shared: whether all steps have the same candidates (though not the same truth); otherwise `phis` and `mus` are
            lists with the candidates of every step.
        set: which candidates may still be true. "likelihood": those that explain what was seen nearly as well as the
            best; "paper": those whose laws are near the best one's where it was tried, as the paper has it.
        c: the constant of the paper's set. Below 8 the set may lose the truth, and no bound is claimed.
        collection: what is run for a plan. "one-rollout": the plan, with one action at random; "paper": that for every
            step in turn, and only the step with the action is learned from.
        delta: the probability with which the set may lose the truth, if less than the half of its own that `learn`
            gives to the model.
        absorbing: states that are never left.
        initial: the start state, or law over states (S,); None: the environment's own where it tells, else learned.
    """

    phis: Iterable[Any]
    mus: Iterable[Any]
    shared: bool = True
    set: str = "likelihood"
    c: float = VALID
    collection: str = "one-rollout"
    delta: float | None = None
    absorbing: Sequence[int] | Int[np.ndarray, "e"] = ()
    initial: int | ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without an environment; candidates that can be read once only are kept."""
        if self.set not in CLASS_SETS:
            raise ModelError(f"set must be one of {', '.join(CLASS_SETS)}; got {self.set!r}")
        if self.collection not in COLLECTIONS:
            raise ModelError(f"collection must be one of {', '.join(COLLECTIONS)}; got {self.collection!r}")
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

    def start(
        self,
        pieces: Pieces,
        horizon: int,
        allowed: Bool[np.ndarray, "S A"],
        delta: float,
        *,
        absorbing: Bool[np.ndarray, "S"],
        initial: Float[np.ndarray, "S"] | None,
    ) -> "ClassKnowledge":
        """What is known before the first episode, with what an environment itself tells."""
        factors = read_factors(self.phis, self.mus, shared=self.shared, horizon=horizon, allowed=allowed)
        ends = np.union1d(read_absorbing(self.absorbing, len(allowed)), np.flatnonzero(absorbing))
        law = initial if self.initial is None else check_initial(self.initial, len(allowed))
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        counts = no_counts(class_support(factors, ends, allowed), noisy, horizon)
        known = counts, pieces, horizon, law, self._share(delta), self.set
        return ClassKnowledge(*known, factors, no_likelihoods(factors), float(self.c), self.collection)

    def _share(self, most: float) -> float:
        """The probability of failure of the set, which may be less than what there is for it."""
        if self.delta is None:
            return most
        if not 0 < self.delta <= most:
            raise ModelError(
                f"delta of the class must be in (0, {most:g}], the share of the model in learn's own delta; "
                f"got {self.delta!r}: give learn a larger one, or leave that of the class away"
            )
        return float(self.delta)


@final
@dataclass(frozen=True, eq=False)
class ClassKnowledge(AbstractCounted):
    """What likelihoods say about the candidates of every step."""

    factors: tuple[Factors, ...]
    likelihoods: Float[np.ndarray, "H n"]
    c: float
    collection: str = "one-rollout"

    @property
    def rollouts(self) -> int:
        """One, or one for every step."""
        return max(1, self._steps) if self.collection == "paper" else 1

    def rollout(self, policy: Played, number: int) -> Rollout:
        """The policy with one action at random."""
        assert isinstance(policy, DeterministicPolicy)  # there is nothing to decode here
        return inserted(policy, self.counts.support.allowed, self.collection, self._steps, number)

    def update(self, *episodes: Episode) -> "ClassKnowledge":
        """Learn from episodes; raises where one shows what no candidate holds possible."""
        if not episodes:
            return self
        self.check_starts(episodes)
        likelihoods = add_episodes(self.likelihoods, self.factors, episodes)
        excluded = np.flatnonzero(likelihoods.max(axis=1) == -np.inf)
        if excluded.size:
            raise EnvError(self._excluded(int(excluded[0]), episodes))
        counts = self.counts.update(*episodes)
        return replace(self, counts=counts, likelihoods=likelihoods)

    def at(self, counts: Counts) -> "ClassKnowledge":
        """What was known when these were all the episodes: likelihoods are functions of the counts."""
        return replace(self, counts=counts, likelihoods=likelihoods_of(self.factors, counts))

    def possible(self) -> Plausible:
        """All combinations of candidates that may be true; raises where the truth is shown to be none of them."""
        self._check_class()
        best = self.likelihoods.argmax(axis=1)
        return Plausible(self.factors, self._inside, best, self.counts, self.initial, self.delta, self._log_share)

    def drawn(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """One combination by how likely its candidates are, and the features under it."""
        return self.single(self._random(rng))

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Several such combinations, as models."""
        return [self.model(self._random(rng)) for _ in range(number)]

    def likely(self) -> Float[np.ndarray, "law S A K"]:
        """The mean of the candidates, each as likely as it explains what was seen."""
        laws = []
        for one, likelihoods in zip(self.factors, self.likelihoods, strict=True):
            weights = softmax(likelihoods[: one.count]).reshape(len(one.phis), len(one.mus))
            laws.append(np.einsum("isad,idt->sat", one.phis, np.tensordot(weights, one.mus, axes=1), optimize=True))
        return self._on_lists(np.stack(laws))

    @property
    def certifies(self) -> bool:
        """Whether the set is known to hold the truth with the probability that is claimed."""
        return self.set == "likelihood" or self.c >= VALID

    @property
    def candidates(self) -> Candidates:
        """How many candidates of every step may still be true."""
        return Candidates(tuple(self._inside.sum(axis=1).tolist()), tuple(one.count for one in self.factors))

    @property
    def left(self) -> Int[np.ndarray, "H"]:
        """The same as an array."""
        return np.array(self.candidates.left)

    @cached_property
    def _inside(self) -> Bool[np.ndarray, "H n"]:
        """Which candidates may be true, if one of every step is."""
        if self.set == "likelihood":
            return likely(self.likelihoods, np.array([one.count for one in self.factors]), self._log_share)
        return near_best(self.likelihoods, self.factors, self.counts.pairs, self._log_share, self.c)

    @property
    def _steps(self) -> int:
        """How many of the first steps have a law that matters: where the last one leads pays only on arrival."""
        return self.horizon if self.pieces.arrivals or self.pieces.observed else self.horizon - 1

    @property
    def _log_share(self) -> float:
        """What a claim about one step costs: there are H of them, and one about the start where it is learned."""
        delta = self.delta * (1 - NOISE) if self.counts.noisy.any() else self.delta
        return float(np.log((self.horizon + (self.initial is None)) / delta))

    def _random(self, rng: np.random.Generator) -> Float[np.ndarray, "H S A K"]:
        laws = []
        for one, likelihoods in zip(self.factors, self.likelihoods, strict=True):
            number = rng.choice(one.count, p=softmax(likelihoods[: one.count]))
            laws.append(one.laws(np.array([number]))[0])
        return self._on_lists(np.stack(laws))

    def _on_lists(self, laws: Float[np.ndarray, "H S A S"]) -> Float[np.ndarray, "H S A K"]:
        """Dense laws on the lists of the counts, as laws to the last digit."""
        support = self.counts.support
        listed = np.take_along_axis(laws, np.broadcast_to(support.filled, (len(laws), *support.filled.shape)), axis=-1)
        listed = np.where(support.states == NOBODY, 0.0, np.maximum(listed, 0.0))
        total = listed.sum(axis=-1, keepdims=True)
        first = np.arange(listed.shape[-1]) == 0  # rows of actions that are not allowed may be anything
        return np.where(total > 0, listed / np.where(total > 0, total, 1.0), first)

    def _excluded(self, h: int, episodes: Sequence[Episode]) -> str:
        """Why no candidate of a step can be true."""
        where = f"the class is misspecified: at step {h + 1}"
        remedy = "add candidates, or learn without a class (Tabular)"
        for one in (one for one in episodes if one.only in (None, h)):
            s, a, arrival = one.states[h : h + 1], one.actions[h : h + 1], one.states[h + 1 : h + 2]
            if self.factors[h].probabilities(s, a, arrival).max() <= 0:
                seen = f"action {a[0]} in state {s[0]} led to state {arrival[0]}, which no candidate holds possible"
                return f"{where} {seen}: {remedy}"
        return f"{where} every candidate excludes something that was seen: {remedy}"

    def _check_class(self) -> None:
        """Stop where a mixture over all laws explains what was seen so much better that the class must be wrong."""
        alarm = float(np.log(self.horizon / self.delta))
        for h, one in enumerate(self.factors):
            best = float(self.likelihoods[h].max())
            means = self._on_lists(one.average[None])[0]
            excess = of_all_laws(self.counts.transitions[h], means) - best
            if excess >= alarm:
                raise EnvError(
                    f"the class is misspecified: at step {h + 1} a mixture over all laws explains "
                    f"{int(self.counts.pairs[h].sum())} transitions exp({excess:.1f}) times better than the best "
                    f"candidate, where exp({alarm:.1f}) is enough to exclude that one of them is true (with "
                    f"probability {1 - self.delta:.4g}): add candidates, or learn without a class (Tabular)"
                )


def class_support(factors: Sequence[Factors], ends: Int[np.ndarray, "e"], allowed: Bool[np.ndarray, "S A"]) -> Support:
    """The successors that some candidate of some step holds possible."""
    S, A = allowed.shape
    possible = np.zeros((S, A, S), dtype=bool)
    for one in {id(one): one for one in factors}.values():
        possible |= one.average > 0
        _check_ends(one, ends, allowed)
    lists = np.where(possible, np.arange(S), NOBODY)
    lists[~allowed] = NOBODY
    return read_support(lists, ends, allowed)


def _check_ends(factors: Factors, ends: Int[np.ndarray, "e"], allowed: Bool[np.ndarray, "S A"]) -> None:
    """Where a state is never left every candidate must say so."""
    staying = np.einsum("isad,jds->ijsa", factors.phis[:, ends], factors.mus[:, :, ends], optimize=True)
    wrong = np.argwhere((staying < 1 - 1e-9) & allowed[ends])
    if wrong.size:
        i, j, e, a = wrong[0].tolist()
        raise ModelError(
            f"state {ends[e]} is never left, but phis[{i}] . mus[{j}] leaves it with action {a}: correct the candidate"
        )
