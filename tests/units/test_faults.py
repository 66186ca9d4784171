"""Every n-th call of the system fails: stores stay whole, nothing is lost silently, and runs go on to the same bits.

The gate takes a few of the calls, and `make test-all` every one.
"""

import re
import shutil
from typing import NamedTuple

import pytest

import bidual as bd
from bidual.models import Tabular
from bidual.report._canvas import create_figure, save_figure
from bidual.tasks.riverswim import riverswim
from bidual.world.policies import write_table
from tests.faults import each_failure, failing
from tests.golden.record import FILES
from tests.helpers import keep_few
from tests.killed import outcome
from tests.units.test_stored_evaluation import Slow
from tests.units.test_vanished import DATABASE, contents, remove_database

RIVER = riverswim(budget=2.5, states=3, horizon=5)
EPISODES, EVERY = 4, 2
MODES = {"once": {}, "lasting": {"lasting": True}, "late": {"late": True}}
pytestmark = pytest.mark.unchecked_shapes(reason="the subject is files; each test learns many times")


def steps(*quick):
    """Which calls fail: a first and the distance to the next, quick ones for the gate, and then every single one."""
    return pytest.mark.parametrize("calls", [quick, pytest.param((1, 1), marks=pytest.mark.slow)], ids=["few", "all"])


def learn(folder, *, episodes=EPISODES, state=None, env=RIVER.mdp, tensorboard=False):
    run = None if folder is None else bd.runs.Folder(folder, resume=True, every=EVERY, tensorboard=tensorboard)
    settings = {"episodes": episodes, "evaluation": 5, "seed": 3, "run": run, "state": state}
    return bd.learn(RIVER.problem, env, Tabular(RIVER.mdp), **settings)


def finish(folder, **settings):
    return bd.finish(RIVER.problem, RIVER.mdp, folder, Tabular(RIVER.mdp), evaluation=5, **settings)


def numbers(folder):
    return {name: v.tobytes() for name, v in bd.runs.read(folder).items() if name not in ("run", "seconds")}


def hidden(folder):
    """Files that were never finished."""
    return [path for path in folder.rglob(".*") if path.is_file()]


class Straight(NamedTuple):
    """A run that nothing disturbed, and one that has half of its episodes."""

    folder: str
    half: str
    outcome: dict
    numbers: dict

    def check_state(self, error):
        """What was learned is in the error, unless it came before the first episode."""
        if error.state is not None:
            assert outcome(learn(None, state=error.state)) == self.outcome

    def check_going_on(self, folder):
        """The store can be read, and the run goes on to the same bits, leaving nothing behind."""
        if (folder.parent / DATABASE).exists():
            bd.runs.listed(folder.parent)
            bd.runs.read(folder.parent)
        assert outcome(learn(folder)) == self.outcome
        assert numbers(folder) == self.numbers
        assert hidden(folder) == []
        assert [one.status for one in bd.runs.listed(folder.parent) if one.name == folder.name] == ["finished"]
        assert bd.check(folder)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder, half = (tmp_path_factory.mktemp(name) / "river" for name in ("straight", "half"))
    solution = learn(folder)
    learn(half, episodes=EVERY)
    return Straight(folder, half, outcome(solution), numbers(folder))


def _attempt(faults, function):
    """Call a function while the system fails; return its result, or the error that it ended with."""
    try:
        with failing(faults):
            return function(), None
    except (OSError, bd.BidualError) as error:
        return None, error


def _check_error(error, folder):
    """It is one of a run, with its exit code, and what it says of checkpoints is true."""
    assert isinstance(error, bd.RunError)
    assert error.exit_code == 5
    extent = re.search(r"stored up to episode (\d+), and can be resumed", str(error))
    assert extent is None or (folder / "checkpoints" / f"{int(extent[1]):09d}.bidual").exists()


def _survive(straight, folder, faults, **settings):
    """Learn while the system fails, and then again."""
    solution, error = _attempt(faults, lambda: learn(folder, **settings))
    if error is None:  # nothing failed, or nothing that matters
        assert outcome(solution) == straight.outcome
        assert numbers(folder) == straight.numbers
    else:
        _check_error(error, folder)
        straight.check_state(error)
    straight.check_going_on(folder)


@steps(70, 140)
@pytest.mark.parametrize("mode", MODES)
def test_a_run_survives_every_failure(straight, tmp_path, caplog, mode, calls):
    for place, faults in each_failure(tmp_path, *calls, **MODES[mode]):
        _survive(straight, place / "runs" / "river", faults)
    assert not caplog.records


@steps(70, 140)
@pytest.mark.parametrize("mode", keep_few(MODES, 1))
def test_a_run_that_goes_on_survives_every_failure(straight, tmp_path, mode, calls):
    """A checkpoint that could not be read, it seemed, was put aside, and that was said."""
    for place, faults in each_failure(tmp_path, *calls, **MODES[mode]):
        shutil.copytree(straight.half.parent, place)
        _survive(straight, place / "river", faults)


@steps(33, 60)
@pytest.mark.parametrize("mode", keep_few(MODES, 1))
def test_an_evaluation_survives_every_failure(straight, tmp_path, mode, calls):
    """In an environment that runs one episode at a time its episodes are stored on the way; all were learned from."""
    learn(tmp_path / "whole" / "river", episodes=EPISODES)
    checkpoints = tmp_path / "whole" / "river"
    (checkpoints / "solution.bidual").unlink()
    for place, faults in each_failure(tmp_path / "each", *calls, **MODES[mode]):
        shutil.copytree(checkpoints.parent, place)
        _survive(straight, place / "river", faults, env=Slow())
        assert not (place / "river" / "evaluation.bidual").exists()


@steps(60, 90)
@pytest.mark.parametrize("mode", keep_few(MODES, 1))
def test_a_run_with_numbers_for_tensorboard_survives_every_failure(straight, tmp_path, mode, calls):
    for place, faults in each_failure(tmp_path, *calls, **MODES[mode]):
        _survive(straight, place / "runs" / "river", faults, tensorboard=True)


@pytest.fixture(scope="module")
def finished(straight, tmp_path_factory):
    """What half of the run comes to."""
    folder = shutil.copytree(straight.half.parent, tmp_path_factory.mktemp("finished") / "runs") / "river"
    (folder / "solution.bidual").unlink()
    return folder, outcome(finish(folder, store=False))


@steps(4, 21)
@pytest.mark.parametrize("mode", keep_few(MODES, 1))
@pytest.mark.parametrize("store", [True, False], ids=["stored", "used"])
def test_a_run_that_is_finished_survives_every_failure(finished, tmp_path, store, mode, calls):
    stopped, right = finished
    for place, faults in each_failure(tmp_path, *calls, **MODES[mode]):
        folder = shutil.copytree(stopped.parent, place) / "river"
        before = contents(place)
        solution, error = _attempt(faults, lambda folder=folder: finish(folder, store=store))
        if error is None:
            assert outcome(solution) == right
        else:
            _check_error(error, folder)
        if not store:
            assert contents(place) == before
        assert outcome(finish(folder)) == right
        assert hidden(folder) == []
        assert bd.check(folder)


@steps(150, 200)
@pytest.mark.parametrize("what", ["folder", "database"])
def test_what_vanishes_at_any_moment_is_noticed(straight, tmp_path, what, calls):
    for place, faults in each_failure(tmp_path, *calls):
        folder = place / "runs" / "river"
        rescued, database = folder.with_name("river.rescued"), folder.parent / DATABASE
        copy = database.with_name(f"{DATABASE}.rescued")
        lost = folder if what == "folder" else database
        faults.act = lambda lost=lost: shutil.rmtree(lost) if lost.is_dir() else lost.unlink(missing_ok=True)
        solution, error = _attempt(faults, lambda folder=folder: learn(folder))
        if error is None:  # it vanished before it was there, or was there when it was looked for at the end
            assert outcome(solution) == straight.outcome
            assert numbers(folder) == straight.numbers if lost.exists() else faults.count - faults.call <= 1
            continue
        assert isinstance(error, bd.RunError)
        straight.check_state(error)
        if copy.exists():
            remove_database(folder)
            copy.rename(database)
        straight.check_going_on(rescued if rescued.exists() else folder)


@steps(2, 15)
@pytest.mark.parametrize("mode", MODES)
def test_a_file_is_the_old_one_or_the_new_one(straight, tmp_path, mode, calls):
    solution, old = learn(straight.folder), straight.half / "solution.bidual"
    solution.save(tmp_path / "new")
    whole = {path.read_bytes() for path in (old, tmp_path / "new")}
    for place, faults in each_failure(tmp_path, *calls, **MODES[mode]):
        path = place / "solution.bidual"
        place.mkdir()
        shutil.copy(old, path)
        _, error = _attempt(faults, lambda path=path: solution.save(path))
        assert path.read_bytes() in (whole if error else {(tmp_path / "new").read_bytes()})
        assert bd.check(path)
        assert mode == "lasting" or hidden(place) == []


READERS = {
    "load": lambda folder: bd.load(folder).table.tobytes(),
    "check": lambda folder: str(bd.check(folder)),
    "read": numbers,
    "listed": lambda folder: [(one.name, one.status, one.episodes) for one in bd.runs.listed(folder.parent)],
}


@steps(2, 9)
@pytest.mark.parametrize("mode", ["once", "lasting"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_read_is_right_or_refused(straight, tmp_path, reader, mode, calls):
    right = READERS[reader](straight.folder)
    for place, faults in each_failure(tmp_path, *calls, **MODES[mode]):
        shutil.copytree(straight.folder.parent, place)
        found, error = _attempt(faults, lambda place=place: READERS[reader](place / "river"))
        assert isinstance(error, bd.ArchiveError | bd.RunError) if error else found == right


def _draw(path):
    figure = create_figure(1, 1)
    save_figure(figure, path)


TABLE = bd.load(FILES / "corrective.bidual")
WRITERS = {
    "policy over latents": bd.load(FILES / "latent.bidual").save,
    "policy of controls": bd.load(FILES / "controls-policy.bidual").save,
    **{one: lambda path, one=one: write_table(TABLE, path, one) for one in ("json", "csv", "npz", "safetensors")},
    "picture": _draw,
}


@steps(2, 5)
@pytest.mark.parametrize("mode", keep_few(MODES, 1))
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_is_the_old_file_or_the_new_one(tmp_path, writer, mode, calls):
    """Names and their values stand in safetensors in any order, so bytes are compared without theirs."""
    new = tmp_path / "new.png"
    WRITERS[writer](new)
    for place, faults in each_failure(tmp_path, *calls, **MODES[mode]):
        path = place / "file.png"
        place.mkdir()
        path.write_bytes(b"old")
        _, error = _attempt(faults, lambda path=path: WRITERS[writer](path))
        whole = [sorted(new.read_bytes())] + [sorted(b"old")] * (error is not None)
        assert sorted(path.read_bytes()) in whole
        assert mode == "lasting" or hidden(place) == []
