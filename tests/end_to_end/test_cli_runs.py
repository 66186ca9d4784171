"""Stored runs from the command line: learn, stop, resume, list, evaluate, check, export."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import bidual as bd
from bidual import cli
from bidual.learning.metrics import PROGRESS_METRICS

SMALL = ("riverswim", "--set", "states=3", "--set", "horizon=5", "--set", "budget=2.5", "--evaluation", "20")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with one run."""
    folder = tmp_path_factory.mktemp("stored") / "runs"
    assert cli.main(["learn", *SMALL, "--episodes", "20", "--run", str(folder / "a")]) == 0
    return folder


def _timeless(text):
    return {key: value for key, value in json.loads(text).items() if key != "seconds"}


def test_a_run_from_beginning_to_end(bidual_here, tmp_path):
    code, out, err = bidual_here("learn", *SMALL, "--episodes", 40, "--run", "runs/a", "--json")
    assert code == 0
    assert "stored in runs/a" in err
    plain = bidual_here("learn", *SMALL, "--episodes", 40, "--json")
    assert _timeless(out) == _timeless(plain[1])

    code, listed, _ = bidual_here("runs")
    assert code == 0
    assert listed.splitlines()[0].split() == ["run", "task", "status", "episodes", "value", "gap", "violation", "age"]
    assert listed.splitlines()[1].split()[:4] == ["a", "riverswim", "finished", "40"]
    entry = json.loads(bidual_here("runs", "--json")[1])["runs"][0]
    assert entry["result"] == {key: json.loads(out)[key] for key in entry["result"]}
    assert entry["gap"] == json.loads(out)["gap"]

    code, words, _ = bidual_here("evaluate", "runs/a", "--episodes", 50)
    assert code == 0
    assert words.startswith("50 fresh episodes, seed 0; all intervals hold at once with probability 0.95\n")
    assert "constraint   right: " in words
    told = json.loads(bidual_here("evaluate", "runs/a", "--episodes", 50, "--json")[1])
    assert told["task"] == "riverswim"
    assert told["objective"]["lower"] <= told["objective"]["value"] <= told["objective"]["upper"]
    assert told["constraints"][0]["violation_upper"] >= 0

    code, words, _ = bidual_here("check", "runs/a")
    assert code == 0
    assert words.startswith("check passed")

    # A longer run, with the options that are stored; they are stored anew.
    code, longer, _ = bidual_here("learn", "--run", "runs/a", "--resume", "--episodes", 60, "--json")
    assert code == 0
    assert _timeless(longer) == _timeless(bidual_here("learn", *SMALL, "--episodes", 60, "--json")[1])
    code, again, _ = bidual_here("learn", "--run", "runs/a", "--resume", "--json")
    assert code == 0
    assert _timeless(again) == _timeless(longer)


def test_every_format_gives_the_same_policy(bidual_here, tmp_path):
    bidual_here("learn", *SMALL, "--episodes", 20, "--run", "runs/a")
    table = bd.load("runs/a").table
    np.testing.assert_array_equal(bd.load("runs/a/solution.bidual").table, table)
    for format in ("json", "csv", "npz", "safetensors"):
        code, out, _ = bidual_here("export", "runs/a", "--format", format)
        assert code == 0
        assert f"wrote a.{format}" in out
    np.testing.assert_array_equal(json.loads((tmp_path / "a.json").read_text())["probabilities"], table)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["probabilities"], table)
    np.testing.assert_array_equal(load_file(tmp_path / "a.safetensors")["probabilities"], table)
    dense = np.zeros(table.shape)
    with (tmp_path / "a.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            dense[int(row["step"]), int(row["state"]), int(row["action"])] = float(row["probability"])
    np.testing.assert_array_equal(dense, table)
    code, out, _ = bidual_here("export", "runs/a/solution.bidual", "--out", "deep/here.json")
    assert code == 0
    assert json.loads((tmp_path / "deep" / "here.json").read_text())["shape"] == list(table.shape)


def test_numbers_are_tables_for_pandas_and_polars(bidual_here):
    import pandas
    import polars

    bidual_here("learn", *SMALL, "--episodes", 20, "--run", "runs/a")
    bidual_here("learn", *SMALL, "--episodes", 20, "--run", "runs/b", "--seed", 1)
    columns = [*("run", "episode", "plans", "objective", "right"), *PROGRESS_METRICS]
    one, other = pandas.DataFrame(bd.runs.read("runs")), polars.DataFrame(bd.runs.read("runs"))
    assert list(one.columns) == other.columns == columns
    assert one.groupby("run").size().to_dict() == {"a": 20, "b": 20}
    assert other.filter(polars.col("run") == "b")["objective"].to_list() == one[one.run == "b"].objective.tolist()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("learn", "--run", "runs/a"), 2, "name a task"),
        (("learn", "media", "--resume"), 2, "--resume is about a stored run"),
        (("learn", "media", "--tensorboard"), 2, "--tensorboard is about a stored run"),
        (("learn", *SMALL, "--run", "runs/b", "--checkpoint-every", "0"), 2, "got every=0"),
        (("learn", "--run", "runs/none", "--resume"), 5, "runs/none is not the folder of a run"),
        (("learn", *SMALL, "--run", "runs/a"), 5, "already holds a run"),
        (("learn", "media", "--run", "runs/a", "--resume"), 5, "another task: riverswim then, media now"),
        (("learn", *SMALL, "--seed", "1", "--run", "runs/a", "--resume"), 5, "another seed: 0 then, 1 now"),
        (("learn", *SMALL, "--episodes", "10", "--run", "runs/a", "--resume"), 5, "already has 20 episodes, 10 were"),
        (("runs", "elsewhere"), 5, "there are no runs in elsewhere"),
        (("evaluate", "runs/none"), 5, "runs/none"),
        (("evaluate", "runs/a/solution.bidual"), 2, "name the task or the file after it"),
        (("evaluate", "runs/a", "--set", "budget=1"), 2, "--set goes with a task"),
        (("evaluate", "runs/a", "media"), 2, "the policy is for 5 steps"),
        (("evaluate", "runs/a", "--episodes", "0"), 2, "episodes must be a whole number"),
        (("export", "runs/none"), 5, "runs/none"),
        (("check", "runs/none"), 5, "runs/none"),
    ],
)
def test_what_cannot_be_done_is_said(stored, bidual_here, tmp_path, arguments, code, words):
    shutil.copytree(stored, tmp_path / "runs")
    got, out, err = bidual_here(*arguments)
    assert got == code, err
    assert out == ""
    assert words in err


ENVIRONMENT = """
import cvxpy as cp, gymnasium, bidual as bd
from pathlib import Path

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)
    resets = 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Walk.resets += 1
        if Walk.resets == 15 and not Path("repaired").exists():
            raise OSError("the sensor is gone")
        self.cell = 0
        return 0, {}
    def step(self, action):
        self.cell = min(3, max(0, self.cell + (1 if self.np_random.random() < (0.9 if action else 0.4) else -1)))
        return self.cell, float(self.cell == 3), False, False, {}

env = Walk()
x = bd.features.signals(
    reward=bd.features.observed(lambda step: step.reward, 0.0, 1.0),
    hurry=bd.features.observed(lambda step: step.action, 0.0, 1.0),
).embedding(5)
problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"hurry": cp.sum(x.hurry) <= 3})
"""


def test_a_broken_environment_stops_a_run_that_goes_on_when_it_is_repaired(bidual_here, tmp_path):
    (tmp_path / "walk.py").write_text(ENVIRONMENT)
    command = ("learn", "walk.py", "--episodes", 24, "--evaluation", 10, "--run", "runs/a", "--json")
    code, out, err = bidual_here(*command)
    assert code == 5
    assert out == ""
    assert "the sensor is gone" in err
    assert "the run in runs/a is stored up to episode 14, and can be resumed" in err
    assert bidual_here("runs")[1].splitlines()[1].split()[2:4] == ["failed", "14"]
    (tmp_path / "repaired").touch()
    code, _, err = bidual_here("learn", "--run", "runs/a", "--resume", "--json")
    assert (code, err.count("name it yourself: bidual learn walk.py --episodes 24")) == (5, 1)
    code, resumed, _ = bidual_here(*command, "--resume")
    assert code == 0
    straight = bidual_here(*command[:-2], "runs/b", "--json")
    assert _timeless(resumed) == _timeless(straight[1])


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_an_interrupt_keeps_everything(tmp_path, number, code, word):
    """Ctrl-C or SIGTERM in a process of its own, as soon as it has stored something."""
    command = [sys.executable, "-m", "bidual", "learn", *SMALL, "--episodes", "100000", "--run", "runs/a"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--checkpoint-every", "20"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE
    )
    while not list(tmp_path.glob("runs/a/checkpoints/*.bidual")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(number)
    err = process.communicate(timeout=300)[1].decode()
    assert process.returncode == code, err
    assert "the run is stored: 'bidual learn --run runs/a --resume' goes on with it, 'bidual finish runs/a' ends" in err
    assert err.endswith(f"\nbidual: {word}\n")
    (stopped,) = bd.runs.listed(tmp_path / "runs")
    assert stopped.status == "stopped"
    assert stopped.episodes >= 20
    newest = sorted((tmp_path / "runs" / "a" / "checkpoints").glob("*.bidual"))[-1]
    assert int(newest.stem) == stopped.episodes
