"""Vectors of Gymnasium environments: the same episodes as in single ones, in every mode of autoreset."""

from functools import partial

import cvxpy as cp
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import bidual as bd
from bidual._base.keys import Draw, Purpose

HORIZON = 12
SIGNALS = (
    ("reward", bd.features.observed(lambda step: step.reward)),
    ("fallen", bd.features.observed(lambda step: step.terminated and step.next_obs in (5, 7, 11, 12))),
)
DRAWS = [Draw(3, Purpose.LEARN, number) for number in range(1, 11)]
POLICY = bd.policies.MarkovPolicy(np.random.default_rng(0).dirichlet(np.ones(4), (HORIZON, 17)))


def make():
    return gym.make("FrozenLake-v1", max_episode_steps=-1)


def vector(mode, number=4, kind=gym.vector.SyncVectorEnv):
    return kind([make] * number, autoreset_mode=mode)


@pytest.fixture(scope="module")
def expected():
    env = bd.envs.gymnasium_environment(make(), HORIZON, SIGNALS)
    return [env.collect(POLICY, draw) for draw in DRAWS]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_episodes_are_those_of_single_environments(mode, expected):
    env = bd.envs.vector_environment(vector(mode), HORIZON, SIGNALS)
    assert env.simultaneous == 4
    for one, other in zip(env.collect_many(POLICY, DRAWS), expected, strict=True):
        np.testing.assert_array_equal(one.states, other.states)
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.observed, other.observed)
    assert any(one.states[-1] == 16 for one in expected)  # some end early, so that copies begin anew
    np.testing.assert_array_equal(env.collect(POLICY, DRAWS[2]).states, expected[2].states)
    env.close()


def test_infos_are_read_where_no_digits_are_lost():
    """FrozenLake gives the probability 1 as an int at a reset, and floats at steps: merged, these become 0."""
    signals = [("chance", bd.features.observed(lambda step: step.info["prob"]))]
    single = bd.envs.gymnasium_environment(make(), HORIZON, signals)
    separate = bd.envs.vector_environment(vector(AutoresetMode.DISABLED), HORIZON, signals)
    for one, draw in zip(separate.collect_many(POLICY, DRAWS), DRAWS, strict=True):
        np.testing.assert_array_equal(one.observed, single.collect(POLICY, draw).observed)
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        merged = bd.envs.vector_environment(vector(mode), HORIZON, signals)
        with pytest.raises(bd.EnvError, match=r"info\['prob'\] is a whole number.*float"):
            merged.collect_many(POLICY, DRAWS)


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_so_are_those_of_other_processes(mode, expected):
    env = bd.envs.vector_environment(
        vector(mode, 2, partial(gym.vector.AsyncVectorEnv, context="spawn")), HORIZON, SIGNALS
    )
    for one, other in zip(env.collect_many(POLICY, DRAWS[:4]), expected[:4], strict=True):
        np.testing.assert_array_equal(one.states, other.states)
        np.testing.assert_array_equal(one.observed, other.observed)
    env.close()


def test_learning_is_the_same_with_as_many_at_a_time():
    x = bd.features.signals(goal=bd.features.observed(lambda step: step.reward, at_end=True)).embedding(HORIZON)
    problem = bd.Problem(cp.Maximize(cp.sum(x.goal)))
    options = {"episodes": 16, "evaluation": 8, "batch": 4, "seed": 1}
    envs = gym.make_vec("FrozenLake-v1", num_envs=4, vectorization_mode="sync", max_episode_steps=-1)
    one, other = bd.learn(problem, envs, **options), bd.learn(problem, make(), **options)
    assert (one.value, one.upper, one.lower) == (other.value, other.upper, other.lower)
    np.testing.assert_array_equal(one.policy.table, other.policy.table)
    envs.close()


def test_what_cannot_be_used_is_refused_with_a_remedy():
    x = bd.features.signals(reward=lambda step: step.reward).embedding(HORIZON)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
    limited = gym.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync", max_episode_steps=5)
    with pytest.raises(
        bd.EnvError, match=r"time limit of the environment ended the episode at step 5.*lower the horizon"
    ):
        bd.learn(problem, limited, episodes=2, batch=2)
    shared = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    env = bd.envs.vector_environment(shared, HORIZON, states=lambda obs: int(obs[0] > 0), num_states=2)
    policy = bd.policies.DeterministicPolicy(np.zeros((HORIZON, 3), dtype=int), 2)
    with pytest.raises(bd.EnvError, match=r"belong to its seed alone.*vectorization_mode='sync'"):
        env.collect(policy, DRAWS[0])
    with pytest.raises(bd.EnvError, match="vector of environments, which is for states that are numbered"):
        bd.learn(problem, limited, bd.models.Latent(latents=2), episodes=2)
    with pytest.raises(bd.EnvError, match=r"states="):
        bd.envs.vector_environment(shared, HORIZON)
    odd = vector(AutoresetMode.NEXT_STEP)
    odd.metadata["autoreset_mode"] = None
    with pytest.raises(bd.EnvError, match=r"does not say when its copies begin anew.*AutoresetMode\.NEXT_STEP"):
        bd.envs.vector_environment(odd, HORIZON)
