"""Vectors under controls as Gymnasium environments: a double integrator, a point mass in the plane, a pendulum.

All are plain NumPy in double precision. Random numbers come from `reset(seed=...)`; no episode ends early.
Rewards are 0: the objective of a task is computed by its signals from observations and controls.
"""

import abc
from typing import Any, final

import gymnasium
import numpy as np
from jaxtyping import Float

from bidual.tasks._control_laws import PendulumLaw, step_integrator, step_pendulum, step_point_mass


class AbstractPhysics(gymnasium.Env[Float[np.ndarray, "n"], Float[np.ndarray, "m"]]):
    """A state that moves and its observation; controls are clipped to their limits."""

    first: Float[np.ndarray, "k"]  # the state at the beginning
    most: Float[np.ndarray, "m"]  # of every control, in both directions

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "n"], dict[str, Any]]:
        """Start at the first state, where every episode begins."""
        super().reset(seed=seed)
        self.state = self.first.copy()
        return self._observe(), {}

    def step(self, action: Float[np.ndarray, "m"]) -> tuple[Float[np.ndarray, "n"], float, bool, bool, dict[str, Any]]:
        """Advance by one step."""
        u = np.clip(np.asarray(action, dtype=np.float64), -self.most, self.most)
        self.state = self._next_state(self.state, u)
        return self._observe(), 0.0, False, False, {}

    @abc.abstractmethod
    def _next_state(self, state: Float[np.ndarray, "k"], u: Float[np.ndarray, "m"]) -> Float[np.ndarray, "k"]:
        """Return the next state."""

    def _observe(self) -> Float[np.ndarray, "n"]:
        return self.state.copy()


@final
class DoubleIntegrator(AbstractPhysics):
    """Position and speed on a line, from (1, 0), under a force: linear, with noise on both.

    Args:
        noise: the deviation of the noise of a step.
        force: the largest force.
    """

    def __init__(self, noise: float, force: float) -> None:
        self.noise, self.first, self.most = noise, np.array([1.0, 0.0]), np.array([force])
        self.observation_space, self.action_space = _make_box(np.full(2, np.inf)), _make_box(self.most)

    def _next_state(self, state: Float[np.ndarray, "2"], u: Float[np.ndarray, "1"]) -> Float[np.ndarray, "2"]:
        return step_integrator(state, u) + self.noise * self.np_random.standard_normal(2)


@final
class PointMass(AbstractPhysics):
    """Place and velocity in the plane, from rest at the origin, pushed by controls, a wind and a drag.

    Args:
        noise: the deviation of the noise of a step, of place and velocity alike.
    """

    def __init__(self, noise: float) -> None:
        self.noise, self.first, self.most = noise, np.zeros(4), np.ones(2)
        self.observation_space, self.action_space = _make_box(np.full(4, np.inf)), _make_box(self.most)

    def _next_state(self, state: Float[np.ndarray, "4"], u: Float[np.ndarray, "2"]) -> Float[np.ndarray, "4"]:
        return step_point_mass(state, u, np) + self.noise * self.np_random.standard_normal(4)


@final
class Pendulum(AbstractPhysics):
    """A rod on a hinge with a motor too weak to lift it at once, hanging at rest; angle 0 is upright.

    Seen are cosine and sine of the angle, and the speed.

    Args:
        law: sizes, units and how long a control is held.
    """

    def __init__(self, law: PendulumLaw) -> None:
        self.law, self.first, self.most = law, np.array([np.pi, 0.0]), np.array([law.torque])
        self.observation_space, self.action_space = _make_box(np.array([1.0, 1.0, law.fastest])), _make_box(self.most)

    def _next_state(self, state: Float[np.ndarray, "2"], u: Float[np.ndarray, "1"]) -> Float[np.ndarray, "2"]:
        return step_pendulum(self.law, state, u, np)

    def _observe(self) -> Float[np.ndarray, "3"]:
        angle, speed = self.state
        return np.array([np.cos(angle), np.sin(angle), speed])


def _make_box(high: Float[np.ndarray, "k"]) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-high, high, dtype=np.float64)
