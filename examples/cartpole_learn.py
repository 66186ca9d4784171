"""Keep a pole upright without leaving the middle of the track: CartPole with its observations cut into cells.

python examples/cartpole_learn.py 3000, or: bidual learn examples/cartpole_learn.py --episodes 3000 --out results
"""

import sys

import cvxpy as cp
import numpy as np

import bidual as bd

CUTS = ([-0.8, 0.8], [-0.5, 0.5], [-0.1, -0.03, 0.0, 0.03, 0.1], [-0.6, 0.0, 0.6])  # position, speed, angle, its speed
SHAPE = tuple(len(cuts) + 1 for cuts in CUTS)


def cell(obs: np.ndarray) -> int:
    """The number of the cell that an observation lies in."""
    return int(np.ravel_multi_index([np.searchsorted(*pair) for pair in zip(CUTS, obs, strict=True)], SHAPE))


horizon = 100
env = bd.envs.gymnasium_environment("CartPole-v1", horizon, states=cell, num_states=int(np.prod(SHAPE)))
x = bd.features.signals(
    upright=lambda t: not t.terminated,
    edge=lambda t: not t.terminated and abs(t.next_obs[0]) > 0.8,
).embedding(horizon)
problem = bd.Problem(cp.Maximize(cp.sum(x.upright)), {"edge": cp.sum(x.edge) <= 5})

if __name__ == "__main__":
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    print(bd.learn(problem, env, episodes=episodes))
