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
