"""Parts of the command line that are awkward to provoke from outside."""

import io
import sys

import pytest

from bidual import cli
from bidual.cli import _progress
from bidual.solution import Progress

STATES = [Progress(1, None, 2.0, 0.5, 0.1), Progress(2, 1.5, 2.0, 0.0, 12.0)]


def test_ctrl_c_is_exit_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("bidual.cli.tasks.run", interrupted)
    assert cli.main(["tasks"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_an_operating_system_error_is_told_without_a_traceback(monkeypatch, capsys):
    def full(args):
        raise OSError("no space left on device")

    monkeypatch.setattr("bidual.cli.tasks.run", full)
    assert cli.main(["tasks"]) == 2
    assert capsys.readouterr().err == "bidual: no space left on device\n"


def test_a_log_gets_a_line_now_and_then(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 7.0, 7.0])
    monkeypatch.setattr("bidual.cli._progress.time.monotonic", lambda: next(clock))
    with _progress.progress_line("rover") as show:
        for state in STATES:
            show(state)
    assert capsys.readouterr().err == "rover: plan 2, gap 5.00e-01, violation 0.0e+00, 12.0 s\n"


def test_a_terminal_gets_a_live_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with _progress.progress_line("rover") as show:
        for state in STATES:
            show(state)
    assert "rover" in terminal.getvalue()


@pytest.mark.parametrize(
    ("state", "words"), [(STATES[0], "looking for a feasible policy"), (STATES[1], "gap 5.00e-01")]
)
def test_progress_in_words(state, words):
    assert words in _progress._words(state)


FILE = """
import cvxpy as cp
import numpy as np
import bidual as bd

mdp = bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 3)
x = mdp.embedding(reward=np.eye(2), cost=np.array([0.0, 1.0]))
z = cp.Variable(name="z")
problem = bd.Problem(...)
"""


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        ("cp.Minimize(cp.sum(cp.square(x.reward) - cp.square(x.cost)))", 2, "break at power(x.reward, 2) + -("),
        ("cp.Minimize(cp.norm(x.cost - np.nan))", 2, "the objective contains NaN or infinity"),
        ("cp.Minimize(x.cost[0] * np.inf)", 2, "the objective contains NaN or infinity"),
        ("cp.Minimize(cp.norm(x.cost - cp.Variable(integer=True, name='n')))", 2, "'n' in the objective is declared i"),
        ("cp.Minimize(cp.norm(x.cost - np.zeros(4)))", 2, "the file raised ValueError: shape mismatch"),
        ("cp.Minimize(x.cost)", 2, "the file raised ValueError: The 'minimize' objective must resolve to a scalar"),
        (
            "cp.Minimize(cp.sum(x) + z)",
            2,
            "the problem is unbounded: the objective falls without end along falling 'z'",
        ),
        ("cp.Minimize(cp.norm(x.cost)), {'a': x.cost[1] == 7}", 3, ""),
        ("cp.Minimize(cp.sum(x)), {'a': x.cost[1] == 7}", 3, ""),
    ],
)
def test_bad_files_end_with_a_code_and_a_sentence(tmp_path, capsys, problem, code, words):
    path = tmp_path / "mine.py"
    path.write_text(FILE.replace("...", problem))
    assert cli.main(["solve", str(path)]) == code
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert "'a' cannot hold" in told.out or f"{path}, line 9: " in told.err or "unbounded" in words
    assert words in told.err
