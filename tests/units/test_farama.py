"""Environments that others wrote, as they are: several rewards of MO-Gymnasium, dictionaries of MiniGrid."""

import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.problem.features import observed
from bidual.world.envs import gymnasium_environment
from bidual.world.policies import DeterministicPolicy

# Their own: spaces with bounds in double precision, and packages that announce changes at import.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered by casting"),
    pytest.mark.filterwarnings("ignore:pkg_resources is deprecated"),
]

SEA = "mo_gymnasium:deep-sea-treasure-v0"  # down is action 1; below the start lies a treasure worth 0.7


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
