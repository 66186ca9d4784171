"""Ctrl-C in every phase of a run: what is said to be stored is stored, and what follows is as if nothing happened."""

import itertools
import json
from dataclasses import replace

import pytest

import bidual as bd
from bidual.learning.folder import read_manifest
from bidual.learning.learner import Learner
from bidual.tasks.riverswim import riverswim
from tests.end_to_end.test_cli_runs import SMALL
from tests.killed import outcome
from tests.terminal import type_ctrl_c

COMMAND = ("learn", *SMALL, "--episodes", "20", "--run", "runs/a", "--json")
RIVER = riverswim(budget=2.5, states=3, horizon=5)


def interrupt(*_arguments, **_named):
    raise KeyboardInterrupt


def interrupt_call(number, function):
    """Return the function, which is interrupted at this call of it, before it does anything."""
    calls = itertools.count(1)
    return lambda *arguments, **named: (interrupt if next(calls) == number else function)(*arguments, **named)


def learn(**changes):
    return bd.learn(
        RIVER.problem, RIVER.mdp, bd.models.Tabular(RIVER.mdp), **({"episodes": 20, "evaluation": 10} | changes)
    )


def timeless(text):
    return {key: value for key, value in json.loads(text).items() if key != "seconds"}


# By what is interrupted there, at which call of it, and whether the run is stored by then.
PHASES = {
    "reading the options": ("bidual.cli.learn._read_options", 1, False),
    "writing the manifest": ("bidual.learning.folder.write_manifest", 1, False),
    "loading the task": ("bidual.cli.learn.load_declared", 1, True),
    "setting up": ("bidual.learning.learn.set_up", 1, True),
    "opening the folder": ("bidual.learning.runs._writer.RunLock", 1, True),
    "opening the database": ("bidual.learning.runs._writer.Store", 1, True),
    "writing the facts": ("bidual.learning.runs._writer.write_manifest", 1, True),
    "registering": ("bidual.learning.runs._store.Store.register", 1, True),
    "compiling the planner": ("bidual.learning.learn.vpdpo", 1, True),
    "episodes": ("bidual.learning.learner.Learner.take", 8, True),
    "bounds on the way": ("bidual.learning.learner.Learner.report_progress", 1, True),
    "bounds in the end": ("bidual.learning.learner.Learner.report_progress", 2, True),
    "evaluation": ("bidual.learning.learner.Learner._evaluate", 1, True),
    "writing the solution": ("bidual.learning.learned.Learned.save", 1, True),
    "writing the result": ("bidual.learning.runs._store.Store.update", 2, True),
}

# What Python runs at the start of a process: it waits for Ctrl-C at a call of a function, and leaves a file there.
WAIT = """
import itertools, pathlib, time
from importlib import import_module
module, _, attribute = {name!r}.rpartition(".")
try:
    owner = import_module(module)
except ModuleNotFoundError:
    module, _, kind = module.rpartition(".")
    owner = getattr(import_module(module), kind)
function, calls = getattr(owner, attribute), itertools.count(1)
def wait(*arguments, **named):
    if next(calls) == {call}:
        pathlib.Path("waits").touch()
        time.sleep(100)
    return function(*arguments, **named)
setattr(owner, attribute, wait)
"""


@pytest.fixture(scope="module")
def straight():
    """What a run in one piece prints."""
    return {}


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_is_said_to_be_stored_only_where_it_is(bidual_here, straight, monkeypatch, tmp_path, phase):
    name, call, stored = PHASES[phase]
    if not straight:
        straight.update(timeless(bidual_here(*COMMAND[:-2], "straight/a", "--json").stdout))
    with monkeypatch.context() as patched:
        module, _, attribute = name.rpartition(".")
        patched.setattr(name, interrupt_call(call, _find(module, attribute)))
        told = bidual_here(*COMMAND)
    assert told.returncode == 130
    assert (tmp_path / "runs" / "a" / "run.json").exists() == stored
    assert ("the run is stored" in told.stderr) == stored
    assert told.stderr.endswith("bidual: interrupted\n")
    again = bidual_here("learn", "--run", "runs/a", "--resume", "--json") if stored else bidual_here(*COMMAND)
    assert again.returncode == 0, again.stderr
    assert timeless(again.stdout) == straight


def test_ctrl_c_while_libraries_are_imported_leaves_a_run(tmp_path):
    """In a terminal, as soon as the manifest is there: which is before its problem is known."""
    manifest = tmp_path / "runs" / "a" / "run.json"
    code, screen = type_ctrl_c([*map(str, COMMAND)], tmp_path, manifest.exists, {})
    assert code == 130
    assert screen.endswith("'bidual learn --run runs/a --resume' goes on with it\nbidual: interrupted\n")
    assert read_manifest(manifest.parent)["facts"] == {}
    (listed,) = bd.runs.listed(tmp_path / "runs")
    assert (listed.status, listed.episodes) == ("begun", 0)
    with pytest.raises(bd.RunError, match="no episode to conclude from"):
        bd.finish(RIVER.problem, RIVER.mdp, manifest.parent)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_in_a_terminal(bidual, straight, tmp_path, phase):
    name, call, stored = PHASES[phase]
    if not straight:
        straight.update(timeless(bidual(*COMMAND[:-2], "straight/a", "--json").stdout))
    (tmp_path / "sitecustomize.py").write_text(WAIT.format(name=name, call=call))
    code, screen = type_ctrl_c(
        [*map(str, COMMAND)], tmp_path, (tmp_path / "waits").exists, {"PYTHONPATH": str(tmp_path)}
    )
    assert (code, "Traceback" in screen) == (130, False)
    assert screen.endswith("bidual: interrupted\n")
    assert (tmp_path / "runs" / "a" / "run.json").exists() == ("the run is stored" in screen) == stored
    again = bidual("learn", "--run", "runs/a", "--resume", "--json") if stored else bidual(*COMMAND)
    assert timeless(again.stdout) == straight


def test_a_run_that_cannot_begin_leaves_nothing(bidual_here, tmp_path):
    told = bidual_here("learn", "rover", "--set", "budgt=1", "--run", "runs/a")
    assert (told.returncode, "budget" in told.stderr) == (2, True)
    with pytest.raises(bd.ProblemError):
        bd.learn(RIVER.problem, RIVER.mdp, "a model", run=tmp_path / "runs" / "a")
    assert not list(tmp_path.iterdir())
    learn(run=tmp_path / "runs" / "a")
    with pytest.raises(bd.RunError, match="already holds a run"):
        learn(run=tmp_path / "runs" / "a")


def test_a_run_that_has_only_begun_may_be_started_again(monkeypatch, tmp_path):
    """Without saying that it is resumed: nothing is lost."""
    with monkeypatch.context() as patched:
        patched.setattr("bidual.learning.learn.set_up", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learn(run=tmp_path / "a")
    assert outcome(learn(run=tmp_path / "a")) == outcome(learn())


def _find(module, attribute):
    """Return a function by its name, of a module or of a class in one."""
    from importlib import import_module

    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError:
        module, _, kind = module.rpartition(".")
        return getattr(getattr(import_module(module), kind), attribute)


def contents(folder):
    """Every file of a folder but the locks, which hold the number of the last process."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_resuming_a_finished_run_changes_nothing(monkeypatch, tmp_path):
    """Also where a clock ends hard bounds, and other plans were made the second time."""
    folder = tmp_path / "runs" / "a"
    first = learn(run=folder)
    stored, entries = contents(folder), bd.runs.listed(folder.parent)
    conclude = Learner.conclude
    monkeypatch.setattr(
        Learner, "conclude", lambda *arguments: replace(conclude(*arguments), plans=first.plans - 7, seconds=0.0)
    )
    again = learn(run=bd.runs.Folder(folder, resume=True))
    assert outcome(again) == outcome(first)
    assert (again.plans, again.seconds) == (first.plans, first.seconds)
    monkeypatch.setattr(Learner, "conclude", interrupt)
    with pytest.raises(KeyboardInterrupt):
        learn(run=bd.runs.Folder(folder, resume=True))
    assert contents(folder) == stored
    assert bd.runs.listed(folder.parent) == entries


def test_a_run_of_whole_batches_is_resumed(tmp_path):
    first = learn(run=tmp_path / "a", batch=16)
    assert first.episodes == 32
    assert outcome(learn(run=bd.runs.Folder(tmp_path / "a", resume=True), batch=16)) == outcome(first)


def test_an_interrupt_of_learn_carries_what_was_learned(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Learner, "take", interrupt_call(8, Learner.take))
        with pytest.raises(KeyboardInterrupt) as stop:
            learn()
    state = stop.value.state
    assert state.episodes == 7
    assert outcome(learn(state=state)) == outcome(learn())
    assert outcome(learn(state=state, episodes=7)) == outcome(learn(episodes=7))
    monkeypatch.setattr("bidual.learning.learn.set_up", interrupt)
    with pytest.raises(KeyboardInterrupt) as early:
        learn()
    assert early.value.state is None


def test_a_stopped_run_is_finished_in_python(monkeypatch, tmp_path):
    folder, model = tmp_path / "runs" / "a", bd.models.Tabular(RIVER.mdp)
    with monkeypatch.context() as patched:
        patched.setattr(Learner, "take", interrupt_call(8, Learner.take))
        with pytest.raises(KeyboardInterrupt):
            learn(run=folder)
    stored = contents(tmp_path / "runs")
    look = bd.finish(RIVER.problem, RIVER.mdp, folder, model, evaluation=10, store=False)
    assert contents(tmp_path / "runs") == stored
    solution = bd.finish(RIVER.problem, RIVER.mdp, folder, model, evaluation=10)
    assert outcome(solution) == outcome(look) == outcome(learn(episodes=7))
    assert bd.load(folder).shape == solution.policy.shape
    with pytest.raises(bd.RunError, match="another explorer"):
        bd.finish(RIVER.problem, RIVER.mdp, folder, model, explorer=bd.explorers.Optimistic())
