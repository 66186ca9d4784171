"""Whatever kind of run it is: killed anywhere and resumed, it ends as if it had never stopped.

Random moments of `tests.killed`, each ended by SIGKILL; after every kill the store must be readable, and in the end the
result, the numbers of all episodes and the last checkpoint must be those of a run that was left in peace, to the bit.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from bidual._base import archive
from bidual.learning import runs
from bidual.learning.learned import LearnProgress
from bidual.learning.state import LearnState
from tests.killed import CASES

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

    def numbers(self, name):
        table = runs.read(self.folder / "runs" / name)
        return {column: values for column, values in table.items() if column not in ("run", "seconds")}

    def checkpoint(self, name):
        """The contents of the newest, without the names of its files and the time it took."""
        newest = sorted((self.folder / "runs" / name / "checkpoints").glob("*.bidual"))[-1]
        manifest, arrays = archive.read(newest, "checkpoint")
        place = [field.name for field in fields(LearnState)].index("seconds")
        assert manifest["course"]["of"].pop(place) is not None
        for look in manifest["course"]["of"][6]["of"]:
            del look["of"][SECONDS]
        return manifest["course"], {key: array.tobytes() for key, array in arrays.items()}


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    arena = Arena(tmp_path_factory.mktemp("arena"))
    yield arena
    arena.close()


# Compiling what plans again as it goes takes longer than all others together; classes and linear laws are tables too.
SLOW = ("receding", "class", "linear")
KINDS = [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in CASES]


@pytest.fixture(scope="module", params=KINDS)
def peaceful(request, arena):
    """A case that ran in one piece."""
    return request.param, arena.run(request.param, f"{request.param}-in-peace", 0)


def _killed(arena, case, name, moments):
    """Kill one run again and again; returns its result, and how often it really was killed."""
    kills = 0
    for moment in moments:
        left = arena.run(case, name, moment)
        if left is not None:
            return left, kills
        kills += 1
        folder = arena.folder / "runs"
        if (folder / "bidual.sqlite").exists():
            assert all(one.status in ("stopped", "finished") for one in runs.listed(folder))
            runs.read(folder)
    return arena.run(case, name, 0), kills


def _check(arena, peaceful, name, moments):
    case, undisturbed = peaceful
    left, kills = _killed(arena, case, name, moments)
    assert left["outcome"] == undisturbed["outcome"]
    mine, other = arena.numbers(name), arena.numbers(f"{case}-in-peace")
    assert list(mine) == list(other)
    for column, values in mine.items():
        np.testing.assert_array_equal(values, other[column])
    assert arena.checkpoint(name) == arena.checkpoint(f"{case}-in-peace")
    return kills


def _random_moments(seed, count, undisturbed):
    """Anywhere in a third of a run, so that it gets on between the kills."""
    return np.random.default_rng(seed).integers(1, undisturbed["moments"] // 3, count).tolist()


def test_a_killed_run_ends_as_if_it_had_never_stopped(arena, peaceful):
    count = 3 if peaceful[0] in ("corrective", "paper") else 2
    kills = _check(arena, peaceful, f"{peaceful[0]}-killed", _random_moments(0, count, peaceful[1]))
    assert kills >= min(count, 2)  # a third of a run at a time: some of the last kills may come too late


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 13))
def test_two_hundred_kills(arena, peaceful, seed):
    """Twelve runs of each kind, nine kills at most each (three of those that take long): more than 200 in all."""
    count = 3 if peaceful[0] in ("controls", "receding") else 9
    assert _check(arena, peaceful, f"{peaceful[0]}-{seed}", _random_moments(seed, count, peaceful[1])) >= 2
