"""A folder or a database that vanishes while a run is stored: said with exit code 5, and nothing learned is lost."""

import errno
import itertools
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import bidual as bd
from bidual.cli import main
from bidual.learning.learner import Learner
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import Simulator
from tests.helpers import keep_few
from tests.killed import outcome

RIVER = riverswim(budget=2.5, states=3, horizon=5)
EPISODES, EVERY = 20, 5
DATABASE = "bidual.sqlite"
pytestmark = pytest.mark.unchecked_shapes(reason="the subject is files; each test learns two or three times")


def learn(folder, *, state=None, **settings):
    """Twenty episodes, or what is left of them."""
    run = None if folder is None else bd.runs.Folder(folder, every=EVERY, **settings)
    return bd.learn(
        RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), episodes=EPISODES, evaluation=10, seed=3, run=run, state=state
    )


def numbers(folder):
    return {name: v.tobytes() for name, v in bd.runs.read(folder).items() if name not in ("run", "seconds")}


def contents(folder):
    """Every file but locks, which hold the number of a process."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class Straight(NamedTuple):
    """What an undisturbed run comes to."""

    outcome: dict
    numbers: dict


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "river"
    return Straight(outcome(learn(folder)), numbers(folder))


def _during(patch, act):
    """Act before the thirteenth episode, between two checkpoints."""
    real, calls = Simulator.collect, itertools.count(1)

    def collect(*args, **kwargs):
        if next(calls) == 13:
            patch.undo()
            act()
        return real(*args, **kwargs)

    patch.setattr(Simulator, "collect", collect)


def _before_the_finish(patch, act):
    """Act after all episodes, when the result is known and not stored."""
    real = Learner.conclude

    def conclude(*args, **kwargs):
        solution = real(*args, **kwargs)
        patch.undo()
        act()
        return solution

    patch.setattr(Learner, "conclude", conclude)


WHEN = {"learning": _during, "finish": _before_the_finish}


def _replace_folder(folder):
    """Another run in the place of ours, which gets another name."""
    folder.rename(folder.with_name("lake"))
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


def _empty_folder(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


FOLDER = {
    "deleted": shutil.rmtree,
    "renamed": lambda folder: folder.rename(folder.with_name("lake")),
    "replaced": _replace_folder,
    "emptied": _empty_folder,
    "without its policies": lambda folder: shutil.rmtree(folder / "policies"),
    "without its checkpoints": lambda folder: shutil.rmtree(folder / "checkpoints"),
    "without its manifest": lambda folder: (folder / "run.json").unlink(),
    "without its lock": lambda folder: (folder / "lock").unlink(),
    "deleted with everything": lambda folder: shutil.rmtree(folder.parent),
    "renamed with everything": lambda folder: folder.parent.rename(folder.parent.with_name("old")),
}


def _interrupt(monkeypatch, when, act, folder):
    """Let something happen to a run, and return the error that it ends with."""
    with monkeypatch.context() as patch:
        WHEN[when](patch, act)
        with pytest.raises(bd.RunError) as caught:
            learn(folder)
    assert caught.value.exit_code == 5
    return caught.value


def _check_state(error, when, straight):
    """The error has what was learned: the state to go on from and, where there is one, the result."""
    assert error.state.episodes == (15 if when == "learning" else EPISODES)
    assert outcome(learn(None, state=error.state)) == straight.outcome
    if when == "finish":
        assert outcome(error.solution) == straight.outcome
    else:
        assert error.solution is None


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("what", keep_few(FOLDER, 2))
def test_a_run_whose_folder_vanishes_is_stored_beside_it(straight, tmp_path, monkeypatch, what, when):
    folder = tmp_path / "runs" / "river"
    rescued, before = folder.with_name("river.rescued"), {}

    def act():
        FOLDER[what](folder)
        before.update(contents(tmp_path))

    error = _interrupt(monkeypatch, when, act, folder)
    assert f"the run in {folder} " in str(error)
    assert "deleted" in str(error)
    assert str(rescued) in str(error)
    _check_state(error, when, straight)
    after = contents(tmp_path)
    assert {name: after.get(name) for name in before if DATABASE not in name} == {
        name: data for name, data in before.items() if DATABASE not in name
    }
    if when == "finish":
        assert {one.name: one.status for one in bd.runs.listed(folder.parent)}["river.rescued"] == "finished"
        assert bd.check(rescued)
    assert outcome(learn(rescued, resume=True)) == straight.outcome
    assert numbers(rescued) == straight.numbers


def test_a_renamed_folder_goes_on_under_its_old_name(straight, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "river"
    _interrupt(monkeypatch, "learning", lambda: FOLDER["renamed"](folder), folder)
    folder.with_name("lake").rename(folder)
    assert outcome(learn(folder, resume=True)) == straight.outcome
    assert numbers(folder) == straight.numbers


def test_a_run_can_be_stored_beside_another_that_was(tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "river"
    for name in ("river.rescued", "river.rescued-2", "river.rescued-3"):
        error = _interrupt(monkeypatch, "learning", lambda: shutil.rmtree(folder), folder)
        assert f"{folder.with_name(name)}:" in str(error)
        assert folder.with_name(name).is_dir()


def remove_database(folder):
    for suffix in ("", "-wal", "-shm"):
        (folder.parent / f"{DATABASE}{suffix}").unlink(missing_ok=True)


def _replace_database(folder):
    """A text in the place of the database."""
    remove_database(folder)
    (folder.parent / DATABASE).write_text("mine")


def _exchange_database(folder):
    """The database of other runs in the place of ours."""
    remove_database(folder)
    learn(folder.parent / "other")


DATABASES = {
    "deleted": remove_database,
    "replaced": _replace_database,
    "renamed": lambda folder: (folder.parent / DATABASE).rename(folder.parent / "old.sqlite"),
    "exchanged": _exchange_database,
    "without its log": lambda folder: (folder.parent / f"{DATABASE}-wal").unlink(),
}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("what", keep_few(DATABASES, 2))
def test_a_run_whose_database_vanishes_is_stored_with_a_copy_of_it(straight, tmp_path, monkeypatch, what, when):
    folder = tmp_path / "runs" / "river"
    database, copy = folder.parent / DATABASE, folder.parent / f"{DATABASE}.rescued"
    error = _interrupt(monkeypatch, when, lambda: DATABASES[what](folder), folder)
    assert str(database) in str(error)
    assert str(copy) in str(error)
    _check_state(error, when, straight)
    if when == "finish":
        assert bd.check(folder)
    if what == "replaced":
        assert database.read_text() == "mine"
    if what == "exchanged":
        assert numbers(folder.with_name("other")) == straight.numbers
    remove_database(folder)
    copy.rename(database)
    assert outcome(learn(folder, resume=True)) == straight.outcome
    assert numbers(folder) == straight.numbers


def test_a_run_goes_on_without_the_numbers_of_a_lost_database(straight, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "river"
    _interrupt(monkeypatch, "learning", lambda: remove_database(folder), folder)
    assert outcome(learn(folder, resume=True)) == straight.outcome
    assert np.isfinite(bd.runs.read(folder)["plans"]).tolist() == [False] * 15 + [True] * 5


def test_what_cannot_be_stored_elsewhere_is_in_the_error(straight, tmp_path, monkeypatch):
    """A file stands where the parent folder was: nothing can be written beside the run."""
    folder = tmp_path / "runs" / "river"

    def act():
        shutil.rmtree(folder.parent)
        folder.parent.write_text("mine")

    error = _interrupt(monkeypatch, "finish", act, folder)
    assert "error.state" in str(error)
    assert "error.solution" in str(error)
    _check_state(error, "finish", straight)
    assert contents(tmp_path) == {"runs": b"mine"}


@pytest.mark.parametrize("when", WHEN)
def test_a_full_disk_takes_nothing_from_python(straight, tmp_path, monkeypatch, when):
    folder = tmp_path / "runs" / "river"

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        error = _interrupt(monkeypatch, when, lambda: patch.setattr(os, "fsync", fail), folder)
    _check_state(error, when, straight)
    assert outcome(learn(folder, resume=True)) == straight.outcome


@pytest.mark.parametrize("when", WHEN)
def test_a_command_ends_with_its_own_exit_code(tmp_path, monkeypatch, capsys, when):
    monkeypatch.chdir(tmp_path)
    folder = Path("runs/river")
    small = ("--set", "states=3", "--set", "horizon=5", "--set", "budget=2.5", "--evaluation", "10", "--episodes", "20")
    command = ["learn", "riverswim", *small, "--run", str(folder), "--checkpoint-every", "5"]
    with monkeypatch.context() as patch:
        WHEN[when](patch, lambda: shutil.rmtree(folder))
        assert main(command) == 5
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "stored in" not in printed.err
    assert "bidual learn --run runs/river.rescued --resume" in printed.err
    assert main(["learn", "--run", "runs/river.rescued", "--resume"]) == 0
    assert "20 episodes" in capsys.readouterr().out
