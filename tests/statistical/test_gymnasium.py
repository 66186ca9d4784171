"""The policy found for the model does in Gymnasium itself what the solution says.

Each comparison is a z-test at 4.5 standard errors with a fixed seed: a correct program fails with probability below
7e-6 per comparison.
"""

import gymnasium
import numpy as np
import pytest

import bidual as bd

STANDARD_ERRORS = 4.5


def _play(env, policy, signals, episodes, seed):
    """Totals of each signal (state, action, next state, reward, terminated) in each episode."""
    rng = np.random.default_rng(seed)
    totals = np.zeros((episodes, len(signals)))
    for episode in range(episodes):
        actor = policy.reset(rng)
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(policy.shape[0]):
            action = int(actor.act(state))
            next_state, reward, terminated, _, _ = env.step(action)
            totals[episode] += [signal(state, action, next_state, reward, terminated) for signal in signals]
            state = next_state
            if terminated:
                break
    return totals


CASES = {
    "frozenlake": (
        {"budget": 0.1, "size": 4, "horizon": 50},
        ("FrozenLake-v1", {}),
        (lambda s, a, t, reward, ended: reward, lambda s, a, t, reward, ended: ended and reward == 0),
    ),
    "cliffwalking": (
        {"horizon": 100},
        ("CliffWalking-v1", {"is_slippery": True}),
        (
            lambda s, a, t, reward, ended: s < 24,
            lambda s, a, t, reward, ended: reward == -100,
            lambda s, a, t, reward, ended: ended,
        ),
    ),
    "taxi": (
        {},
        ("Taxi-v4", {}),
        (lambda s, a, t, reward, ended: reward == 20, lambda s, a, t, reward, ended: a < 4),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_episodes_agree_with_the_embedding(name):
    settings, (environment, options), signals = CASES[name]
    task = bd.tasks.find(name).build(**settings)
    solution = bd.solve(task.problem, task.mdp)
    env = gymnasium.make(environment, **options).unwrapped
    totals = _play(env, solution.policy, signals, episodes=400, seed=0)
    errors = totals.std(axis=0, ddof=1) / np.sqrt(len(totals))
    assert (errors > 0).all()
    assert (abs(totals.mean(axis=0) - solution.embedding.sum(axis=0)) <= STANDARD_ERRORS * errors).all()
