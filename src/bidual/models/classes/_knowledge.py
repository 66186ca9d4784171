"""Knowledge of a class of laws: the likelihoods of all candidates, and what follows from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from bidual._base.brief import describe_briefly
from bidual._base.checksum import compute_checksum
from bidual._base.errors import EnvError
from bidual._base.keys import Draw, Purpose
from bidual._base.types import Episode
from bidual.models._known import Known
from bidual.models._maximum_likelihood import AbstractMaximumLikelihood
from bidual.models.classes._collection import Rollout, insert_random_action
from bidual.models.classes._enumeration import Transitions, check_best, list_transitions
from bidual.models.classes._factors import Factors, pack_factors
from bidual.models.classes._likelihood import (
    VALID,
    add_episodes,
    compute_likelihoods,
    compute_mixture_log_likelihood,
    find_likely,
    find_near_best,
)
from bidual.models.classes._plausible import Candidates, Plausible
from bidual.models.counts._arrivals import NOISE
from bidual.models.counts._counted import AbstractCounted
from bidual.models.counts._counts import Counts
from bidual.models.counts._support import NOBODY
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP
from bidual.world.policies import DeterministicPolicy, Played


@final
@dataclass(frozen=True, eq=False)
class ClassKnowledge(AbstractCounted):
    """Knowledge from likelihoods of the candidates of every step."""

    __repr__ = describe_briefly

    factors: tuple[Factors, ...]
    likelihoods: Float[np.ndarray, "H n"]
    c: float
    collection: str = "one-rollout"
    seed: int = 0  # of the random actions; runs that were stored before it had a place drew them with 0
    oracle: AbstractMaximumLikelihood[Factors, Transitions, int] | None = None  # None: `Enumeration`
    named: tuple[int, ...] | None = None  # the candidates that an oracle named, where they come from a file

    @property
    def rollouts(self) -> int:
        """The number of rollouts per plan: one, or one for every step."""
        return max(1, self._steps) if self.collection == "paper" else 1

    @property
    def inserts_actions(self) -> bool:
        """Whether rollouts have a random action: where a law has to be learned, they do."""
        return self._steps > 0

    def rollout(self, policy: Played, number: int) -> Rollout:
        """Return the policy with one action at random."""
        assert isinstance(policy, DeterministicPolicy)  # there is nothing to decode here
        draw = Draw(self.seed, Purpose.INSERT, number)
        return insert_random_action(policy, self.counts.support.allowed, self.collection, self._steps, draw)

    def update(self, *episodes: Episode) -> "ClassKnowledge":
        """Learn from episodes; raise where every candidate gives one of them probability 0."""
        if not episodes:
            return self
        self.check_starts(episodes)
        likelihoods = add_episodes(self.likelihoods, self.factors, episodes)
        excluded = np.flatnonzero(likelihoods.max(axis=1) == -np.inf)
        if excluded.size:
            raise EnvError(self._explain_exclusion(int(excluded[0]), episodes))
        return replace(self, counts=self.counts.update(*episodes), likelihoods=likelihoods)

    def at(self, counts: Counts) -> "ClassKnowledge":
        """Return the knowledge for which these counts are all the evidence: likelihoods are functions of them."""
        return replace(self, counts=counts, likelihoods=compute_likelihoods(self.factors, counts))

    def check_evidence(self, first: AbstractCounted, check_stored: Callable[[AbstractCounted], None]) -> None:
        """Check the seed of the random actions too."""
        if not isinstance(first, ClassKnowledge) or self.seed not in (0, first.seed):
            raise ValueError("its random actions are not those of the run's seed")
        super().check_evidence(first, check_stored)

    def check_derived(self) -> None:
        """Check that the likelihoods are those of the counts."""
        if not np.allclose(self.likelihoods, compute_likelihoods(self.factors, self.counts), rtol=1e-9, atol=1e-6):
            raise ValueError("likelihoods are not those of the transitions")

    def build_confidence_set(self) -> Plausible:
        """Return all combinations of candidates that may be true; raise where none is proved to be."""
        self._check_class()
        return self.list_plausible()

    def list_plausible(self) -> Plausible:
        """Return these combinations, without a test of the class against all laws."""
        given = self.counts, self.initial, self.delta, self._log_share
        return Plausible(self.factors, self._inside, self.best, *given)

    def draw_posterior_sample(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """Draw one combination by the likelihoods of its candidates, and return it with the features under it."""
        return self.single(self._draw_law(rng))

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Draw several such combinations, as models."""
        return [self.model(self._draw_law(rng)) for _ in range(number)]

    def compute_smoothed_estimate(self) -> Float[np.ndarray, "law S A K"]:
        """Return the mean of the candidates, weighted by their likelihoods."""
        laws = []
        for one, likelihoods in zip(self.factors, self.likelihoods, strict=True):
            weights = softmax(likelihoods[: one.count]).reshape(len(one.phis), len(one.mus))
            laws.append(np.einsum("isad,idt->sat", one.phis, np.tensordot(weights, one.mus, axes=1), optimize=True))
        return self._restrict_to_lists(np.stack(laws))

    @property
    def certifies(self) -> bool:
        """Whether the set is proved to hold the truth with the claimed probability."""
        return self.set == "likelihood" or self.c >= VALID

    @property
    def bounds_policies(self) -> bool:
        """Whether single policies are bounded: a few laws are left, and a policy's values under each are computable."""
        return True

    def find_policy_laws(self) -> Plausible | None:
        """Return the combinations that may be true, where they are proved to hold the truth."""
        return self.build_confidence_set() if self.certifies and self.signals_consistent else None

    def pack_declaration(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the candidates and the settings of the set, as JSON values and arrays."""
        numbers, factors = pack_factors(self.factors)
        header = {"class": numbers, "c": self.c, "collection": self.collection, "delta": self.delta}
        own = self.oracle is not None or self.named is not None
        return header | ({"best": self.best.tolist()} if own else {}), factors

    def law_settings(self) -> str:
        """Return the checksum of candidates and settings."""
        arrays = (part for one in self.factors for part in (one.phis, one.mus))
        own = [] if self.oracle is None else [repr(self.oracle)]
        return compute_checksum([self.c, self.collection, *own], *arrays)

    def law_assumptions(self) -> list[str]:
        """Return that the truth is in the class, or that the set may have lost it."""
        if not self.certifies:
            lost = "may have lost the true one: no bound is claimed"
            return [f"the set of laws has the constant {self.c:g} < 8 and {lost}"]
        most = max(one.count for one in self.factors)
        return [f"the true law of every step is one of {most} candidates, and nothing seen so far excludes that"]

    def exploration(self, guarantee: str) -> str:
        """Return the guarantee under the condition that plans are optimal."""
        # Beyond 10 000 combinations the cheapest one is searched for and not always found.
        return f"{guarantee}, of plans, if they are the cheapest over the class; every rollout has one action at random"

    @cached_property
    def best(self) -> Int[np.ndarray, "H"]:
        """The candidates of every step that the oracle names, by default those of largest likelihood."""
        if self.named is not None:
            return np.array(self.named)
        if self.oracle is None:
            return self.likelihoods.argmax(axis=1)
        steps = enumerate(self.factors)
        return check_best([self.oracle(one, list_transitions(self.counts, h), None) for h, one in steps], self.factors)

    @property
    def candidates(self) -> Candidates:
        """The numbers of candidates of every step that may still be true."""
        return Candidates(tuple(self._inside.sum(axis=1).tolist()), tuple(one.count for one in self.factors))

    @property
    def left(self) -> Int[np.ndarray, "H"]:
        """These numbers as an array."""
        return np.array(self.candidates.left)

    @cached_property
    def _inside(self) -> Bool[np.ndarray, "H n"]:
        """A mask of the candidates that may be true, if one of every step is."""
        if self.set == "likelihood":
            return find_likely(self.likelihoods, np.array([one.count for one in self.factors]), self._log_share)
        return find_near_best(self.likelihoods, self.factors, self.counts.pairs, self._log_share, self.c, self.best)

    @property
    def _steps(self) -> int:
        """The number of first steps whose law matters: that of the last one does only for signals on arrival."""
        return self.horizon if self.pieces.arrivals or self.pieces.observed else self.horizon - 1

    @property
    def _log_share(self) -> float:
        """log(claims / delta): there are H claims, one per step, and one about the start where it is learned."""
        delta = self.delta * (1 - NOISE) if self.counts.noisy.any() else self.delta
        return float(np.log((self.horizon + (self.initial is None)) / delta))

    def _draw_law(self, rng: np.random.Generator) -> Float[np.ndarray, "H S A K"]:
        laws = []
        for one, likelihoods in zip(self.factors, self.likelihoods, strict=True):
            number = rng.choice(one.count, p=softmax(likelihoods[: one.count]))
            laws.append(one.laws(np.array([number]))[0])
        return self._restrict_to_lists(np.stack(laws))

    def _restrict_to_lists(self, laws: Float[np.ndarray, "H S A S"]) -> Float[np.ndarray, "H S A K"]:
        """Restrict dense laws to the lists of the counts, normalised to the last digit."""
        support = self.counts.support
        listed = np.take_along_axis(laws, np.broadcast_to(support.filled, (len(laws), *support.filled.shape)), axis=-1)
        listed = np.where(support.states == NOBODY, 0.0, np.maximum(listed, 0.0))
        total = listed.sum(axis=-1, keepdims=True)
        first = np.arange(listed.shape[-1]) == 0  # rows of actions that are not allowed may be anything
        return np.where(total > 0, listed / np.where(total > 0, total, 1.0), first)

    def _explain_exclusion(self, h: int, episodes: Sequence[Episode]) -> str:
        """Explain why no candidate of a step can be true."""
        where = f"the class is misspecified: at step {h + 1}"
        remedy = "add candidates, or learn without a class (Tabular)"
        for one in (one for one in episodes if one.only in (None, h)):
            s, a, arrival = one.states[h : h + 1], one.actions[h : h + 1], one.states[h + 1 : h + 2]
            if self.factors[h].probabilities(s, a, arrival).max() <= 0:
                seen = f"action {a[0]} in state {s[0]} led to state {arrival[0]}, which no candidate holds possible"
                return f"{where} {seen}: {remedy}"
        return f"{where} every candidate excludes something that was seen: {remedy}"

    def _check_class(self) -> None:
        """Raise where the likelihood of a mixture over all laws proves that the truth is no candidate."""
        alarm = float(np.log(self.horizon / self.delta))
        for h, one in enumerate(self.factors):
            best = float(self.likelihoods[h].max())
            means = self._restrict_to_lists(one.average[None])[0]
            excess = compute_mixture_log_likelihood(self.counts.transitions[h], means) - best
            if excess >= alarm:
                raise EnvError(
                    f"the class is misspecified: at step {h + 1} a mixture over all laws explains "
                    f"{int(self.counts.pairs[h].sum())} transitions exp({excess:.1f}) times better than the best "
                    f"candidate, where exp({alarm:.1f}) is enough to exclude that one of them is true (with "
                    f"probability {1 - self.delta:.4g}): add candidates, or learn without a class (Tabular)"
                )
