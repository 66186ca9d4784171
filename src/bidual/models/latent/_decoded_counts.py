"""Statistics of decoded episodes: transitions between latents, and signals regressed on latent and action."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Tally(NamedTuple):
    """Numbers of transitions, and sums of signals and of their squares, for every step, latent and action."""

    transitions: Float[np.ndarray, "H S A S"]
    starts: Float[np.ndarray, "S"]
    sums: Float[np.ndarray, "H S A o"]
    squares: Float[np.ndarray, "H S A o"]

    @property
    def pairs(self) -> Float[np.ndarray, "H S A"]:
        """The number of times each action was taken in each latent."""
        return self.transitions.sum(axis=-1)

    def __add__(self, other: "Tally") -> "Tally":  # pyright: ignore[reportIncompatibleMethodOverride]: not a sequence
        return Tally(*(one + more for one, more in zip(self, other, strict=True)))

    def means(self) -> Float[np.ndarray, "H S A o"]:
        """Compute the mean signals of every step, latent and action; 0 where there is no sample."""
        n = self.pairs[..., None]
        return np.divide(self.sums, n, out=np.zeros_like(self.sums), where=n > 0)

    def errors(self) -> tuple[Float[np.ndarray, "o"], Float[np.ndarray, "o"]]:
        """Compute the root mean squares of every signal's residual given latent and action, and of its variation.

        Degrees of freedom are taken into account: a cell with one observation carries no information about the error.
        """
        n = self.pairs[..., None]
        within = (self.squares - self.sums * self.means()).sum(axis=(0, 1, 2))
        left = max(float(np.maximum(n - 1, 0).sum()), 1.0)
        total, steps = max(float(n.sum()), 1.0), n.sum(axis=(1, 2))
        mean = self.sums.sum(axis=(1, 2)) / np.maximum(steps, 1.0)
        varied = self.squares.sum(axis=(0, 1, 2)) - (steps * mean**2).sum(axis=0)
        return np.sqrt(np.maximum(within, 0) / left), np.sqrt(np.maximum(varied, 0) / total)


def count_episodes(
    latents: Int[np.ndarray, "arrivals n"],
    actions: Int[np.ndarray, "H n"],
    signals: Float[np.ndarray, "H n o"],
    shape: tuple[int, int, int],
) -> Tally:
    """Count the transitions of decoded episodes, and sum their signals."""
    H, S, A = shape
    rows = (np.arange(H)[:, None] * S + latents[:-1]) * A + actions
    transitions = np.bincount((rows * S + latents[1:]).ravel(), minlength=H * S * A * S)
    o = signals.shape[2]
    sums, squares = np.zeros((2, H * S * A, o))
    for i in range(o):
        values = signals[..., i].ravel()
        sums[:, i] = np.bincount(rows.ravel(), values, minlength=len(sums))
        squares[:, i] = np.bincount(rows.ravel(), values * values, minlength=len(sums))
    return Tally(
        transitions.reshape(H, S, A, S).astype(np.float64),
        np.bincount(latents[0], minlength=S).astype(np.float64),
        sums.reshape(H, S, A, o),
        squares.reshape(H, S, A, o),
    )
