"""Standard output is for results alone, whatever environments, their children and files have to say."""

import json
import os
import subprocess
import sys

import pytest

from bidual._base.text import escape_unprintable
from bidual.cli import main
from bidual.cli._output import Results, report, reserve_stdout, show


def test_only_results_reach_standard_output(capfd):
    """Neither a descriptor, nor a child, nor a print; not even one that was made before."""
    early = sys.stdout
    with reserve_stdout():
        os.write(1, b"descriptor\n")
        subprocess.run([sys.executable, "-S", "-c", "print('child')"], check=True)
        print("print")
        show("result")
        report("remark")
    print("afterwards", file=early)
    told = capfd.readouterr()
    assert told.out == "result\nafterwards\n"
    assert sorted(told.err.split()) == ["child", "descriptor", "print", "remark"]


def test_standard_output_comes_back_after_a_failure(capfd):
    with pytest.raises(KeyError), reserve_stdout():
        raise KeyError
    os.write(1, b"here\n")
    assert capfd.readouterr() == ("here\n", "")


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_closed_stream_ends_no_command(closed):
    command = [sys.executable, "-m", "bidual", "new", os.devnull]
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command], capture_output=True, check=False)
    assert done.returncode == 2  # the name does not end in .py


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text,\n\ttwo lines", "plain text,\n\ttwo lines"),
        ("Größe, 大, θ", "Größe, 大, θ"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m red, \r over, \x7f", "\\x9b31m red, \\x0d over, \\x7f"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("\udc80 \U000e0041", "\\udc80 \\U000e0041"),
    ],
)
def test_what_a_terminal_would_obey_is_printed_as_an_escape(text, shown):
    assert escape_unprintable(text) == shown


NOISY = """
import os, subprocess, sys
import cvxpy as cp, gymnasium, bidual as bd

class Noisy(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        print("print")
        os.write(1, b"descriptor\\n")
        subprocess.run(["echo", "child"])
        return 0, {}
    def step(self, action):
        return 1, 0.0, False, False, {}

env = Noisy()
x = bd.features.signals(cost=bd.features.observed(lambda step: step.action, 0.0, 1.0)).embedding(2)
problem = bd.Problem(cp.Minimize(cp.sum(x.cost)))
"""


def test_json_is_not_spoilt_by_an_environment_that_prints(tmp_path, capfd):
    (tmp_path / "noisy.py").write_text(NOISY)
    assert main(["learn", str(tmp_path / "noisy.py"), "--episodes", "3", "--evaluation", "2", "--json"]) == 0
    told = capfd.readouterr()
    assert json.loads(told.out)["episodes"] == 3
    assert all(told.err.count(word) == 5 for word in ("print", "descriptor", "child"))


def test_nothing_is_printed_on_standard_output_after_the_result(tmp_path):
    """Not at the end of the process either, when environments are closed."""
    command = "import atexit, sys; atexit.register(print, 'late'); from bidual.cli import entry; sys.exit(entry())"
    done = subprocess.run(
        [sys.executable, "-c", command, "new", str(tmp_path / "f.py")], capture_output=True, text=True
    )
    assert done.stdout.startswith("wrote ")
    assert (done.returncode, done.stderr) == (0, "late\n")
    assert "late" not in done.stdout


def _run_into_closed_pipe(command, *streams):
    """Run a command whose reader has left before it says anything, as that of `head -0` has."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        out, err = (writer if name in streams else subprocess.PIPE for name in ("stdout", "stderr"))
        return subprocess.run([sys.executable, "-m", "bidual", *command], stdout=out, stderr=err, text=True)
    finally:
        os.close(writer)


@pytest.mark.parametrize("command", [("new", "mine.py"), ("--help",)])
def test_a_reader_that_leaves_ends_a_command_quietly(command, tmp_path, monkeypatch):
    """The file is written all the same, and the exit code is that of a tool which SIGPIPE ends."""
    monkeypatch.chdir(tmp_path)
    done = _run_into_closed_pipe(command, "stdout")
    assert (done.returncode, done.stderr) == (0 if "--help" in command else 141, "")
    assert (tmp_path / "mine.py").exists() == ("new" in command)


def test_a_reader_of_everything_that_leaves_ends_it_quietly(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _run_into_closed_pipe(("new", "mine.py"), "stdout", "stderr").returncode == 141
    assert _run_into_closed_pipe(("new", "mine.py"), "stderr").returncode == 5  # it is there now


def test_a_reader_that_leaves_where_standard_error_is_closed(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "bidual", "new", str(tmp_path / "mine.py")]
    done = subprocess.run(command, stdout=writer, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert (tmp_path / "mine.py").exists()


def test_all_that_follows_a_lost_reader_is_dropped(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        results = Results(stream)
        results.print("nobody")
        assert results.reader_left
        results.print("reads this")


def test_errors_do_not_turn_to_standard_output_where_standard_error_is_closed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    report("an error")
    assert capsys.readouterr().out == ""
