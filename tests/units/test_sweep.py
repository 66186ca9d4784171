"""Sweeps in parts: what a file may say, handing cells out, what is told of them."""

import io
import sys
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import bidual as bd
from bidual.cli._options import Options
from bidual.cli.distributed import Failure, WorkerPool, dask, distribute, local, retry_while_busy
from bidual.cli.sweep import _command, _estimate, _progress
from bidual.cli.sweep._jobs import Job, JobRecord, check_jobs, read_finished
from bidual.cli.sweep._spec import list_options, read_spec
from bidual.cli.sweep._summary import format_table, summarise_jobs
from bidual.learning.folder import create_manifest, write_manifest
from bidual.learning.runs._lock import RunLock
from tests import sweeps

ROOT = Path(__file__).parents[2]


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A function that reads a sweep with this text."""
    monkeypatch.chdir(tmp_path)

    def read(text, out=None):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return read_spec(path, out)

    return read


# The file


def test_every_combination_is_a_cell(spec, tmp_path):
    found = spec(
        """
        episodes = 7
        per_step = true
        stop_gap = 1
        tasks = ["riverswim", "own.py"]
        seeds = [3, 7]
        [grid]
        dual = ["corrective", "paper"]
        confidence = ["ball"]
        [set]
        budget = [0.2, 1]
        horizon = 5
        [set.riverswim]
        budget = 2.5
        states = [3, 4]
        """
    )
    assert found.out == tmp_path / "runs" / "mine"
    assert len(found.jobs) == len({job.name for job in found.jobs}) == 16
    first, last = found.jobs[0], found.jobs[-1]
    assert first.name == "riverswim_dual=corrective_confidence=ball_states=3_seed=3"
    assert last.name == "own_dual=paper_confidence=ball_budget=1_seed=7"
    assert last.group == "own_dual=paper_confidence=ball_budget=1"
    assert first.folder == found.out / first.name
    assert first.options == Options(
        "riverswim",
        ("budget=2.5", "horizon=5", "states=3"),
        episodes=7,
        seed=3,
        stop_gap=1.0,
        dual="corrective",
        confidence="ball",
        per_step=True,
    )
    assert last.options.target == str(tmp_path / "own.py")  # beside the sweep, wherever that is read from
    assert last.options.settings == ("budget=1", "horizon=5")


def test_a_short_sweep(spec, tmp_path):
    job, *others = spec('tasks = "media"').jobs
    assert not others
    assert (job.name, job.options) == ("media_seed=0", Options("media"))
    assert spec('tasks = "media"\nout = "here"').out == tmp_path / "here"
    assert spec('tasks = "media"\nout = "here"', Path("there")).out == tmp_path / "there"


def test_names_are_those_of_files(spec):
    """Everywhere, whatever the task is called and however many settings there are."""
    found = spec('tasks = ["a/mine.py", "b/mine.py", "../übung 1.py"]\n[set]\nx = [1e-6, "a/b"]')
    assert [job.group for job in found.jobs] == [
        *("a-mine_x=1e-06", "a-mine_x=a-b", "b-mine_x=1e-06", "b-mine_x=a-b"),
        *("bung-1_x=1e-06", "bung-1_x=a-b"),
    ]
    long = spec('tasks = "mine.py"\n[set]\n' + "\n".join(f"parameter_{i} = [{i}]" for i in range(40)))
    assert len(long.jobs[0].name) < 200
    other = spec('tasks = "mine.py"\n[set]\n' + "\n".join(f"parameter_{i} = [{i}]" for i in range(41)))
    assert long.jobs[0].name != other.jobs[0].name


TASK = 'tasks = "media"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = = 3", r"mine.toml is not valid TOML: .*line 1"),
        ("episodes = 3", r'names no tasks: write tasks = \["riverswim"\]'),
        (TASK + "episods = 3", r"there is no 'episods'; did you mean 'episodes'\? Possible: tasks, seeds, out, grid, "),
        (TASK + "seed = 3", r"'seed' is not set here: write seeds"),
        (TASK + "[grid]\nseed = [3]", r"\[grid\] 'seed' is not set here: write seeds"),
        (TASK + "settings = 3", r"'settings' is not set here: write \[set\]"),
        (TASK + "[grid]\nduel = ['paper']", r"\[grid\] there is no 'duel'; did you mean 'dual'\? Possible: episodes, "),
        (TASK + "[grid]\ndual = ['papr']", r"\[grid\] dual cannot be 'papr'; did you mean 'paper'\? Possible: correct"),
        (TASK + "confidence = 'cube'", r"confidence cannot be 'cube'. Possible: ball, box, "),
        (TASK + "support = 7", r"support cannot be 7. Possible: declared, unknown"),
        (TASK + "episodes = 3.0", r"episodes must be a whole number; got 3.0"),
        (TASK + "episodes = true", r"episodes must be a whole number; got True"),
        (TASK + "per_step = 1", r"per_step must be true or false; got 1"),
        (TASK + "delta = '0.1'", r"delta must be a number; got '0.1'"),
        (TASK + "episodes = [3, 4]", r"episodes = \[3, 4\] has several values: they belong under \[grid\]"),
        (
            TASK + "[grid]\nepisodes = 3",
            r"\[grid\] episodes must be a list; got 3: write episodes = ... above \[grid\]",
        ),
        (TASK + "[grid]\nepisodes = []", r"\[grid\] episodes is an empty list"),
        (TASK + "[grid]\nepisodes = [3, 3]", r"\[grid\] episodes has 3 twice, which would be the same cells twice"),
        (TASK + "[grid]\ndelta = [1, 1.0]", r"\[grid\] delta has 1.0 twice"),
        (TASK + "[grid]\nepisodes = [[3]]", r"\[grid\] episodes must be a whole number; got \[3\]"),
        (TASK + "episodes = 2\n[grid]\nepisodes = [3]", r"episodes is given twice, for all cells and in \[grid\]"),
        (TASK + "grid = 3", r"grid must be a table, begun by a line \[grid\]; got 3"),
        (
            TASK + "seeds = 0",
            r"seeds must be how many, at least 1 and at most 100000, or a list such as \[3, 7\]; got 0",
        ),
        (TASK + "seeds = '3'", r"seeds must be how many, .*; got '3'"),
        (TASK + "seeds = []", r"seeds is an empty list"),
        (TASK + "seeds = [1, -1]", r"seeds are whole numbers from 0; got -1"),
        (TASK + "seeds = [1, 1]", r"seeds has 1 twice"),
        (TASK + "out = 3", r"out must be the name of a folder; got 3"),
        (TASK + "[set]\nbudget = true", r"\[set\] budget must be a number, or a list of them; got True"),
        (TASK + "[set]\nbudget = []", r"\[set\] budget is an empty list"),
        (TASK + "[set]\nbudget = [1, 1.0]", r"\[set\] budget has 1.0 twice"),
        (TASK + "[set.medai]\nbudget = 1", r"is for one of the tasks: there is no 'medai'; did you mean 'media'"),
        (TASK + "[set.media]\nbudget.x = 1", r"\[set\] budget must be a number, or a list of them; got {'x': 1}"),
        ("tasks = 3", r"tasks must be a list; got 3"),
        ("tasks = [3]", r"tasks are names of tasks or of Python files; got 3"),
        ("tasks = []", r"tasks is an empty list"),
        ("tasks = ['media', 'media']", r"tasks has 'media' twice"),
        ("tasks = ['a.py', './a.py']", r"tasks has '.*/a.py' twice"),
        ("tasks = ['a b.py', 'a-b.py']", r"two cells would have the same folder .*a-b_seed=0: .*a b.py"),
    ],
)
def test_what_a_file_may_not_say(spec, text, message):
    with pytest.raises(bd.TaskError, match=message) as caught:
        spec(text)
    assert "mine.toml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(bd.TaskError, match=r"there is no file .*none.toml: a sweep is a TOML file"):
        read_spec(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks = 'mars'", "mars_seed=0: there is no task 'mars'"),
        (TASK + "[set]\nbugdet = 1", "media_seed=0: task 'media' has no parameter 'bugdet'"),
        (TASK + "[set]\nhorizon = [5, 0]", "media_horizon=0_seed=0: horizon=0: horizon must be a whole number"),
        (TASK + "episodes = 0", "media_seed=0: episodes must be a whole number, at least 1; got 0"),
        (TASK + "delta = 1", "delta must be strictly between 0 and 1"),
        (TASK + "stop_gap = 0", "stop_when needs gap > 0"),
        (TASK + "seeds = [9999999999]", r"the seed must be a whole number from 0 to 2\*\*32 - 1"),
        (
            TASK + "[grid]\ndual = ['paper']\nexplorer = ['greedy']",
            "media_dual=paper_explorer=greedy_seed=0: .*leave out --explorer greedy",
        ),
        ("tasks = 'none.py'", "none_seed=0: there is no file .*none.py"),
    ],
)
def test_what_cannot_work_is_told_before_the_work(spec, text, message):
    with pytest.raises(bd.TaskError, match=message):
        check_jobs(spec(text).jobs)


def test_the_example_can_be_learned(monkeypatch):
    found = read_spec(ROOT / "examples" / "sweep.toml")
    check_jobs(found.jobs)
    assert len(found.jobs) == 12
    assert found.jobs[0].name == "riverswim_dual=corrective_seed=0"


def test_everything_that_a_run_depends_on_can_be_swept():
    assert {*list_options(), "target", "settings", "seed"} == set(Options.__dataclass_fields__)


# Handing cells out


def _told(outcomes):
    return {outcome.place: outcome for outcome in outcomes}


@pytest.mark.parametrize("each", [None, 1, 2])
def test_any_executor_will_do(each):
    crew = WorkerPool(partial(ThreadPoolExecutor, 2), executors=2, each=each)
    found = _told(distribute(sweeps.square, [3, 1, 2], crew))
    assert [(found[place].value, found[place].failure, found[place].attempts) for place in range(3)] == [
        *((9, None, 1), (1, None, 1), (4, None, 1))
    ]
    assert list(distribute(sweeps.square, [], crew)) == []


def test_a_cell_that_fails_is_told_and_the_others_go_on():
    crew = WorkerPool(partial(ThreadPoolExecutor, 1))
    found = _told(distribute(sweeps.trouble, ["run", "other", "exit", "fine"], crew))
    assert found[0].failure == Failure("RunError", "the disk is full", 5)
    assert found[1].failure.message.startswith("ZeroDivisionError: nothing by nothing (")
    assert found[1].failure.message.endswith(f"sweeps.py, line {_line('nothing by nothing')})")
    assert (found[2].failure.kind, found[2].failure.exit_code) == ("SystemExit", 1)
    assert (found[3].value, found[3].failure) == ("fine", None)


def _line(words):
    lines = Path(sweeps.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)


class Fragile(Executor):
    """It breaks with all it has when it is given the word, as a pool does when a worker is killed."""

    def __init__(self, log, last):
        self.log, self.last, self.futures = log, last, []
        log.append("open")

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if self.log.count("broke") < self.last:
            self.futures.append(future)
            if len(self.futures) == 2:
                self.log.append("broke")
                for one in self.futures:
                    one.set_exception(BrokenExecutor("gone"))
        else:
            future.set_result(fn(*args))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.log.append("shut")


def test_a_broken_executor_is_replaced_once_and_its_cells_are_handed_out_again():
    log = []
    found = _told(distribute(sweeps.square, [1, 2], WorkerPool(lambda: Fragile(log, 3))))
    assert log == ["open", "broke", "shut"] * 3 + ["open", "shut"]
    assert [(found[place].value, found[place].attempts) for place in (0, 1)] == [(1, 4), (4, 4)]


def test_a_cell_that_always_loses_its_worker_is_given_up():
    log = []
    found = _told(distribute(sweeps.square, [1, 2, 3, 4], WorkerPool(lambda: Fragile(log, 2), each=2), attempts=2))
    assert [found[place].attempts for place in range(4)] == [2, 2, 1, 1]
    assert "its worker was lost 2 times, the last time with BrokenExecutor: gone" in found[0].failure.message
    assert found[0].failure.exit_code == 1
    assert [found[place].value for place in (2, 3)] == [9, 16]


def test_an_executor_that_was_shut_down_is_replaced():
    made = []

    def opened():
        made.append(ThreadPoolExecutor(1))
        return made[-1]

    outcomes = distribute(sweeps.square, [1, 2], WorkerPool(opened, each=1))
    assert next(outcomes).value == 1
    made[0].shutdown()
    assert [outcome.value for outcome in outcomes] == [4]
    assert len(made) == 2


def test_a_killed_process_takes_nothing_else_with_it(tmp_path):
    """One of two workers dies; its cell is run again, and the other worker goes on, the same all the time."""
    jobs = [tmp_path / "marker", None, None]
    found = _told(distribute(sweeps.die_once, jobs, local(2)))
    assert all(outcome.failure is None for outcome in found.values())
    assert [found[place].attempts for place in range(3)] == [2, 1, 1]
    assert found[1].value != found[0].value


def test_whoever_stops_listening_stops_the_workers():
    """Naps of an hour: without a stop this test would not end."""
    outcomes = distribute(sweeps.nap, [0.0, 3600.0, 3600.0], local(1))
    pid = next(outcomes).value
    outcomes.close()
    assert not Path(f"/proc/{pid}").exists()


def test_a_crew_of_none_is_refused():
    for make, name in (
        (partial(local, 0), "workers"),
        (partial(dask, workers=0), "workers"),
        (partial(WorkerPool, ThreadPoolExecutor, executors=0), "executors"),
        (partial(WorkerPool, ThreadPoolExecutor, each=0), "each"),
    ):
        with pytest.raises(bd.ModelError, match=f"{name} must be a whole number, at least 1; got 0"):
            make()


def test_a_run_that_somebody_writes_to_is_waited_for(tmp_path):
    lock = RunLock(tmp_path)
    timer = threading.Timer(0.2, lock.release)
    timer.start()
    retry_while_busy(lambda: RunLock(tmp_path), 20.0).release()
    held = RunLock(tmp_path)
    with pytest.raises(bd.RunError, match=r"another process .* is writing to"):
        retry_while_busy(lambda: RunLock(tmp_path), 0.1)
    held.release()
    with pytest.raises(bd.RunError, match="the disk is full"):  # which is not to be waited for
        retry_while_busy(lambda: sweeps.trouble("run"), 60.0)


def test_a_scheduler_that_is_not_there_is_named(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("bidual.cli.distributed._dask._PATIENCE", 0.2)
    for address in ("tcp://127.0.0.1:9", "nowhere"):
        with pytest.raises(bd.TaskError, match=f"no Dask scheduler answers at {address} .*'dask scheduler'"):
            next(distribute(sweeps.square, [1], dask(address)))


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(bd.TaskError, match=r"needs an extra: pip install 'bidual\[dask\]'"):
        dask("tcp://127.0.0.1:9").open()


# What is told


def _record(name, result=None, failure=None, attempts=1):
    group, _, seed = name.partition("_seed=")
    return JobRecord(Job(name, group, Path(name), Options("media", seed=int(seed))), result, failure, attempts)


def _result(value, gap, violation, status="feasible"):
    return {
        "status": status,
        "value": value,
        "gap": gap,
        "constraints": [{"violation_upper": 0.0}, {"violation_upper": violation}],
        "seconds": 2.0,
    }


RECORDS = [
    _record("a_seed=0", _result(1.0, 0.5, 0.0)),
    _record("a_seed=1", _result(3.0, None, 0.25, "undecided")),
    _record("b_seed=0", _result(1.0, -0.5, None, "undecided")),
    _record("b_seed=1", failure=Failure("RunError", "the disk is full", 5)),
    _record("c_seed=0", failure=Failure("EnvError", "it broke", 2)),
]


def test_a_line_per_combination():
    a, b, c = summarise_jobs(RECORDS)
    assert (a.group, a.runs, a.failed, a.value, a.gap, a.gaps) == ("a", 2, 0, 2.0, 0.5, 1)
    assert (a.value_spread, a.gap_spread) == (pytest.approx(2**0.5), None)
    assert (a.violation, a.certified) == (0.25, 1)
    assert (b.runs, b.failed, b.violation, b.certified) == (1, 1, None, 0)
    assert (c.runs, c.failed, c.value) == (0, 1, None)
    assert format_table([a, b, c]).splitlines() == [
        "   runs    value      gap  violation at most  certified feasible  failed",
        "a     2  2 ± 1.4  0.5 (1)               0.25                 1/2       -",
        "b     1        1     -0.5        not bounded                 0/1       1",
        "c     0        -        -                  -                   -       1",
    ]
    assert "failed" not in format_table([a])


def test_exit_codes():
    """Trouble with the store goes before other trouble."""
    assert [_command._choose_exit_code(RECORDS[:count]) for count in (3, 4, 5)] == [0, 5, 5]
    assert _command._choose_exit_code(RECORDS[4:]) == 1


def test_a_log_has_a_line_per_cell(capsys):
    with _progress.open_sweep_progress(Path("none"), [record.job for record in RECORDS], RECORDS[:1]) as tell:
        for record in RECORDS[1:4]:
            tell(record)
    assert capsys.readouterr().err.splitlines() == [
        "[2/5] a_seed=1: undecided, value 3, no gap, violation at most 0.25, 2.0 s",
        "[3/5] b_seed=0: undecided, value 1, gap -0.5, violation not bounded, 2.0 s",
        "[4/5] b_seed=1: failed: the disk is full",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_live_table(monkeypatch, tmp_path):
    """With the runs that go on, as the database knows them."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with bd.runs.Store(tmp_path) as store:
        store.register("c_seed=0", {"task": "media", "options": {}})
        (tmp_path / "c_seed=0").mkdir()
        lock = RunLock(tmp_path / "c_seed=0")
        with _progress.open_sweep_progress(tmp_path, [record.job for record in RECORDS], RECORDS[:1]) as tell:
            tell(RECORDS[3])
        lock.release()
    shown = terminal.getvalue()
    assert "1 done, 1 running, 1 failed, 2 left" in shown
    assert "running 0/1000" in shown
    assert shown.splitlines()[-1].endswith("b_seed=1: failed: the disk is full")


def test_a_cell_that_has_fewer_episodes_goes_on(spec):
    found = spec(TASK)
    (job,) = found.jobs
    for episodes, count in ((7, 0), (job.options.episodes, 1)):
        manifest = create_manifest({}, "media", job.options.to_dict() | {"episodes": episodes})
        write_manifest(job.folder, manifest)
        with bd.runs.Store(found.out) as store:
            store.register(job.name, manifest)
            store.update(job.name, "finished", episodes, (), {"constraints": []})
        assert len(read_finished(found.out, [job])) == count


def test_a_folder_with_another_run_is_named_before_anything_starts(spec):
    """And one that was started by a bidual that had fewer options is the same run, if they are as they were."""
    found = spec(TASK)
    (job,) = found.jobs
    options = job.options.to_dict()
    for other in (options, options | {"episodes": 7, "batch": 2}, {}):
        write_manifest(job.folder, create_manifest({}, "media", other))
        if other == options:
            assert read_finished(found.out, [job]) == []
            continue
        told = "episodes was 7 and is 1000, batch was 2 and is 1" if other else "target was None and is 'media'"
        with pytest.raises(
            bd.RunError, match=rf"media_seed=0 holds a run with other options \({told}.*nothing was sta"
        ):
            read_finished(found.out, [job])
    del options["batch"]
    with bd.runs.Store(found.out) as store:
        store.register(job.name, {"options": options})
        assert read_finished(found.out, [job]) == []
        store.update(job.name, "finished", 1000, (), _result(1.0, 0.5, 0.0))
    (record,) = read_finished(found.out, [job])
    assert (record.attempts, record.result["task"], record.certified) == (0, "media", True)


def test_an_estimate_rests_on_stored_runs_or_on_a_pilot(spec, monkeypatch):
    found = spec('tasks = ["riverswim", "media", "bad.py"]\nseeds = 2\nepisodes = 100')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_estimate, "_time_run", lambda options, folder: 5.0 if folder.name == "first" else 1.0)
        estimate = _estimate.estimate_time(found.out, found.jobs[:4], 2)
    assert estimate.seconds == pytest.approx(2 * 4.0 + 400 * 0.05 / 2)
    assert estimate.sources == tuple(
        f"{name}: 0.05 s per episode, from a pilot of 20 episodes of {name}_seed=0" for name in ("riverswim", "media")
    )
    found.out.mkdir(parents=True)
    with bd.runs.Store(found.out) as store:
        for seed, seconds in ((0, 2.0), (1, 4.0)):
            store.register(f"media_seed={seed}", {"options": {"target": "media"}})
            store.update(f"media_seed={seed}", "finished", 100, (), {"seconds": seconds, "episodes": 100})
    estimate = _estimate.estimate_time(found.out, spec('tasks = "media"\nseeds = [5]\nepisodes = 200').jobs, 4)
    assert estimate.seconds == pytest.approx(200 * 0.03)
    assert estimate.sources == ("media: 0.03 s per episode, the mean of 2 finished runs of it",)
    estimate = _estimate.estimate_time(found.out, found.jobs[4:], 2)
    assert estimate.seconds is None
    assert "bad.py: no estimate: there is no file" in estimate.sources[0]
