"""An environment that ends the program has failed like any other: it chooses no exit code, and no run is lost."""

import sys

import numpy as np
import pytest

import bidual as bd
from bidual.cli import main
from bidual.world.envs import Simulator, gymnasium_environment
from tests.units.test_environments import DRAW, Fake

STOP = {
    "a step": (
        lambda: gymnasium_environment(Fake(lambda _: sys.exit(0)), 4),
        "step 1 of 4, episode 7: SystemExit",
    ),
    "the reset": (
        lambda: gymnasium_environment(Fake(first=lambda: sys.exit(3)), 4),
        "the reset, episode 7: SystemExit",
    ),
    "a numbering": (
        lambda: gymnasium_environment(Fake(), 4, states=lambda obs: sys.exit(), num_states=2),
        "the reset, episode 7: SystemExit",
    ),
    "a signal": (
        lambda: gymnasium_environment(Fake(), 4, [("cost", bd.features.observed(lambda step: sys.exit(0), 0.0, 1.0))]),
        "signal 'cost' failed at step 1 of 4, episode 7",
    ),
}


@pytest.mark.parametrize("where", STOP)
def test_an_exit_is_a_failure_with_a_place(where):
    make, words = STOP[where]
    env = make()
    H, S, A = env.shape
    policy = bd.policies.DeterministicPolicy(np.zeros((H, S), dtype=np.int64), A)
    with pytest.raises(bd.EnvError, match=words):
        env.collect(policy, DRAW)


def test_an_exit_while_it_is_made_is_a_failure():
    with pytest.raises(bd.EnvError, match="was to make the environment and failed: SystemExit: 0"):
        gymnasium_environment(lambda: sys.exit(0), 4)


FILE = """
import sys
import cvxpy as cp, gymnasium, bidual as bd

class Leaving(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)
    steps = 0
    def reset(self, *, seed=None, options=None):
        return 0, {}
    def step(self, action):
        Leaving.steps += 1
        if Leaving.steps > 12:
            sys.exit(0)
        return 1, 0.0, False, False, {}

env = Leaving()
x = bd.features.signals(cost=bd.features.observed(lambda step: step.action, 0.0, 1.0)).embedding(2)
problem = bd.Problem(cp.Minimize(cp.sum(x.cost)))
"""


def test_an_exit_ends_a_stored_run_with_a_checkpoint(tmp_path, monkeypatch, capsys):
    """With exit code 5, not with the environment's own, which would read as a success."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaving.py").write_text(FILE)
    assert main(["learn", "leaving.py", "--episodes", "30", "--run", "runs/a"]) == 5
    told = capsys.readouterr()
    assert told.out == ""
    assert "SystemExit: 0" in told.err
    assert "the run in runs/a is stored up to episode 6, and can be resumed" in told.err
    (one,) = bd.runs.listed("runs")
    assert (one.status, one.episodes) == ("failed", 6)


def test_an_exit_of_any_other_environment_is_one_too(monkeypatch):
    task = bd.tasks.find("riverswim").build(states=3, horizon=5, budget=2.5)
    monkeypatch.setattr(Simulator, "collect", lambda *_: sys.exit(0))
    with pytest.raises(bd.EnvError, match="the environment ended the program") as caught:
        bd.learn(task.problem, task.mdp, bd.models.Tabular(support=task.mdp), episodes=2)
    assert caught.value.state.episodes == 0
