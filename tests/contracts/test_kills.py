"""Whatever kind of run it is: killed anywhere and resumed, it ends as if it had never stopped.

Random moments of `tests.killed`; after every kill the store must be readable, and in the end the result, the numbers of
all episodes and the last checkpoint must be those of a run that was left in peace, to the bit. Some runs are processes
that SIGKILL ends. The others, and all kinds of them, are given up in this process: only a copy of their files goes on.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bidual._base import archive
from bidual.learning import runs
from bidual.learning.learned import LearnProgress
from bidual.learning.state import LearnState
from tests.killed import CASES, run_until_given_up

ROOT = Path(__file__).parents[2]
SECONDS = [field.name for field in fields(LearnProgress)].index("seconds")


class Arena:
    """Folders for the runs, and one parent for all their processes.

    Compiled code is kept for the next run of the tests, apart from that of others: a kill may leave half an entry,
    which JAX then compiles again.
    """

    def __init__(self, folder):
        self.folder = folder
        self.errors = folder / "errors.txt"
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": os.environ["JAX_COMPILATION_CACHE_DIR"] + "-and-killed",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        }
        with self.errors.open("w") as errors:
            self.parent = subprocess.Popen(
                [sys.executable, "-m", "tests.killed"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def close(self):
        self.parent.communicate()

    def run(self, case, name, moment):
        """Returns what the process left, None where it was killed."""
        result = self.folder / f"{name}.json"
        self.parent.stdin.write(json.dumps([case, str(self.folder / "runs" / name), moment, str(result)]) + "\n")
        self.parent.stdin.flush()
        answer = self.parent.stdout.readline()
        assert answer.strip() in ("0", str(-signal.SIGKILL)), answer + self.errors.read_text()
        return json.loads(result.read_text()) if answer.strip() == "0" else None


def _numbers(folder):
    return {column: values for column, values in runs.read(folder).items() if column not in ("run", "seconds")}


def _checkpoint(folder):
    """The contents of the newest, without the names of its files and the time it took."""
    newest = sorted((folder / "checkpoints").glob("*.bidual"))[-1]
    manifest, arrays = archive.read(newest, "checkpoint")
    place = [field.name for field in fields(LearnState)].index("seconds")
    assert manifest["course"]["of"].pop(place) is not None
    for look in manifest["course"]["of"][6]["of"]:
        del look["of"][SECONDS]
    return manifest["course"], {key: array.tobytes() for key, array in arrays.items()}


@pytest.fixture(scope="class")
def arena(tmp_path_factory):
    arena = Arena(tmp_path_factory.mktemp("arena"))
    yield arena
    arena.close()


PROCESSES = ("corrective", "controls")  # the others are killed in the long runs, and given up here
KINDS = [case if case in PROCESSES else pytest.param(case, marks=pytest.mark.slow) for case in CASES]


def _run_here(case, folder, moment=0, copy=None):
    """Run a case in this process to its end, or to the moment at which its files are copied."""
    with pytest.MonkeyPatch.context() as patch:
        return run_until_given_up(case, folder / "run", moment, copy, patch.setattr)


@pytest.fixture(scope="module")
def in_peace(tmp_path_factory):
    """A function that runs a case in one piece, once; it returns what came of it, and its folder."""

    @cache
    def run(case):
        folder = tmp_path_factory.mktemp(case)
        return _run_here(case, folder), folder / "run"

    return run


def _check_store(folder):
    if (folder / "bidual.sqlite").exists():
        listed = runs.listed(folder)
        assert all(one.status in ("stopped", "finished", "unknown") for one in listed)
        # Killed after its manifest and before its entry in the database, a run is known by its folder alone.
        assert not any(one.episodes for one in listed if one.status == "unknown")
        runs.read(folder)


def _killed(arena, case, name, moments):
    """Kill one run again and again; returns its result, and how often it really was killed."""
    kills = 0
    for moment in moments:
        left = arena.run(case, name, moment)
        if left is not None:
            return left, kills
        kills += 1
        _check_store(arena.folder / "runs")
    return arena.run(case, name, 0), kills


def _compare(left, folder, peaceful):
    """Compare what came of a run, and what it stored, with one that ran in peace."""
    undisturbed, other_folder = peaceful
    assert left["outcome"] == undisturbed["outcome"]
    mine, other = _numbers(folder), _numbers(other_folder)
    assert list(mine) == list(other)
    for column, values in mine.items():
        np.testing.assert_array_equal(values, other[column])
    assert _checkpoint(folder) == _checkpoint(other_folder)


def _check(arena, peaceful, case, seed, count):
    name = f"{case}-{seed}"
    left, kills = _killed(arena, case, name, _random_moments(seed, count, peaceful))
    _compare(left, arena.folder / "runs" / name, peaceful)
    return kills


def _random_moments(seed, count, peaceful):
    """Anywhere in a third of a run, so that it gets on between the kills."""
    return np.random.default_rng(seed).integers(1, peaceful[0]["moments"] // 3, count).tolist()


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_was_given_up_ends_as_if_it_had_never_stopped(in_peace, case, tmp_path):
    """Nine moments each: the files as they were then are copied, and the run goes on from the copy."""
    folder, ends = tmp_path / "0", 0
    folder.mkdir()
    for number, moment in enumerate(_random_moments(1, 9, in_peace(case)), start=1):
        copy = tmp_path / str(number)
        if _run_here(case, folder, moment, copy) is not None:
            break
        folder, ends = copy, number
        _check_store(folder)
    assert ends >= 4
    _compare(_run_here(case, folder), folder / "run", in_peace(case))


class TestProcesses:
    """Those that SIGKILL ends."""

    @pytest.mark.parametrize("case", KINDS)
    def test_a_killed_run_ends_as_if_it_had_never_stopped(self, arena, in_peace, case):
        kills = _check(arena, in_peace(case), case, 0, 3)
        assert kills >= 2  # a third of a run at a time: the last kill may come too late

    @pytest.mark.slow
    @pytest.mark.parametrize("case", CASES)
    @pytest.mark.parametrize("seed", range(1, 13))
    def test_two_hundred_kills(self, arena, in_peace, case, seed):
        """Twelve runs of each kind, nine kills at most each (three of those that take long): more than 200 in all."""
        assert _check(arena, in_peace(case), case, seed, 3 if case in ("controls", "receding") else 9) >= 2
