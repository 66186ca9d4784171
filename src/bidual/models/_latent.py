"""`Latent`: few hidden states behind rich observations, found by EM and explored with optimism. A heuristic."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from bidual._errors import ModelError
from bidual._types import Episode
from bidual.features import Pieces, Psi
from bidual.mdp import TabularMDP
from bidual.models._counted import AbstractCounted, Table
from bidual.models._counts import Counts, no_counts
from bidual.models._decoded_counts import Tally
from bidual.models._families import AbstractFamily, Categorical, Gaussian
from bidual.models._known import Known
from bidual.models._latents import FREED, Latents, latents_of
from bidual.models._posterior import single_law, start_estimate
from bidual.models._reading import Reader
from bidual.models._support import read_support
from bidual.policies import DecodedPolicy, Decoder

EMISSIONS = ("gaussian", "categorical")


@final
@dataclass(frozen=True)
class Latent:
    """A hidden state that is one of a few at every step, and observations drawn by a law of that state alone.

    Latents, what they show and how they follow each other are learned from episodes. Nothing is proved about other
    policies: what `learn` prints about its policy comes from fresh episodes of it, and no bound on others is claimed.

    Args:
        latents: the most hidden states that a step may have; fewer are used where fewer are told apart.
        emission: "gaussian": an observation is a vector of numbers, a mean for every latent plus noise; "categorical":
            its entries are symbols (MultiDiscrete, MultiBinary), independent given the latent.
        rarest: successors of this probability are looked for: a row taken n times keeps (1 - rarest)^n of its mass for
            what was never seen. Smaller explores longer.
        freed: where that mass goes: "unseen", to a fictitious latent that is as good as possible; "seen", to the best
            of those that are known, which explores badly and is there for comparison.
    """

    latents: int
    emission: str = "gaussian"
    rarest: float = 0.5
    freed: str = "unseen"

    def __post_init__(self) -> None:
        """Check the settings."""
        if isinstance(self.latents, bool) or not isinstance(self.latents, int | np.integer) or self.latents < 1:
            raise ModelError(f"latents must be a whole number, at least 1; got {self.latents!r}")
        if self.emission not in EMISSIONS:
            raise ModelError(f"emission must be one of {', '.join(EMISSIONS)}; got {self.emission!r}")
        if not 0 < self.rarest <= 1:
            raise ModelError(f"rarest is a probability, above 0; got {self.rarest!r}")
        if self.freed not in FREED:
            raise ModelError(f"freed must be one of {', '.join(FREED)}; got {self.freed!r}")

    def start(
        self,
        pieces: Pieces,
        horizon: int,
        allowed: Bool[np.ndarray, "S A"],
        delta: float,
        *,
        dimension: int,
        symbols: int | None,
    ) -> "LatentKnowledge":
        """What is known before the first episode."""
        S, A = allowed.shape
        lists = np.broadcast_to(np.arange(S), (S, A, S))
        support = read_support(lists, np.array([S - 1]), allowed)
        noisy = np.array([one.noisy for _, one in pieces.observed], dtype=bool)
        family: AbstractFamily = Gaussian() if symbols is None else Categorical(symbols)
        reader = Reader.start(family, self.latents, (horizon, S, A), dimension, len(pieces.observed))
        counts = no_counts(support, noisy, horizon)
        return LatentKnowledge(counts, pieces, horizon, None, delta, "unseen", self, reader)


@final
@dataclass(frozen=True, eq=False)
class LatentKnowledge(AbstractCounted):
    """What decoded episodes say. Its counts are those of the latents as they are told apart today."""

    declared: Latent
    reader: Reader

    def update(self, *episodes: Episode) -> "LatentKnowledge":
        """Learn from episodes; where latents are told apart anew, all earlier ones are read again."""
        if not episodes:
            return self
        reader = self.reader.read(episodes)
        return replace(self, reader=reader, counts=_counts(self.counts, reader.seen))

    @property
    def seen(self) -> Tally:
        """What was counted."""
        return self.reader.seen

    @property
    def decoder(self) -> Decoder:
        """From observations to latents."""
        return self.reader.decoder

    def possible(self) -> Latents:
        """The worlds that exploring hopes for; nothing says that the truth is one of them."""
        allowed, model = self.counts.support.allowed, self.declared
        return latents_of(self.seen, self.pieces, model.rarest, model.freed, allowed)

    @property
    def certifies(self) -> bool:
        """Never: latents are decoded, not seen."""
        return False

    def playable(self, policy: Table) -> DecodedPolicy:
        """A table over latents as a policy for observations."""
        return DecodedPolicy(policy, self.decoder)

    @cached_property
    def _expected(self) -> tuple[Float[np.ndarray, "H S A S"], Float[np.ndarray, "H d S A"]]:
        """The law and the signals that are expected."""
        law, means = shrunk(self.seen)
        signals = np.zeros((self.horizon, self.pieces.stage.shape[1], *law.shape[1:3]))
        signals[:, [position for position, _ in self.pieces.observed]] = np.moveaxis(means, 3, 1)
        return law, signals

    def likely(self) -> Float[np.ndarray, "law S A K"]:
        """Frequencies, drawn a little towards what the actions of a latent do on average."""
        return self._expected[0]

    def features(self, mdp: TabularMDP) -> Psi:
        """The signals as they were seen on average."""
        return Psi(self._expected[1], self.pieces.visits, self.pieces.occupancy)

    def single(self, law: Float[np.ndarray, "law S A K"]) -> tuple[Known, Psi]:
        """A law for the exact planner, and the features under it."""
        start = start_estimate(self.counts, self.initial)
        psi = Psi(self._expected[1], self.pieces.visits, self.pieces.occupancy)
        return single_law(self.counts, law, start, self._lists), psi

    def drawn(self, rng: np.random.Generator) -> tuple[Known, Psi]:
        """One law by how likely it is, latents taken for certain."""
        return self.single(self._random(rng))

    def laws(self, rng: np.random.Generator, number: int) -> list[TabularMDP]:
        """Several such laws, as models."""
        return [self.model(self._random(rng)) for _ in range(number)]

    def _random(self, rng: np.random.Generator) -> Float[np.ndarray, "H S A S"]:
        weights = rng.standard_gamma((self.seen.pairs[..., None] + 1.0) * self.likely())
        total = weights.sum(axis=-1, keepdims=True)
        return np.where(total > 0, weights / np.where(total > 0, total, 1.0), self.likely())


def shrunk(seen: Tally) -> tuple[Float[np.ndarray, "H S A S"], Float[np.ndarray, "H S A o"]]:
    """Laws and means of signals with one more visit of every pair, which did what the tried actions do on average.

    Where no action of a latent was tried it stays, and pays nothing.
    """
    pairs = seen.pairs
    tried = pairs > 0
    share = tried / np.maximum(tried.sum(axis=-1, keepdims=True), 1)
    frequencies = seen.transitions / np.maximum(pairs, 1.0)[..., None]
    average = np.einsum("hsa,hsat->hst", share, frequencies)
    average[~tried.any(axis=-1)] = np.broadcast_to(np.eye(pairs.shape[1]), average.shape)[~tried.any(axis=-1)]
    law = (seen.transitions + average[:, :, None]) / (pairs + 1.0)[..., None]
    paid = np.einsum("hsa,hsao->hso", share, seen.means())
    return law, (seen.sums + paid[:, :, None]) / (pairs + 1.0)[..., None]


def _counts(before: Counts, seen: Tally) -> Counts:
    """Counts of the present latents, for whoever asks how often something was taken."""
    episodes = int(seen.starts.sum())
    return replace(before, transitions=seen.transitions, pairs=seen.pairs, starts=seen.starts, episodes=episodes)
