"""Reading observations: a mixture for every step, fitted again now and then, and everything counted by it.

A step's mixture is fitted again when its observations have grown by half, or when one of them fits no latent. All its
earlier observations are then read again, so that counts never mix two ways of telling latents apart. The number of
fits grows like the logarithm of the number of episodes, and what one costs like that number: O(1) per episode.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._errors import EnvError
from bidual._types import Episode
from bidual.models._archive import Archive
from bidual.models._decoded_counts import Tally, tally
from bidual.models._families import AbstractFamily
from bidual.models._mixtures import Emission, fitted
from bidual.models._separation import strangers
from bidual.policies import Decoder

_FEWEST = 3  # observations that can show two latents and noise
_MOST = 512  # observations of a latent that a fit looks at
_LATEST = 64  # observations that it looks at in any case


@final
@dataclass(frozen=True, eq=False)
class Reader:
    """All observations so far, how they are read, and what that says."""

    family: AbstractFamily
    most: int  # latents
    shape: tuple[int, int, int]
    decoder: Decoder
    observations: Archive  # (arrivals, n, D)
    actions: Archive  # (H, n)
    signals: Archive  # (H, n, o)
    latents: Archive  # (arrivals, n), the end included
    fitted_at: Int[np.ndarray, "arrivals"]  # how many observations the mixture of a step was fitted to
    seen: Tally

    @staticmethod
    def start(family: AbstractFamily, most: int, shape: tuple[int, int, int], dimension: int, signals: int) -> "Reader":
        """Before the first episode."""
        H = shape[0]
        nothing = np.zeros((H + 1, 0), dtype=np.int64)
        return Reader(
            family,
            most,
            shape,
            Decoder((None,) * (H + 1), dimension),
            Archive.empty(H + 1, (dimension,), np.float32),
            Archive.empty(H, (), np.int64),
            Archive.empty(H, (signals,), np.float64),
            Archive.empty(H + 1, (), np.int64),
            np.zeros(H + 1, dtype=np.int64),
            tally(nothing, nothing[:-1], np.zeros((H, 0, signals)), shape),
        )

    def read(self, episodes: Sequence[Episode]) -> "Reader":
        """Everything after these episodes too."""
        shown, ended = _shown(episodes, self.shape[1] - 1)
        actions = np.stack([one.actions for one in episodes], axis=1).astype(np.int64)
        signals = np.stack([one.observed for one in episodes], axis=1)
        latents = self._decoded(shown, ended)
        added = replace(
            self,
            observations=self.observations.add(shown),
            actions=self.actions.add(actions),
            signals=self.signals.add(signals),
            latents=self.latents.add(latents),
        )
        due = self._due(shown, ended, added)
        if due.size:
            return added._again(due)
        return replace(added, seen=self.seen + tally(latents, actions, signals, self.shape))

    def _decoded(
        self, shown: Float[np.ndarray, "arrivals n D"], ended: Bool[np.ndarray, "arrivals n"]
    ) -> Int[np.ndarray, "arrivals n"]:
        latents = np.full(ended.shape, self.shape[1] - 1, dtype=np.int64)
        for h, alive in enumerate(~ended):
            if alive.any():
                latents[h, alive] = self.decoder.latents(h, shown[h, alive])
        return latents

    def _due(
        self, shown: Float[np.ndarray, "arrivals n D"], ended: Bool[np.ndarray, "arrivals n"], added: "Reader"
    ) -> Int[np.ndarray, "due"]:
        """The steps whose mixtures have to be fitted again."""
        alive = (added.latents.rows != self.shape[1] - 1).sum(axis=1)
        due = (alive > 0) & (alive >= np.where(self.fitted_at >= _FEWEST, 1.5 * self.fitted_at, self.fitted_at + 1))
        for h in np.flatnonzero(~due & ~ended.all(axis=1)):
            due[h] = self._odd(int(h), shown[h, ~ended[h]])
        return np.flatnonzero(due)

    def _odd(self, h: int, shown: Float[np.ndarray, "n D"]) -> bool:
        """Whether one of these observations is of a latent that is not known yet."""
        emission = self.decoder.steps[h]
        if emission is None or emission.size >= self.most:
            return False
        sizes = emission.weights * self.fitted_at[h]
        x = self.family.coordinates(shown)
        noise = emission.noise, emission.freedom, emission.steadiness
        return bool(strangers(x, emission.centres, sizes, *noise).any())

    def _again(self, due: Int[np.ndarray, "due"]) -> "Reader":
        """The mixtures of some steps fitted again, and everything counted anew."""
        steps, latents, fitted_at = list(self.decoder.steps), self.latents.rows.copy(), self.fitted_at.copy()
        for h in due.tolist():
            alive = np.flatnonzero(latents[h] != self.shape[1] - 1)
            shown = self.observations.rows[h, alive].astype(np.float64)
            steps[h] = _fit(self.family, shown, latents[h, alive], self.most, steps[h])
            latents[h, alive] = steps[h].decode(shown)
            fitted_at[h] = alive.size
        return replace(
            self,
            decoder=replace(self.decoder, steps=tuple(steps)),
            latents=Archive.empty(len(latents), (), np.int64).add(latents),
            fitted_at=fitted_at,
            seen=tally(latents, self.actions.rows, self.signals.rows, self.shape),
        )


def _fit(
    family: AbstractFamily,
    shown: Float[np.ndarray, "n D"],
    latents: Int[np.ndarray, "n"],
    most: int,
    warm: Emission | None,
) -> Emission:
    """A mixture of all observations, or where there are many, of some of every latent and of the latest."""
    if len(shown) <= _MOST:
        return fitted(family, shown, most, warm)
    chosen = [np.arange(len(shown) - _LATEST, len(shown))]
    for latent in np.unique(latents):
        members = np.flatnonzero(latents == latent)
        chosen.append(members[np.linspace(0, members.size - 1, min(members.size, _MOST)).astype(np.int64)])
    emission = fitted(family, shown[np.unique(np.concatenate(chosen))], most, warm)
    counts = np.bincount(emission.decode(shown), minlength=emission.size)
    return replace(emission, weights=(counts + 1.0) / (counts + 1.0).sum())


def _shown(
    episodes: Sequence[Episode], end: int
) -> tuple[Float[np.ndarray, "arrivals n D"], Bool[np.ndarray, "arrivals n"]]:
    """The observations of every step, and where there are none because the episode was over."""
    vectors = []
    for one in episodes:
        if one.observations is None:
            raise EnvError(
                "latents are learned from observations, but an episode has none: learn from a RichEnvironment"
            )
        vectors.append(one.observations)
    return np.stack(vectors, axis=1), np.stack([one.states for one in episodes], axis=1) == end
