"""Drive out of a valley on a budget: Gymnasium's MountainCarContinuous, whose episodes end at the flag.

python examples/mountain_car.py 15, or: bidual learn examples/mountain_car.py --episodes 15 --out results
"""

import sys

import cvxpy as cp
import gymnasium
import jax.numpy as jnp
from jax import Array

import bidual as bd

FLAG, horizon, budget = 0.45, 200, 50.0
env = gymnasium.make("MountainCarContinuous-v0")


def left(obs: Array, control: Array, next_obs: Array) -> Array:
    """The way that is left: signals are 0 after the end of an episode, so that whoever is there pays nothing."""
    return jnp.maximum(FLAG - next_obs[0], 0.0)


def effort(obs: Array, control: Array, next_obs: Array) -> Array:
    """Only on the way: the learned model does not know that episodes end."""
    return jnp.where(obs[0] < FLAG, control @ control, 0.0)


signals = bd.features.computed(left=bd.features.signal(left, 0.0, 1.65), effort=bd.features.signal(effort, 0.0, 1.0))
x = signals.embedding(horizon, total=True)
problem = bd.Problem(cp.Minimize(x.left), {"effort": x.effort <= budget})

# Positions are about 1 and speeds 0.07; the flag is a hundred steps away, which a plan must see.
model = bd.models.KNR(bd.features.fourier(100, 1.3, scales=(1.0, 0.07, 1.0)), ridge=1e-4)
explorer = bd.explorers.Controls(
    bd.control.Thompson(0.3), bd.control.icem(128, 5, deviation=1.0), bd.control.Mpc(10, 110), rollouts=4
)

if __name__ == "__main__":
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    solution = bd.learn(problem, env, model, episodes=episodes, evaluation=10, explorer=explorer)
    print(solution)
    control, (obs, _) = solution.policy.reset(0), env.reset(seed=0)
    earned, steps, ended = 0.0, 0, False
    while not ended and steps < horizon:
        obs, reward, ended, _, _ = env.step(control.act(obs))
        earned, steps = earned + float(reward), steps + 1
    print(
        f"an episode: {steps} steps, {'at the flag' if ended else 'not at the flag'}, {earned:.1f} by Gymnasium's count"
    )
