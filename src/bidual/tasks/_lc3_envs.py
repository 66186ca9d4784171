"""The classic control systems of Gymnasium with continuous forces, as environments that never end early.

Plain NumPy in double precision, as in `_control_envs`. Where an episode begins is drawn from `reset(seed=...)`.
"""

from typing import Any, final

import gymnasium
import numpy as np
from jaxtyping import Float

from bidual.tasks._control_envs import AbstractPhysics
from bidual.tasks._lc3_laws import (
    FASTEST,
    LEFT,
    LINKS_FASTEST,
    RIGHT,
    observe_acrobot,
    step_acrobot,
    step_cartpole,
    step_mountain_car,
)


class AbstractScattered(AbstractPhysics):
    """Systems whose episodes begin in a box around the first state, uniformly distributed."""

    spread: Float[np.ndarray, "k"]  # half the sides of the box

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "n"], dict[str, Any]]:
        """Start at a random state near the first."""
        super().reset(seed=seed, options=options)
        self.state = self.first + self.np_random.uniform(-self.spread, self.spread)
        return self._observe(), {}


@final
class MountainCar(AbstractScattered):
    """Position and speed of a car at rest near the bottom of a valley, with an engine too weak to drive out at once."""

    def __init__(self) -> None:
        self.first, self.spread, self.most = np.array([-0.5, 0.0]), np.array([0.1, 0.0]), np.ones(1)
        ends = np.array([LEFT, -FASTEST]), np.array([RIGHT, FASTEST])
        self.observation_space = gymnasium.spaces.Box(*ends, dtype=np.float64)
        self.action_space = _compute_forces()

    def _next_state(self, state: Float[np.ndarray, "2"], u: Float[np.ndarray, "1"]) -> Float[np.ndarray, "2"]:
        return step_mountain_car(state, u, np)


@final
class CartPole(AbstractScattered):
    """Position and speed of a cart, angle and speed of the pole on it, which is nearly upright and may turn over."""

    def __init__(self) -> None:
        self.first, self.spread, self.most = np.zeros(4), np.full(4, 0.05), np.ones(1)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), dtype=np.float64)
        self.action_space = _compute_forces()

    def _next_state(self, state: Float[np.ndarray, "4"], u: Float[np.ndarray, "1"]) -> Float[np.ndarray, "4"]:
        return step_cartpole(state, u, np)


@final
class Acrobot(AbstractScattered):
    """Two links that hang from a hinge nearly at rest, with a torque between them.

    Seen are cosine and sine of both angles, and the speeds.
    """

    def __init__(self) -> None:
        self.first, self.spread, self.most = np.zeros(4), np.full(4, 0.1), np.ones(1)
        high = np.array([1.0, 1.0, 1.0, 1.0, *LINKS_FASTEST])
        self.observation_space = gymnasium.spaces.Box(-high, high, dtype=np.float64)
        self.action_space = _compute_forces()

    def _next_state(self, state: Float[np.ndarray, "4"], u: Float[np.ndarray, "1"]) -> Float[np.ndarray, "4"]:
        return step_acrobot(state, u, np)

    def _observe(self) -> Float[np.ndarray, "6"]:
        return observe_acrobot(self.state, np)


def _compute_forces() -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
