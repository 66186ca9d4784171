"""Learn a Gymnasium environment with ten episodes at a time on two processes.

    python examples/parallel.py [EPISODES]

Workers import this file, so the work is under ``if __name__ == "__main__":`` and what they need is defined above it.
"""

import sys

import cvxpy as cp

import bidual as bd

HORIZON = 20


def arrived(step: bd.envs.Step) -> float:
    """Reaching the goal is the only thing that FrozenLake pays for."""
    return step.reward


def fell(step: bd.envs.Step) -> float:
    """A hole ends the episode and pays nothing."""
    return float(step.terminated and not step.reward)


if __name__ == "__main__":
    x = bd.features.signals(
        goal=bd.features.observed(arrived, 0.0, 1.0, at_end=True),
        hole=bd.features.observed(fell, 0.0, 1.0, at_end=True),
    ).embedding(HORIZON)
    problem = bd.Problem(cp.Maximize(cp.sum(x.goal)), {"holes": cp.sum(x.hole) <= 0.3})
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    with bd.envs.processes(2) as workers:
        lake = bd.envs.parallel("FrozenLake-v1", HORIZON, workers, workers=2)
        print(bd.learn(problem, lake, episodes=episodes, batch=10, seed=0))
