"""Environments that others wrote, as they are: several rewards of MO-Gymnasium, dictionaries of MiniGrid."""

import cvxpy as cp
import gymnasium
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.problem.features import observed
from bidual.world.envs import gymnasium_environment
from bidual.world.observations import FiniteSpace
from bidual.world.policies import DeterministicPolicy

# Their own: spaces with bounds in double precision, and packages that announce changes at import.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered by casting"),
    pytest.mark.filterwarnings("ignore:pkg_resources is deprecated"),
]

SEA = "mo_gymnasium:deep-sea-treasure-v0"  # down is action 1; below the start lies a treasure worth 0.7

GRID = "minigrid:MiniGrid-Empty-5x5-v0"


def _limited(budget):
    x = bd.features.signals(
        treasure=bd.features.observed(lambda t: t.reward[0], 0.0, 23.7, at_end=True), time=lambda t: -t.reward[1]
    ).embedding(4)
    return bd.Problem(cp.Maximize(cp.sum(x.treasure)), {"time": cp.sum(x.time) <= budget})


def test_the_nearest_treasures_of_the_sea_are_found():
    """Its boxes of two whole numbers are states by themselves, and its two rewards objective and limit."""
    learned = bd.learn(_limited(2.0), SEA, episodes=60, evaluation=20, seed=0)
    assert isinstance(learned.policy.numbering.numbers, FiniteSpace)
    assert learned.outputs[0].constraints["time"].value <= 3.0
    assert learned.value >= 0.7 - 1e-6
    assert learned.policy.reset(0).act(np.array([0, 0], dtype=np.int32)) in range(4)


def test_observations_of_minigrid_are_numbered_as_they_are_met(tmp_path):
    """Dictionaries of a direction, a picture and a text; in 20 steps the goal is found within a few episodes."""
    x = bd.features.signals(goal=bd.features.observed(lambda t: t.reward > 0, at_end=True)).embedding(12)
    problem = bd.Problem(cp.Maximize(cp.sum(x.goal)))
    learned = bd.learn(problem, GRID, episodes=150, evaluation=20, states_limit=64, seed=0)
    assert learned.value == 1.0
    learned.save(tmp_path / "grid.bidual")
    env, actor, total, ended = gymnasium.make(GRID), bd.load(tmp_path / "grid.bidual").reset(0), 0.0, False
    obs, _ = env.reset(seed=5)
    while not ended:
        obs, reward, ended, *_ = env.step(actor.act(obs))
        total += reward
    assert total > 0.9


def test_several_rewards_are_signals_of_their_own():
    signals = [
        ("treasure", observed(lambda step: step.reward[0], 0.0, 23.7)),
        ("time", observed(lambda step: -step.reward[1])),
    ]
    env = gymnasium_environment(SEA, 3, signals, states=lambda obs: int(obs[0] * 11 + obs[1]), num_states=121)
    down = DeterministicPolicy(np.ones((3, 122), dtype=int), 4)
    episode = env.collect(down, Draw(0, Purpose.LEARN, 1))
    np.testing.assert_allclose(episode.observed, [[0.7, 1], [0, 0], [0, 0]], atol=1e-6)  # float32


def test_a_signal_that_is_a_vector_is_refused_with_the_remedy():
    states = {"states": lambda obs: int(obs[0] * 11 + obs[1]), "num_states": 121}
    env = gymnasium_environment(SEA, 3, [("reward", observed(lambda step: step.reward))], **states)
    down = DeterministicPolicy(np.ones((3, 122), dtype=int), 4)
    with pytest.raises(bd.EnvError, match=r"signal 'reward' gave array.* and these are 2: .* step.reward\[0\]"):
        env.collect(down, Draw(0, Purpose.LEARN, 1))
