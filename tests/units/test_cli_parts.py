"""Parts of the command line that are awkward to provoke from outside."""

import contextlib
import io
import signal
import sys
import threading
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual import cli
from bidual.cli import _progress
from bidual.cli._interrupts import Terminated, remember_interrupts
from bidual.cli._output import report
from bidual.cli._target import load_unknown
from bidual.cli._true_model import evaluate_in_true_model
from bidual.learning.learned import LearnProgress
from bidual.solving.solution import Progress
from bidual.world.policies import MarkovPolicy

STATES = [Progress(1, None, 2.0, 0.5, 0.1), Progress(2, 1.5, 2.0, 0.0, 12.0)]
LOOKS = [
    LearnProgress(1, None, None, None, 3, 2.0),
    LearnProgress(3, 1.5, 0.25, 0.125, 9, 4.0),
    LearnProgress(20, 1.5, 0.25, 0.125, 9, 8.0),
    LearnProgress(63, 1.5, 0.25, 0.125, 9, 10.0),
    LearnProgress(500, 1.25, 1.0, 0.0, 99, 12.0),
]


@pytest.mark.parametrize(("kind", "code", "word"), [(KeyboardInterrupt, 130, "interrupted"), (Terminated, 143, "term")])
def test_ctrl_c_is_exit_130_and_sigterm_143(monkeypatch, capsys, kind, code, word):
    def interrupted(args):
        raise kind

    monkeypatch.setattr("bidual.cli.tasks.run", interrupted)
    assert cli.main(["tasks"]) == code
    assert word in capsys.readouterr().err


def test_an_operating_system_error_is_told_without_a_traceback(monkeypatch, capsys):
    def full(args):
        raise OSError("no space left on device")

    monkeypatch.setattr("bidual.cli.tasks.run", full)
    assert cli.main(["tasks"]) == 2
    assert capsys.readouterr().err == "bidual: no space left on device\n"


def test_a_log_gets_a_line_now_and_then():
    """Soon where there is news, and also where there is none: what is compiled or evaluated shows nothing new."""
    log = _progress._Log("rover", "compiling", 0.0)
    lines = []
    for now in range(5, 90, 5):
        if now == 10:
            log.set("plan 1")
            log.set("plan 2")
        lines.append((now, log.take_line(float(now))))
    assert [one for one in lines if one[1] is not None] == [
        (10, "rover: plan 2"),
        (40, "rover: plan 2, no news for 30 s"),
        (70, "rover: plan 2, no news for 30 s"),
    ]


def test_a_log_is_written_while_the_work_goes_on(monkeypatch, capsys):
    """By a thread of its own, which ends with the work."""
    printed = threading.Event()
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN_LOG_LINES", 0.001)
    monkeypatch.setattr(_progress, "report", lambda line: (report(line), printed.set()))
    with _progress.open_progress_line("rover") as show:
        show(STATES[1])
        assert printed.wait(60)
    assert capsys.readouterr().err == "rover: plan 2, gap 5.00e-01, violation 0.0e+00, 12.0 s\n"


def test_a_terminal_gets_a_live_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with _progress.open_progress_line("rover") as show:
        for state in STATES:
            show(state)
    assert "rover" in terminal.getvalue()


@pytest.mark.parametrize(
    ("look", "maximises", "words"),
    [
        (LOOKS[0], True, "1/500 episodes"),
        (LOOKS[2], True, "no policy above 1.5, mixture at least 0.25, violation at most 0.12"),
        (
            LOOKS[3],
            True,
            "no policy above 1.5, mixture at least 0.25, violation at most 0.12, 10 episodes/s, 44 s of learning left",
        ),
        (LOOKS[4], False, "no policy below 1.25, mixture at most 1, violation at most 0, now evaluating the policy"),
    ],
)
def test_learning_in_words(look, maximises, words):
    """The time that is left is told once the first episodes, which compile, no longer count."""
    speed = _progress._Speed()
    *_, last = [
        _progress._describe_learning(one, 500, speed(one), maximises=maximises)
        for one in LOOKS[: LOOKS.index(look) + 1]
    ]
    assert last.startswith(f"{look.episodes}/500 episodes")
    assert last.endswith(words)
    assert "candidates" not in last


def test_learning_a_class_tells_how_many_are_left():
    look = replace(LOOKS[1], candidates=bd.models.Candidates((1, 12, 3), (576,) * 3))
    line = _progress._describe_learning(look, 500, None, maximises=True)
    assert "violation at most 0.12, candidates left 12/576 at the worst step" in line


def test_speed_is_that_of_the_last_seconds():
    speed, looks = _progress._Speed(), [LearnProgress(n * n, None, None, None, 0, float(n)) for n in range(100)]
    *_, last = [speed(look) for look in looks]
    assert last == (99**2 - 93**2) / 6  # from the last look that is five seconds old or older


@pytest.mark.parametrize(("speed", "words"), [(0.43, "0.43"), (2.0, "2"), (9.96, "10"), (1234.5, "1234")])
def test_slow_learning_has_a_speed_too(speed, words):
    """Plans of controls take seconds."""
    told = _progress._describe_learning(LOOKS[1], 500, speed, maximises=True)
    assert f", {words} episodes/s, " in told


@pytest.mark.parametrize(("seconds", "words"), [(7.4, "7 s"), (99.0, "99 s"), (150.0, "2 min"), (9000.0, "2.5 h")])
def test_durations(seconds, words):
    assert _progress.format_duration(seconds) == words


def test_an_unknown_support_declares_only_what_is_never_left():
    known = load_unknown("rover", [], None)
    assert known.model.support is known.truth is known.env
    unknown = load_unknown("rover", [], "unknown")
    assert unknown.model.support is None
    cells = "".join(unknown.grid.rows)
    assert unknown.model.absorbing.tolist() == [i for i, cell in enumerate(cells) if cell in "PG"]


def _media(curved):
    """The media task, or a curved problem over its model."""
    task = bd.tasks.find("media").with_settings({})
    if not curved:
        return task.problem, task.mdp
    x = task.mdp.embedding(empty=np.eye(10)[0], fast=np.array([[1.0, 0.0]] * 10))
    wish = cp.norm(cp.hstack([cp.sum(x.empty) - 6, cp.sum(x.fast) - 3]))
    return bd.Problem(cp.Minimize(wish), {"fast": cp.sum(x.fast) <= 4}), task.mdp


@pytest.mark.parametrize("curved", [False, True])
def test_the_truth_about_an_optimal_policy_is_its_optimum(curved):
    """Of a policy that was not learned but solved for."""
    problem, mdp = _media(curved)
    best = bd.solve(problem, mdp)
    learned = bd.learn(problem, mdp, bd.models.Tabular(support=mdp), episodes=1, evaluation=0)
    first = replace(learned.outputs[0], policy=best.policy)
    truth = evaluate_in_true_model(replace(learned, outputs=(first, *learned.outputs[1:])), problem, mdp)
    assert truth.value == pytest.approx(best.value, abs=1e-9)
    assert [c.value for c in truth.constraints] == pytest.approx([c.value for c in best.constraints], abs=1e-9)
    assert truth.optimum == pytest.approx(best.value, rel=1e-12)  # solved again, by code that is compiled by then


def test_the_truth_may_be_that_nothing_is_feasible():
    task = bd.tasks.find("media").with_settings({"budget": "-1"})
    learned = bd.learn(task.problem, task.mdp, episodes=1, evaluation=0)
    truth = evaluate_in_true_model(learned, task.problem, task.mdp)
    assert truth.optimum is None
    assert str(truth).endswith("the problem is infeasible there")
    assert "(violated)" in str(truth)


def test_a_policy_of_nothing_but_one_action_is_told_truly():
    """Ten steps of the fast service, counted by hand."""
    task = bd.tasks.find("media").with_settings({})
    learned = bd.learn(task.problem, task.mdp, episodes=1, evaluation=0)
    fast = MarkovPolicy(np.broadcast_to([1.0, 0.0], (10, 10, 2)).copy())
    truth = evaluate_in_true_model(
        replace(learned, outputs=(replace(learned.outputs[0], policy=fast),)), task.problem, task.mdp
    )
    assert truth.constraints[0].value == pytest.approx(10.0)
    assert "fast 10 <= 5 (violated)" in str(truth)


@pytest.mark.parametrize(
    ("state", "words"), [(STATES[0], "looking for a feasible policy"), (STATES[1], "gap 5.00e-01")]
)
def test_progress_in_words(state, words):
    assert words in _progress._describe(state)


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


USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@pytest.fixture
def _interruptible():
    """As in a terminal: jobs in the background of a shell ignore Ctrl-C."""
    before = {number: signal.signal(number, handler) for number, handler in USUAL.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_an_interrupt_that_gets_lost_is_raised_again(number, kind):
    """As when it comes while garbage is collected: there Python drops exceptions. Afterwards all is as it was."""
    look = LearnProgress(1, None, None, None, 1, 0.0)
    with _progress.open_learning_line("a", 10, maximises=True) as show:
        show(look)
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        with pytest.raises(kind):
            show(look)
    assert {number: signal.getsignal(number) for number in USUAL} == USUAL


@pytest.mark.usefixtures("_interruptible")
def test_signals_that_are_ignored_or_handled_already_are_left_alone():
    handled = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: handled.append(number))
    with remember_interrupts() as raise_lost:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        raise_lost()
    assert handled == [signal.SIGTERM]
