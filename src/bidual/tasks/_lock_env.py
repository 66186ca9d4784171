"""The combination lock of the block-MDP literature as a Gymnasium environment with rich observations."""

from typing import Any, final

import gymnasium
import numpy as np
from jaxtyping import Float, Int

ACTIONS = 10
GOOD, DEAD = 2, 2  # how many latents are good (0 and 1), and the number of the dead one
NOISE = 0.1


def build_hadamard(size: int) -> Float[np.ndarray, "D D"]:
    """Return Sylvester's matrix of a power of two: entries of 1 and -1, orthogonal rows."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def choose_dimension(horizon: int) -> int:
    """Return the least power of two that holds three latents, H steps and the end."""
    return 1 << (horizon + 3).bit_length()


def draw_combination(horizon: int, seed: int) -> Int[np.ndarray, "H good"]:
    """Draw the right action of every step in both good latents."""
    return np.random.default_rng(seed).integers(0, ACTIONS, (horizon, GOOD))


@final
class LockEnv(gymnasium.Env[Float[np.ndarray, "D"], Any]):
    """H steps, ten actions, two good latents and a dead one.

    The right action keeps one of the good latents, each with probability 1/2; every other action leads to the dead one
    for ever, with a reward of 0.1 with probability 1/2, which misleads greedy policies. The right action at the last
    step has the reward 1. An observation is (one-hot of the latent, one-hot of the step), noise of 0.1 on its first
    H + 3 numbers, zeros up to a power of two, all times a Hadamard matrix: every number depends on everything.

    Args:
        horizon: the number of steps H.
        seed: of the combination.
    """

    def __init__(self, horizon: int = 5, seed: int = 0) -> None:
        self.horizon, self.right = horizon, draw_combination(horizon, seed)
        self._matrix = build_hadamard(choose_dimension(horizon))
        size = len(self._matrix)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "D"], dict[str, Any]]:
        """Start in one of the good latents. All random numbers of an episode are drawn here."""
        super().reset(seed=seed)
        rng, H = self.np_random, self.horizon
        self._next = rng.integers(0, GOOD, H + 1)  # the latent at every step, while the combination is right
        self._consoled = rng.random(H) < 0.5
        self._noise = NOISE * rng.standard_normal((H + 1, H + 3)) @ self._matrix[: H + 3]
        self._step, self._latent = 0, int(self._next[0])
        return self._observation(), {}

    def step(self, action: int | np.integer) -> tuple[Float[np.ndarray, "D"], float, bool, bool, dict[str, Any]]:
        """Turn the lock once; it terminates after H turns."""
        h, good = self._step, self._latent < GOOD
        right = good and action == self.right[h, self._latent]
        reward = 0.0
        if right and h == self.horizon - 1:
            reward = 1.0
        elif good and not right:
            reward = 0.1 * float(self._consoled[h])
        self._step, self._latent = h + 1, int(self._next[h + 1]) if right else DEAD
        return self._observation(), reward, h + 1 == self.horizon, False, {}

    def _observation(self) -> Float[np.ndarray, "D"]:
        h = self._step
        return self._matrix[self._latent] + self._matrix[3 + h] + self._noise[h]
