"""The reader of observations: a mixture for every step, refitted now and then, and counts of the decoded latents.

A step's mixture is refitted when its observations have grown by half, or when one of them fits no latent. All its
earlier observations are then decoded again, so that counts never mix two decoders. The number of fits grows like the
logarithm of the number of episodes, and the cost of one like that number: O(1) per episode.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bidual._base.errors import EnvError
from bidual._base.types import Episode
from bidual.models.latent._decoded_counts import Tally, count_episodes
from bidual.models.latent._expectation_maximisation import ExpectationMaximisation, MixtureClass, MixtureOracle
from bidual.models.latent._mixtures import AbstractEmissionFamily, Emission, find_strangers
from bidual.world.policies import Decoder


@final
class GrowingRows:
    """The first `count` rows of a shared buffer, along its second axis: the first is for the steps of an episode.

    The rows of one instance never change: the data after t episodes are the first t rows, and later rows are appended
    behind them without a copy. Appending to an older instance copies its rows to a buffer of its own.
    """

    def __init__(self, buffer: Shaped[np.ndarray, "steps capacity *rest"], count: int, tail: list[int]) -> None:
        self._buffer, self.count = buffer, count
        self._tail = tail  # number of rows written, shared by all instances on this buffer

    @staticmethod
    def empty(steps: int, rest: tuple[int, ...], dtype: type) -> "GrowingRows":
        """Return an archive without rows."""
        return GrowingRows(np.zeros((steps, 0, *rest), dtype=dtype), 0, [0])

    @staticmethod
    def of(rows: Shaped[np.ndarray, "steps n *rest"]) -> "GrowingRows":
        """Return an archive of these rows."""
        return GrowingRows(rows, rows.shape[1], [rows.shape[1]])

    @property
    def rows(self) -> Shaped[np.ndarray, "steps n *rest"]:
        """All rows."""
        return self._buffer[:, : self.count]

    def add(self, rows: Shaped[np.ndarray, "steps more *rest"]) -> "GrowingRows":
        """Append rows."""
        total, buffer, tail = self.count + rows.shape[1], self._buffer, self._tail
        if tail[0] != self.count or total > buffer.shape[1]:
            shape = (buffer.shape[0], max(64, 2 * total), *buffer.shape[2:])
            buffer, tail = np.zeros(shape, dtype=buffer.dtype), [self.count]
            buffer[:, : self.count] = self.rows
        buffer[:, self.count : total] = rows
        tail[0] = total
        return GrowingRows(buffer, total, tail)


_FEWEST = 3  # observations that can reveal two latents and noise
_MOST = 512  # observations of a latent in one fit
_LATEST = 64  # latest observations, which are in every fit


@final
@dataclass(frozen=True, eq=False)
class Reader:
    """All observations so far, their decoder, and the resulting counts."""

    family: AbstractEmissionFamily
    most: int  # latents
    shape: tuple[int, int, int]
    decoder: Decoder
    observations: GrowingRows  # (arrivals, n, D)
    actions: GrowingRows  # (H, n)
    signals: GrowingRows  # (H, n, o)
    latents: GrowingRows  # (arrivals, n), the end included
    fitted_at: Int[np.ndarray, "arrivals"]  # number of observations in the fit of every step
    seen: Tally
    oracle: MixtureOracle | None = None  # None: `ExpectationMaximisation`

    @staticmethod
    def start(
        family: AbstractEmissionFamily,
        most: int,
        shape: tuple[int, int, int],
        dimension: int,
        signals: int,
        oracle: MixtureOracle | None = None,
    ) -> "Reader":
        """Return the reader before the first episode."""
        H = shape[0]
        nothing = np.zeros((H + 1, 0), dtype=np.int64)
        return Reader(
            family,
            most,
            shape,
            Decoder((None,) * (H + 1), dimension),
            GrowingRows.empty(H + 1, (dimension,), np.float32),
            GrowingRows.empty(H, (), np.int64),
            GrowingRows.empty(H, (signals,), np.float64),
            GrowingRows.empty(H + 1, (), np.int64),
            np.zeros(H + 1, dtype=np.int64),
            count_episodes(nothing, nothing[:-1], np.zeros((H, 0, signals)), shape),
            oracle,
        )

    def read(self, episodes: Sequence[Episode]) -> "Reader":
        """Add episodes, and refit the mixtures that are due."""
        points, ended = _read_observations(episodes, self.shape[1] - 1)
        actions = np.stack([one.actions for one in episodes], axis=1).astype(np.int64)
        signals = np.stack([one.observed for one in episodes], axis=1)
        latents = self._decode(points, ended)
        added = replace(
            self,
            observations=self.observations.add(points),
            actions=self.actions.add(actions),
            signals=self.signals.add(signals),
            latents=self.latents.add(latents),
        )
        due = self._find_due(points, ended, added)
        if due.size:
            return added._refit(due)
        return replace(added, seen=self.seen + count_episodes(latents, actions, signals, self.shape))

    def check(self) -> None:
        """Check that all parts are of the same episodes; raise `ValueError` where they are not."""
        (H, S, A), n = self.shape, self.actions.count
        points, signals, steps = self.observations.rows, self.signals.rows, self.decoder.steps
        whole = ((self.actions.rows, H, A), (self.latents.rows, H + 1, S), (self.fitted_at[:, None], H + 1, n + 1))
        for rows, count, most in whole:
            fits = rows.dtype == np.int64 and rows.ndim == 2 and len(rows) == count
            if not (fits and (not rows.size or 0 <= rows.min() <= rows.max() < most)):
                raise ValueError("its actions, latents or fits are not those of its steps")
        shapes = ((points, (H + 1, n, self.decoder.dimension)), (signals, (H, n, signals.shape[-1])))
        finite = all(array.shape == shape and np.isfinite(array).all() for array, shape in shapes)
        if not finite or self.latents.rows.shape != (H + 1, n) or points.dtype != np.float32:
            raise ValueError("its observations and signals are not those of its episodes")
        if len(steps) != H + 1 or any(one is not None and one.size > self.most for one in steps):
            raise ValueError("its decoder is not one of its steps")
        counted = count_episodes(self.latents.rows, self.actions.rows, signals, self.shape)
        same = (np.array_equal(one, other) for one, other in zip(counted[:2], self.seen[:2], strict=True))
        if not (all(same) and all(one.shape == other.shape for one, other in zip(counted, self.seen, strict=True))):
            raise ValueError("its counts are not those of the latents")

    def _decode(
        self, points: Float[np.ndarray, "arrivals n D"], ended: Bool[np.ndarray, "arrivals n"]
    ) -> Int[np.ndarray, "arrivals n"]:
        latents = np.full(ended.shape, self.shape[1] - 1, dtype=np.int64)
        for h, alive in enumerate(~ended):
            if alive.any():
                latents[h, alive] = self.decoder.latents(h, points[h, alive])
        return latents

    def _find_due(
        self, points: Float[np.ndarray, "arrivals n D"], ended: Bool[np.ndarray, "arrivals n"], added: "Reader"
    ) -> Int[np.ndarray, "due"]:
        """Find the steps whose mixtures have to be refitted."""
        alive = (added.latents.rows != self.shape[1] - 1).sum(axis=1)
        due = (alive > 0) & (alive >= np.where(self.fitted_at >= _FEWEST, 1.5 * self.fitted_at, self.fitted_at + 1))
        for h in np.flatnonzero(~due & ~ended.all(axis=1)):
            due[h] = self._has_stranger(int(h), points[h, ~ended[h]])
        return np.flatnonzero(due)

    def _has_stranger(self, h: int, points: Float[np.ndarray, "n D"]) -> bool:
        """Return whether one of these observations belongs to no known latent."""
        emission = self.decoder.steps[h]
        if emission is None or emission.size >= self.most:
            return False
        sizes = emission.weights * self.fitted_at[h]
        x = self.family.coordinates(points)
        noise = emission.noise, emission.freedom, emission.steadiness
        return bool(find_strangers(x, emission.centres, sizes, *noise).any())

    def _refit(self, due: Int[np.ndarray, "due"]) -> "Reader":
        """Refit the mixtures of some steps, and count everything anew."""
        steps, latents, fitted_at = list(self.decoder.steps), self.latents.rows.copy(), self.fitted_at.copy()
        for h in due.tolist():
            alive = np.flatnonzero(latents[h] != self.shape[1] - 1)
            points = self.observations.rows[h, alive].astype(np.float64)
            oracle, mixtures = self.oracle or ExpectationMaximisation(), MixtureClass(self.family, self.most)
            steps[h] = _fit_step(oracle, mixtures, points, latents[h, alive], steps[h])
            latents[h, alive] = steps[h].decode(points)
            fitted_at[h] = alive.size
        return replace(
            self,
            decoder=replace(self.decoder, steps=tuple(steps)),
            latents=GrowingRows.empty(len(latents), (), np.int64).add(latents),
            fitted_at=fitted_at,
            seen=count_episodes(latents, self.actions.rows, self.signals.rows, self.shape),
        )


def _fit_step(
    oracle: MixtureOracle,
    mixtures: MixtureClass,
    points: Float[np.ndarray, "n D"],
    latents: Int[np.ndarray, "n"],
    warm: Emission | None,
) -> Emission:
    """Fit a mixture to all observations, or where there are many, to some of every latent and the latest."""
    if len(points) <= _MOST:
        return oracle(mixtures, points, warm)
    chosen = [np.arange(len(points) - _LATEST, len(points))]
    for latent in np.unique(latents):
        members = np.flatnonzero(latents == latent)
        chosen.append(members[np.linspace(0, members.size - 1, min(members.size, _MOST)).astype(np.int64)])
    emission = oracle(mixtures, points[np.unique(np.concatenate(chosen))], warm)
    counts = np.bincount(emission.decode(points), minlength=emission.size)
    return replace(emission, weights=(counts + 1.0) / (counts + 1.0).sum())


def _read_observations(
    episodes: Sequence[Episode], end: int
) -> tuple[Float[np.ndarray, "arrivals n D"], Bool[np.ndarray, "arrivals n"]]:
    """Read the observations of every step, and a mask of the steps after the end of an episode."""
    vectors = []
    for one in episodes:
        if one.observations is None:
            raise EnvError(
                "latents are learned from observations, but an episode has none: learn from a RichEnvironment"
            )
        vectors.append(one.observations)
    return np.stack(vectors, axis=1), np.stack([one.states for one in episodes], axis=1) == end
