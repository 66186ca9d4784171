"""A drone that is to hover over its pad in a wind that nobody told it of, on a budget of energy.

python examples/drone.py 20, or: bidual learn examples/drone.py --episodes 20 --out results
"""

import sys
from typing import Any

import cvxpy as cp
import gymnasium
import numpy as np

import bidual as bd

STEPS, WIND, GUSTS, BUDGET = 30, 0.15, 0.02, 6.0


class Drone(gymnasium.Env[Any, Any]):
    """Positions and speeds in a plane, pushed by two thrusters and by a west wind that is stronger higher up."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (4,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start two metres from the pad."""
        super().reset(seed=seed)
        self.state = np.append(self.np_random.normal([1.5, 1.0], 0.1), [0.0, 0.0])
        return self.state.astype(np.float32), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Push for a fifth of a second."""
        position, speed = self.state[:2], self.state[2:]
        wind = np.array([WIND * (1 + 0.3 * np.tanh(position[1])), 0.0]) + self.np_random.normal(0, GUSTS, 2)
        speed = 0.95 * speed + 0.2 * (np.clip(action, -1, 1) + wind)
        self.state = np.clip(np.append(position + 0.2 * speed, speed), -10, 10)
        return self.state.astype(np.float32), 0.0, False, False, {}


env = Drone()
signals = bd.features.computed(
    distance=bd.features.signal("next_obs[0] ** 2 + next_obs[1] ** 2", 0.0, 200.0),
    energy=bd.features.signal("control[0] ** 2 + control[1] ** 2", 0.0, 2.0),
)
x = signals.embedding(STEPS, total=True)
problem = bd.Problem(cp.Minimize(x.distance), {"energy": x.energy <= BUDGET})
model = bd.models.KNR(bd.features.fourier(64, 2.0, scales=(2.0, 2.0, 1.0, 1.0, 1.0, 1.0)), ridge=1e-4)

if __name__ == "__main__":
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    learned = bd.learn(problem, env, model, episodes=episodes, evaluation=10)
    print(learned)
    learned.save("drone.bidual")
    actor, (observation, _) = bd.load("drone.bidual").reset(rng=0), env.reset(seed=1)
    for _ in range(STEPS):
        observation, *_ = env.step(actor.act(observation))
    print(f"after {STEPS} steps the drone is {float(np.hypot(*observation[:2])):.2f} m from its pad")
