"""Optimistic laws over latents: the empirical law, with a free part of every row.

A row that was taken n times leaves the mass w = (1 - rarest)^n free: the probability that a successor of probability
`rarest` was never observed. The free mass goes to UNSEEN, a fictitious latent where every cost is the least possible
for ever after; the signals of that step count as the best possible as well. This is an L1 ball of radius 2 w around the
frequencies, with one corner outside their support. It is a heuristic: latents are decoded, not observed, and no theory
proves that the truth is inside.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.types import DeviceArray, place_on_device
from bidual.models._base import AbstractModel, Layout
from bidual.models.latent._decoded_counts import Tally
from bidual.problem.features import Pieces, Psi
from bidual.world.policies import DeterministicPolicy

FREED = ("unseen", "seen")  # where the free mass may go


@final
@dataclass(frozen=True, eq=False)
class Latents(AbstractModel):
    """Rows of latents, of UNSEEN (last but one) and of the end (last)."""

    law: Float[np.ndarray, "H S A S"]  # the part that is not free
    freed: Float[np.ndarray, "H S A"]  # the free mass of every row
    signals: Float[np.ndarray, "H d S A"]  # mean signals, times the mass that is not free
    start: Float[np.ndarray, "S"]
    low: Float[np.ndarray, "d"]
    high: Float[np.ndarray, "d"]
    at_end: Bool[np.ndarray, "d"]  # signals that only the last step of an episode has
    met: Bool[np.ndarray, "arrivals S"]  # the latents observed at every step
    to: str  # one of FREED
    allowed: Bool[np.ndarray, "S A"]

    @property
    def unseen(self) -> int:
        """The index of UNSEEN."""
        return len(self.start) - 2

    @property
    def end(self) -> int:
        """The index of the state after the end of an episode."""
        return len(self.start) - 1

    def restrict(self, psi: Pieces) -> Layout:
        """Return the mean signals; the planner adds the optimistic part, which depends on the cost."""
        signals = Psi(self.signals, psi.visits, psi.occupancy)
        return Layout(signals, place_on_device(self.signals.swapaxes(2, 3)), np.arange(len(self.start)))

    def policy(self, actions: Int[DeviceArray, "H R"]) -> DeterministicPolicy:
        """Return the planned actions over latents; the decoder of the knowledge maps observations to them."""
        return DeterministicPolicy(np.asarray(actions), self.freed.shape[2])


def build_latents(seen: Tally, pieces: Pieces, rarest: float, to: str, allowed: Bool[np.ndarray, "S A"]) -> Latents:
    """Build the optimistic laws around the counts of decoded episodes."""
    pairs = seen.pairs
    H, S, A = pairs.shape
    freed = (1.0 - rarest) ** pairs
    freed[:, S - 2], freed[:, S - 1] = 1.0, 0.0
    kept = 1.0 - freed
    law = seen.transitions * np.divide(kept, pairs, out=np.zeros_like(pairs), where=pairs > 0)[..., None]
    law[:, S - 1, :, :], law[:, S - 1, :, S - 1] = 0.0, 1.0
    positions = [position for position, _ in pieces.observed]
    signals = np.zeros((H, pieces.stage.shape[1], S, A))
    signals[:, positions] = np.moveaxis(seen.means() * kept[..., None], 3, 1)
    if to == "seen":  # no optimism about unobserved successors: untried actions get average signals
        average = seen.sums.sum(axis=(1, 2)) / np.maximum(pairs.sum(axis=(1, 2)), 1.0)[:, None]
        signals[:, positions] += freed[:, None] * average[:, :, None, None]
        signals[:, :, S - 1] = 0.0
    low, high = np.zeros((2, signals.shape[1]))
    at_end = np.zeros(signals.shape[1], dtype=bool)
    for position, one in pieces.observed:
        low[position], high[position], at_end[position] = one.low, one.high, one.at_end
    met = np.concatenate([(seen.starts > 0)[None], seen.transitions.sum(axis=(1, 2)) > 0])
    return Latents(law, freed, signals, _compute_start_law(seen, rarest), low, high, at_end, met, to, allowed)


def _compute_start_law(seen: Tally, rarest: float) -> Float[np.ndarray, "S"]:
    """Compute the frequencies of first latents, with their free part."""
    total = seen.starts.sum()
    free = (1.0 - rarest) ** total
    start = (1.0 - free) * seen.starts / max(total, 1.0)
    start[-2] += free
    return start
