"""Runs that were stopped: what they learned is used as it is, or concluded for good, as a user does it."""

import json
import shlex
import shutil

import pytest

import bidual as bd
from bidual.learning.learner import Learner
from tests.end_to_end.last_lines import check_last_lines
from tests.end_to_end.test_cli_runs import ENVIRONMENT, SMALL

STOPPED, LENGTH = 20, 40


def contents(folder):
    """Every file of a folder but the locks."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def timeless(text):
    return {key: value for key, value in json.loads(text).items() if key != "seconds"}


def stop_at(monkeypatch, episodes, action):
    """Do something once so many episodes are done."""
    take = Learner.take

    def stop(self, turn):
        take(self, turn)
        if self.state.episodes == episodes:
            action()

    monkeypatch.setattr(Learner, "take", stop)


def interrupt():
    raise KeyboardInterrupt


@pytest.fixture
def straight(bidual_here):
    """A function that learns so many episodes in one piece."""
    return lambda episodes: timeless(bidual_here("learn", *SMALL, "--episodes", episodes, "--json").stdout)


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_a_stopped_run_is_used_finished_and_resumed(bidual_here, straight, monkeypatch, tmp_path, how):
    """A copy of all files is what a killed process leaves: the run counts as running, and nothing holds it."""
    finished, command = straight(STOPPED), ("learn", *SMALL, "--episodes", LENGTH, "--run", "runs/a")
    with monkeypatch.context() as patched:
        if how == "interrupt":
            stop_at(patched, STOPPED, interrupt)
            told = bidual_here(*command)
            assert told.returncode == 130
            assert "'bidual finish runs/a' ends it with what was learned" in told.stderr
        else:
            stop_at(patched, STOPPED + 1, lambda: shutil.copytree("runs", "copy"))
            assert bidual_here(*command, "--checkpoint-every", "1").returncode == 0
            shutil.rmtree("runs")
            shutil.move("copy", "runs")
    stored = contents(tmp_path / "runs")
    found = bidual_here("evaluate", "runs/a", "--episodes", "5", "--json")
    assert json.loads(found.stdout)["episodes"] == 5, found.stderr
    assert "check passed" in bidual_here("check", "runs/a").stdout
    assert bidual_here("export", "runs/a", "--format", "csv").returncode == 0
    with pytest.raises(bd.ArchiveError, match=r"'bidual finish runs/a' or bd\.finish"):
        bd.load("runs/a")
    assert contents(tmp_path / "runs") == stored

    done = bidual_here("finish", "runs/a", "--json")
    assert done.returncode == 0, done.stderr
    assert timeless(done.stdout).items() >= finished.items()
    check_last_lines(done.stderr, 0, bidual_here)
    assert [(one.status, one.episodes) for one in bd.runs.listed("runs")] == [("finished", STOPPED)]
    assert "check passed" in bidual_here("check", "runs/a").stdout
    resumed = bidual_here("learn", "--run", "runs/a", "--resume", "--json")
    assert timeless(resumed.stdout) == straight(LENGTH)


def test_a_run_whose_environment_failed_is_used_and_finished(bidual_here, tmp_path):
    """Its file is executed only where it is named; without episodes the broken environment is not needed."""
    (tmp_path / "walk.py").write_text(ENVIRONMENT.replace("== 15", ">= 15"))
    told = bidual_here("learn", "walk.py", "--episodes", "24", "--run", "runs/a")
    assert told.returncode == 5
    assert "'bidual finish runs/a walk.py' ends it with what was learned" in told.stderr
    for command in ("evaluate", "check", "export", "finish"):
        refused = bidual_here(command, "runs/a")
        assert refused.returncode == 5
        assert f"name it yourself: bidual {command} runs/a walk.py" in refused.stderr
    assert bidual_here("export", "runs/a", "walk.py").returncode == 0
    assert bidual_here("finish", "runs/a", "other.py").returncode == 2
    assert bidual_here("finish", "runs/a", "walk.py").returncode == 5  # there are no fresh episodes
    done = bidual_here("finish", "runs/a", "walk.py", "--evaluation", "0", "--json")
    assert json.loads(done.stdout)["episodes"] == 14, done.stderr
    assert "check passed" in bidual_here("check", "runs/a").stdout
    (tmp_path / "repaired").touch()
    assert shlex.split(done.stderr.splitlines()[-1])[-2:] == ["runs/a/solution.bidual", "walk.py"]
    check_last_lines(done.stderr, 0, bidual_here)


def test_a_run_that_ran_out_of_time_is_finished(bidual_here):
    told = bidual_here("learn", *SMALL, "--episodes", LENGTH, "--time-limit", "1e-9", "--run", "runs/a")
    assert told.returncode == 4, told.stderr
    assert bidual_here("export", "runs/a").returncode == 0


@pytest.mark.parametrize("command", ["evaluate", "check", "export", "finish"])
def test_a_run_without_an_episode_has_nothing_to_conclude(bidual_here, monkeypatch, command):
    with monkeypatch.context() as patched:
        patched.setattr(Learner, "take", lambda *_: interrupt())
        told = bidual_here("learn", *SMALL, "--run", "runs/a")
    assert "goes on with it\nbidual: interrupted" in told.stderr
    refused = bidual_here(command, "runs/a")
    assert refused.returncode == 5
    assert "has no episode to conclude from: resume it" in refused.stderr
