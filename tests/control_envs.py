"""Small Gymnasium environments with vectors and controls."""

import gymnasium
import numpy as np


class Slider(gymnasium.Env):
    """A noisy double integrator, from (1, 0): position and speed, and a force up to `most` either way."""

    def __init__(self, noise=0.02, start=0.0, ends=None, breaks=None, discrete=False, most=2.0):
        self.noise, self.start, self.ends, self.breaks = noise, start, ends, breaks
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        force = gymnasium.spaces.Box(-most, most, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(3) if discrete else force

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.state = 0, np.array([1.0, 0.0]) + self.start * self.np_random.standard_normal(2)
        return self.state.copy(), {}

    def step(self, action):
        force = float(action) - 1.0 if isinstance(self.action_space, gymnasium.spaces.Discrete) else float(action[0])
        self.count += 1
        x, v = self.state
        moved = np.array([x + 0.2 * v, v + 0.2 * force]) + self.noise * self.np_random.standard_normal(2)
        self.state = np.full(2, np.nan) if self.count == self.breaks else moved
        return self.state.copy(), 0.0, self.count == self.ends, False, {}
