"""What may be true of a world of latents: the law that was seen, and a part of every row that is anybody's guess.

A row that was taken n times leaves w = (1 - rarest)^n free: so likely it is that a successor of probability `rarest`
was never seen. What is free goes to UNSEEN, a latent that nobody has met, where everything costs the least that is
possible for ever after; the signals of that step count as the best possible as well. This is an L1 ball of radius 2 w
around the frequencies, with one corner that the frequencies do not know. It is a heuristic: latents are decoded, not
seen, and no theory says that the truth is inside.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._types import Placed, placed
from bidual.features import Pieces, Psi
from bidual.models._base import AbstractModel, Layout
from bidual.models._decoded_counts import Tally
from bidual.policies import DeterministicPolicy

FREED = ("unseen", "seen")  # where the mass that is free may go


@final
@dataclass(frozen=True, eq=False)
class Latents(AbstractModel):
    """Rows of latents, of UNSEEN (last but one) and of the end (last)."""

    law: Float[np.ndarray, "H S A S"]  # what is not free
    freed: Float[np.ndarray, "H S A"]  # the mass of every row that is
    signals: Float[np.ndarray, "H d S A"]  # the means of what was seen, times what is not free
    start: Float[np.ndarray, "S"]
    low: Float[np.ndarray, "d"]
    high: Float[np.ndarray, "d"]
    at_end: Bool[np.ndarray, "d"]  # signals that are paid once, by the step that ends an episode
    met: Bool[np.ndarray, "arrivals S"]  # which latents were seen at every step
    to: str  # one of FREED
    allowed: Bool[np.ndarray, "S A"]

    @property
    def unseen(self) -> int:
        """The number of UNSEEN."""
        return len(self.start) - 2

    @property
    def end(self) -> int:
        """The number of the state after the end of an episode."""
        return len(self.start) - 1

    def restrict(self, psi: Pieces) -> Layout:
        """The means of the signals; the planner adds what is hoped for, which depends on the cost."""
        signals = Psi(self.signals, psi.visits, psi.occupancy)
        return Layout(signals, placed(self.signals.swapaxes(2, 3)), np.arange(len(self.start)))

    def policy(self, actions: Int[Placed, "H R"]) -> DeterministicPolicy:
        """The planned actions, over latents: what is known says which observations are of them."""
        return DeterministicPolicy(np.asarray(actions), self.freed.shape[2])


def latents_of(seen: Tally, pieces: Pieces, rarest: float, to: str, allowed: Bool[np.ndarray, "S A"]) -> Latents:
    """All worlds around what was seen."""
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
    if to == "seen":  # nothing is hoped for that was not seen: what was not tried pays what others paid on average
        average = seen.sums.sum(axis=(1, 2)) / np.maximum(pairs.sum(axis=(1, 2)), 1.0)[:, None]
        signals[:, positions] += freed[:, None] * average[:, :, None, None]
        signals[:, :, S - 1] = 0.0
    low, high = np.zeros((2, signals.shape[1]))
    at_end = np.zeros(signals.shape[1], dtype=bool)
    for position, one in pieces.observed:
        low[position], high[position], at_end[position] = one.low, one.high, one.at_end
    met = np.concatenate([(seen.starts > 0)[None], seen.transitions.sum(axis=(1, 2)) > 0])
    return Latents(law, freed, signals, _start(seen, rarest), low, high, at_end, met, to, allowed)


def _start(seen: Tally, rarest: float) -> Float[np.ndarray, "S"]:
    """Where episodes began, and the part of it that is free."""
    total = seen.starts.sum()
    free = (1.0 - rarest) ** total
    start = (1.0 - free) * seen.starts / max(total, 1.0)
    start[-2] += free
    return start
