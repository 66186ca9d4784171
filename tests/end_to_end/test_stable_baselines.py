"""SB3's own `evaluate_policy` runs on our policies. It brings torch, so this is outside the gate."""

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import bidual as bd
from bidual.world.policies import AffineFeedback, ControlPolicy

REASON = "stable-baselines3 is not installed: pip install torch==2.13.0, then pip install stable-baselines3"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # those of other libraries are not ours to turn into errors
]
evaluation = pytest.importorskip("stable_baselines3.common.evaluation", reason=REASON)
PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"


def test_the_page_says_what_it_does(tmp_path):
    """The blocks of the page with SB3's own. Hoeffding: 1000 episodes are off by 0.07 with probability 1e-4."""
    section = PAGE.read_text().split("\n## ")[1]
    script = tmp_path / "page.py"
    script.write_text("\n".join(re.findall(r"```py(?:thon)?\n(.*?)```", section, re.DOTALL)))
    with script.open("a") as file:
        file.write("\nprint(mean, solution.value)\n")
    process = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    mean, value = map(float, process.stdout.split()[-2:])
    assert abs(mean - value) < 0.07


def test_a_mixture_and_its_most_likely_member():
    stay, down = (bd.policies.DeterministicPolicy(np.full((20, 17), a), 4) for a in (0, 1))
    mixture = bd.policies.Mixture(np.array([0.4, 0.6]), (stay, down))
    env = gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
    drawn, likely = (
        evaluation.evaluate_policy(mixture, env, 40, deterministic=flag, return_episode_rewards=True)[1]
        for flag in (False, True)
    )
    assert set(likely) == {3}  # down along the left edge, where a hole is in the corner
    assert set(drawn) == {3, 20}  # but with probability 2 * 0.6^40


def test_controls():
    law = AffineFeedback(np.zeros((50, 1)), np.zeros((50, 3)), np.full((50, 1, 3), -0.5))
    policy = ControlPolicy(law, np.array([-2.0]), np.array([2.0]))
    env = gym.make("Pendulum-v1", max_episode_steps=50)
    returns, lengths = evaluation.evaluate_policy(policy, env, 4, return_episode_rewards=True)
    assert lengths == [50] * 4
    assert np.isfinite(returns).all()


def test_a_policy_that_is_too_short_says_so():
    env = gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
    policy = bd.policies.DeterministicPolicy(np.zeros((5, 17), dtype=int), 4)
    with pytest.raises(bd.PolicyError, match="horizon is 5 steps"):
        evaluation.evaluate_policy(policy, env, 1)
