"""Touch a point with an arm of two links and little torque: Gymnasium's Reacher, with features that one writes oneself.

python examples/reacher.py 12, or: bidual learn examples/reacher.py --episodes 12 --out results
(needs MuJoCo: pip install 'bidual[mujoco]')
"""

import sys

import cvxpy as cp
import gymnasium
import jax.numpy as jnp
from jax import Array

import bidual as bd

horizon, budget = 50, 1.0
env = gymnasium.make("Reacher-v5")


def motion(obs: Array, control: Array) -> Array:
    """What a step may depend on: speeds, torques, and both turned into the directions of the links.

    An observation is (cos, cos, sin, sin) of both angles, the place of the point, both speeds, and finger less point.
    """
    (c1, c2, s1, s2), speeds = obs[:4], obs[6:8]
    c, s = c1 * c2 - s1 * s2, s1 * c2 + c1 * s2  # of the second link, seen from the ground
    moved = jnp.concatenate([speeds, control])
    directions = jnp.stack([c1, s1, c2, s2, c, s])
    bend = jnp.stack([speeds[0] ** 2, speeds[1] ** 2, speeds[0] * speeds[1]])
    return jnp.concatenate([moved, jnp.outer(directions, moved).ravel(), jnp.outer(directions, bend).ravel()])


signals = bd.features.computed(
    distance=bd.features.signal(lambda obs, control, next_obs: jnp.sqrt(jnp.sum(next_obs[8:] ** 2) + 1e-8), 0.0, 0.5),
    effort=bd.features.signal(lambda obs, control, next_obs: control @ control, 0.0, 2.0),
)
x = signals.embedding(horizon, total=True)
problem = bd.Problem(cp.Minimize(x.distance), {"effort": x.effort <= budget})

model = bd.models.KNR(bd.features.mapped(motion, 4 + 24 + 18), ridge=1e-3)
# Every episode has another point to touch, so it must be planned again.
explorer = bd.explorers.Controls(
    bd.control.Thompson(0.3), bd.control.icem(64, 4), bd.control.Mpc(2, 15), rollouts=8, push=0.3
)

if __name__ == "__main__":
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    print(bd.learn(problem, env, model, episodes=episodes, evaluation=10, explorer=explorer))
