"""`Latent`: few hidden states behind rich observations, found by EM and explored with optimism. A heuristic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual._base.types import Episode
from bidual.models._declaration import AbstractDeclaration, EnvironmentFacts, Needs
from bidual.models._known import Known
from bidual.models._maximum_likelihood import AbstractMaximumLikelihood
from bidual.models.counts._counted import AbstractCounted, TablePolicy
from bidual.models.counts._counts import Counts, start_counts
from bidual.models.counts._posterior import build_known, estimate_start
from bidual.models.counts._support import read_support
from bidual.models.latent._decoded_counts import Tally
from bidual.models.latent._expectation_maximisation import MixtureOracle
from bidual.models.latent._latents import FREED, Latents, build_latents
from bidual.models.latent._mixtures import AbstractEmissionFamily, Categorical, Gaussian
from bidual.models.latent._reading import Reader
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP
from bidual.world.policies import DecodedPolicy, Decoder

EMISSIONS = ("gaussian", "categorical")


@final
@dataclass(frozen=True)
class Latent(AbstractDeclaration):
    """A hidden state that is one of a few at every step, and observations drawn by a law of that state alone.

    Latents, their laws of observations and their transitions are learned from episodes. Nothing is proved about other
    policies: what `learn` prints about its policy comes from fresh episodes of it, and no bound on others is claimed.

    Args:
        latents: the most hidden states that a step may have; fewer are used where fewer are distinguished.
        emission: "gaussian": an observation is a vector of numbers, a mean for every latent plus noise; "categorical":
            its entries are symbols (MultiDiscrete, MultiBinary), independent given the latent.
        rarest: successors of this probability are looked for: a row taken n times keeps (1 - rarest)^n of its mass for
            successors never observed. Smaller explores longer.
        freed: where that mass goes: "unseen", to a fictitious latent that is as good as possible; "seen", to the best
            of the known ones, which explores badly and is there for comparison.
        oracle: the search for the mixture that explains the observations of a step best, `ExpectationMaximisation()` by
            default.
    """

    latents: int
    emission: str = "gaussian"
    rarest: float = 0.5
    freed: str = "unseen"
    oracle: MixtureOracle | None = field(default=None, repr=False)  # described by `law_settings` where one is given

    subject = "has latents"
    default_explorer = "optimistic"

    def __post_init__(self) -> None:
        """Check the settings."""
        if isinstance(self.latents, bool) or not isinstance(self.latents, int | np.integer) or self.latents < 1:
            raise ModelError(f"latents must be a whole number, at least 1; got {self.latents!r}")
        if self.emission not in EMISSIONS:
            raise ModelError(f"emission must be one of {', '.join(EMISSIONS)}; got {self.emission!r}")
        if self.oracle is not None and not isinstance(self.oracle, AbstractMaximumLikelihood):
            what = "an AbstractMaximumLikelihood, such as ExpectationMaximisation()"
            raise ModelError(f"oracle must be {what}; got {self.oracle!r}")
        if not 0 < self.rarest <= 1:
            raise ModelError(f"rarest is a probability, above 0; got {self.rarest!r}")
        if self.freed not in FREED:
            raise ModelError(f"freed must be one of {', '.join(FREED)}; got {self.freed!r}")

    @property
    def needs(self) -> Needs:
        """Observations, which are decoded to latents."""
        return Needs("observations", latents=self.latents, symbols=self.emission == "categorical")

    def start(self, facts: EnvironmentFacts) -> "LatentKnowledge":
        """Return what is known before the first episode."""
        pieces, horizon, allowed = facts.pieces, facts.horizon, facts.allowed
        S, A = allowed.shape
        lists = np.broadcast_to(np.arange(S), (S, A, S))
        support = read_support(lists, np.array([S - 1]), allowed)
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        family: AbstractEmissionFamily = Gaussian() if facts.symbols is None else Categorical(facts.symbols)
        reader = Reader.start(family, self.latents, (horizon, S, A), facts.dimension, len(pieces.observed), self.oracle)
        counts = start_counts(support, noisy, horizon)
        return LatentKnowledge(counts, pieces, horizon, None, facts.delta, "unseen", self, reader)


@final
@dataclass(frozen=True, eq=False)
class LatentKnowledge(AbstractCounted):
    """Knowledge from decoded episodes. Its counts are those of the latents as the current decoder assigns them."""

    __repr__ = describe_briefly

    declared: Latent
    reader: Reader

    def update(self, *episodes: Episode) -> "LatentKnowledge":
        """Learn from episodes; where the decoder is fitted again, all earlier ones are decoded again."""
        if not episodes:
            return self
        reader = self.reader.read(episodes)
        return replace(self, reader=reader, counts=_replace_counts(self.counts, reader.seen))

    @property
    def observation_size(self) -> int:
        """The length of an observation."""
        return self.decoder.dimension

    @property
    def symbols(self) -> int | None:
        """The number of symbols that an entry may be, where it is one."""
        family = self.reader.family
        return family.symbols if isinstance(family, Categorical) else None

    def check_evidence(self, first: AbstractCounted, check_stored: Callable[[AbstractCounted], None]) -> None:
        """Check that observations, latents and counts fit together; raise `ValueError` where they do not."""
        del first, check_stored  # support and counts are those of the decoder
        self.reader.check()
        if not np.array_equal(self.counts.starts, self.seen.starts):
            raise ValueError("its counts are not those of the latents")

    @property
    def seen(self) -> Tally:
        """The counts of decoded episodes."""
        return self.reader.seen

    @property
    def decoder(self) -> Decoder:
        """The map from observations to latents."""
        return self.reader.decoder

    def build_confidence_set(self) -> Latents:
        """Return the laws to explore with; the truth is not proved to be one of them."""
        allowed, model = self.counts.support.allowed, self.declared
        return build_latents(self.seen, self.pieces, model.rarest, model.freed, allowed)

    @property
    def certifies(self) -> bool:
        """Whether a bound is proved: never, for latents are decoded, not observed."""
        return False

    def law_settings(self) -> str:
        """Return the declaration."""
        oracle = self.declared.oracle
        return repr(self.declared) if oracle is None else f"{self.declared!r}, {oracle!r}"

    def assumptions(
        self, program: AbstractProgram, signals: Sequence[str], delta: float, share: float
    ) -> tuple[str, ...]:
        """Return what a learned decoder is worth: nothing is proved, and signals have errors of regression."""
        del program, share
        sizes = [0 if emission is None else emission.size for emission in self.decoder.steps[:-1]]
        conditions = [
            f"latents are a heuristic: {min(sizes)} to {max(sizes)} at a step were told apart, of "
            f"{self.declared.latents} at most; no bound on other policies is claimed",
        ]
        for name, left, varied in zip(signals, *self.seen.errors(), strict=True):
            conditions.append(
                f"signal {name!r} is regressed on latent and action: the root mean square error is {left:.3g}, "
                f"of a deviation of {varied:.3g}"
            )
        conditions.append(
            f"intervals of the policies' own episodes hold together with probability {1 - delta:.6g}, whatever the "
            "latents"
        )
        return tuple(conditions)

    def exploration(self, guarantee: str) -> str:
        """Return that there is no guarantee, whatever the explorer."""
        del guarantee
        return "among decoded latents, with optimism about those never seen: a heuristic, no rate is proved"

    def to_environment_policy(self, policy: TablePolicy) -> DecodedPolicy:
        """Convert a table over latents to a policy for observations."""
        return DecodedPolicy(policy, self.decoder)

    @cached_property
    def _expected(self) -> tuple[Float[np.ndarray, "H S A S"], Float[np.ndarray, "H d S A"]]:
        """The estimates of the law and of the signals."""
        law, means = shrink_estimates(self.seen)
        signals = np.zeros((self.horizon, self.pieces.stage.shape[1], *law.shape[1:3]))
        signals[:, [position for position, _ in self.pieces.observed]] = np.moveaxis(means, 3, 1)
        return law, signals

    def compute_smoothed_estimate(self) -> Float[np.ndarray, "law S A K"]:
        """Return frequencies, shrunk a little towards the average over the actions of a latent."""
        return self._expected[0]

    def features(self, mdp: TabularMDP) -> Psi:
        """Return the features with the average of the observed signals."""
        return Psi(self._expected[1], self.pieces.visits, self.pieces.occupancy)

    def single(self, law: Float[np.ndarray, "law S A K"]) -> tuple[Known, Psi]:
        """Return a law for the exact planner, and the features under it."""
        start = estimate_start(self.counts, self.initial)
        psi = Psi(self._expected[1], self.pieces.visits, self.pieces.occupancy)
        return build_known(self.counts, law, start, self._lists), psi

    def draw_posterior_sample(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """Draw one law from the posterior, given the decoded latents."""
        return self.single(self._draw_law(rng))

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Draw several such laws, as models."""
        return [self.model(self._draw_law(rng)) for _ in range(number)]

    def _draw_law(self, rng: np.random.Generator) -> Float[np.ndarray, "H S A S"]:
        weights = rng.standard_gamma((self.seen.pairs[..., None] + 1.0) * self.compute_smoothed_estimate())
        total = weights.sum(axis=-1, keepdims=True)
        return np.where(total > 0, weights / np.where(total > 0, total, 1.0), self.compute_smoothed_estimate())


def shrink_estimates(seen: Tally) -> tuple[Float[np.ndarray, "H S A S"], Float[np.ndarray, "H S A o"]]:
    """Shrink laws and mean signals by one more visit of every pair, with the average of the tried actions.

    A latent of which no action was tried is absorbing, with signals 0.
    """
    pairs = seen.pairs
    tried = pairs > 0
    share = tried / np.maximum(tried.sum(axis=-1, keepdims=True), 1)
    frequencies = seen.transitions / np.maximum(pairs, 1.0)[..., None]
    average = np.einsum("hsa,hsat->hst", share, frequencies)
    average[~tried.any(axis=-1)] = np.broadcast_to(np.eye(pairs.shape[1]), average.shape)[~tried.any(axis=-1)]
    law = (seen.transitions + average[:, :, None]) / (pairs + 1.0)[..., None]
    rewards = np.einsum("hsa,hsao->hso", share, seen.means())
    return law, (seen.sums + rewards[:, :, None]) / (pairs + 1.0)[..., None]


def _replace_counts(before: Counts, seen: Tally) -> Counts:
    """Return the counts with the statistics of the current latents."""
    episodes = int(seen.starts.sum())
    return replace(before, transitions=seen.transitions, pairs=seen.pairs, starts=seen.starts, episodes=episodes)
