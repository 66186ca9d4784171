"""``bidual learn lock`` as another process: rich observations on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bidual as bd


@pytest.fixture
def bidual(tmp_path):
    """The command of this package, wherever it is imported from."""
    env = os.environ | {"PYTHONPATH": str(Path(bd.__file__).parents[1])}

    def run(*words):
        command = [sys.executable, "-m", "bidual", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


def test_learns_and_claims_nothing_about_others(bidual):
    process = bidual("learn", "lock", "--set", "horizon=3", "--episodes", "150", "--json")
    assert process.returncode == 0, process.stderr
    told = json.loads(process.stdout)
    assert told["value"] == 1.0
    assert told["upper"] is None  # maximising: what no policy could beat
    assert told["gap"] is None
    assert told["episodes"] == 150


def test_says_that_it_is_a_heuristic(bidual_here):
    process = bidual_here("learn", "lock-spread", "--set", "horizon=2", "--episodes", "60", "--verbose")
    assert process.returncode == 0, process.stderr
    assert "latents are a heuristic" in process.stdout
    assert "no bound on what other policies can reach is claimed" in process.stdout


def test_writes_a_policy_that_acts(bidual_here, tmp_path):
    process = bidual_here("learn", "lock", "--set", "horizon=3", "--episodes", "150", "--out", "out")
    assert process.returncode == 0, process.stderr
    policy, lock = bd.load(tmp_path / "out" / "solution.bidual"), bd.tasks.find("lock").build(horizon=3).env
    for seed in range(5):
        (obs, _), actor, reward = lock.reset(seed=seed), policy.reset(seed), 0.0
        for _ in range(3):
            obs, reward, _, _, _ = lock.step(actor.act(obs))
        assert reward == 1.0


def test_a_run_is_stored_resumed_evaluated_and_exported(bidual_here):
    small = ("learn", "lock", "--set", "horizon=3", "--run", "runs/a")
    assert bidual_here(*small, "--episodes", "60").returncode == 0
    resumed = bidual_here(*small, "--episodes", "150", "--resume", "--json")
    straight = bidual_here(*small[:-1], "runs/b", "--episodes", "150", "--json")
    told, other = ({**json.loads(one.stdout), "seconds": 0} for one in (resumed, straight))
    assert told == other
    seen = bidual_here("evaluate", "runs/a", "--episodes", "50", "--json")
    assert json.loads(seen.stdout)["objective"]["value"] == 1.0, seen.stderr
    assert bidual_here("export", "runs/a", "--format", "npz").returncode == 0
    assert bidual_here("export", "runs/a", "--format", "csv").returncode == 2
    assert "a heuristic claims nothing" in bidual_here("check", "runs/a").stderr


@pytest.mark.parametrize(
    ("words", "code", "match"),
    [
        (("solve", "lock"), 2, "learn it with 'bidual learn lock'"),
        (("learn", "lock", "--support", "declared"), 2, "leave --support out"),
    ],
)
def test_what_it_cannot_do_it_says(bidual_here, words, code, match):
    process = bidual_here(*words)
    assert process.returncode == code
    assert match.lower() in process.stderr.lower()
