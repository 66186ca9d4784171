"""The database of runs under damage: no number changes silently, and one damaged row hides no other run."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import numpy as np
import pytest

import bidual as bd
from bidual.cli import main
from bidual.learning.metrics import Metric
from bidual.learning.runs import Store
from tests.helpers import keep_few
from tests.hostile_runs import ROWS

RUNS = ("a", "b")
# Long horizons are those of claims, not of policies; episodes of an evaluation that cannot be used are run again.
USABLE = ("load a long horizon", "export a long horizon", "resume evaluation", "export many probabilities")
TWO = "damaged and left out: {'objective': 1, 'limit': 1}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A database of two runs, without their folders' other files."""
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    with Store(folder) as store:
        for run in RUNS:
            store.register(run, {"task": "made up", "created": 1.0})
            (folder / run).mkdir()
            for first in range(1, 200, 50):
                values = rng.normal(size=(50, 2)).tolist()
                metrics = [
                    Metric(name, first + i, pair[place])
                    for i, pair in enumerate(values)
                    for place, name in enumerate(("objective", "limit"))
                ]
                store.update(run, "running", first + 49, [*metrics, Metric("gap", first, values[0][0])])
            store.update(run, "finished", 200, (), {"value": 1.5, "gap": 0.25, "constraints": []})
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "runs")


def _numbers(table):
    """Return every number of a table by its place."""
    places = list(zip(table["run"].tolist(), table["episode"].tolist(), strict=True))
    columns = [name for name in table if name not in ("run", "episode")]
    return {
        (*place, name): table[name][row]
        for row, place in enumerate(places)
        for name in columns
        if not np.isnan(table[name][row])
    }


def _change(folder, *statements):
    with closing(sqlite3.connect(folder / "bidual.sqlite", isolation_level=None)) as base:
        for statement in statements:
            base.execute(statement)


@pytest.mark.parametrize("part", keep_few(range(8), 1))
def test_no_flipped_bit_changes_a_number_silently(whole, copy, caplog, part):
    """Of 400 flips, 50 in each part: what is read is as it was written, or it is missing and that is said."""
    rng, data = np.random.default_rng(part), (whole / "bidual.sqlite").read_bytes()
    numbers, entries = _numbers(bd.runs.read(whole)), {one.name: one[3:] for one in bd.runs.listed(whole)}
    for place, bit in zip(rng.integers(0, len(data), 50).tolist(), rng.integers(0, 8, 50).tolist(), strict=True):
        damaged = bytearray(data)
        damaged[place] ^= 1 << bit
        (copy / "bidual.sqlite").write_bytes(damaged)
        caplog.clear()
        try:
            found, listed = _numbers(bd.runs.read(copy)), {one.name: one[3:] for one in bd.runs.listed(copy)}
        except bd.RunError:
            continue
        assert found.items() <= numbers.items(), (place, bit)
        assert listed.items() <= entries.items(), (place, bit)
        assert caplog.records or (found == numbers and listed == entries), (place, bit)


def test_a_number_in_the_place_of_another_is_noticed(whole, copy, caplog):
    """A flip in the list of a page's rows can make one of them appear twice: each is as it was written, one is lost."""
    data, before = bytearray((whole / "bidual.sqlite").read_bytes()), _numbers(bd.runs.read(whole))
    size = int.from_bytes(data[16:18], "big")
    leaves = [page for page in range(size, len(data), size) if data[page] == 10]
    leaf = max(leaves, key=lambda page: int.from_bytes(data[page + 3 : page + 5], "big"))  # of numbers: most have many
    data[leaf + 14 : leaf + 16] = data[leaf + 12 : leaf + 14]
    (copy / "bidual.sqlite").write_bytes(data)
    assert len(_numbers(bd.runs.read(copy))) == len(before) - 1
    assert "damaged and left out" in caplog.text


def test_a_damaged_entry_is_named_and_hides_no_other(copy, caplog, capsys):
    _change(copy, "UPDATE runs SET episodes = 2000 WHERE name = 'a'")
    assert main(["runs", str(copy)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["run", "b"]
    assert "the entry of run 'a' in" in caplog.text
    assert "is damaged" in caplog.text


def test_a_database_without_tables_is_one_without_runs(tmp_path):
    """A process that is killed before it makes them leaves one."""
    (tmp_path / "bidual.sqlite").touch()
    assert bd.runs.listed(tmp_path) == []
    assert bd.runs.read(tmp_path)["run"].size == 0
    assert (tmp_path / "bidual.sqlite").read_bytes() == b""


def test_a_run_without_an_entry_is_listed_by_its_manifest(copy, caplog):
    """The folder says what the database cannot."""
    from bidual.learning.folder import write_manifest

    manifest = {
        "format": 1,
        "kind": "run",
        "task": "river",
        "facts": {"seed": 0},
        "versions": {},
        "created": 5.0,
        "options": {},
    }
    write_manifest(copy / "a", manifest)
    _change(copy, "UPDATE runs SET result = '{' WHERE name = 'a'")
    first, second = bd.runs.listed(copy)
    assert (first.name, first.task, first.status, first.created) == ("a", "river", "unknown", 5.0)
    assert (second.name, second.status) == ("b", "finished")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE metrics SET value = value + 1 WHERE episode = 7",
            TWO,
        ),
        ("UPDATE metrics SET episode = 777 WHERE episode = 7", TWO),
        ("UPDATE metrics SET value = 'one' WHERE episode = 7", TWO),
        ("UPDATE series SET name = 'other' WHERE name = 'limit'", "damaged and left out: {'other': 200}"),
        ("DELETE FROM metrics WHERE episode = 7", "2 numbers of run 'b'"),
        ("DELETE FROM series WHERE name = 'limit'", "200 numbers of run 'b'"),
    ],
)
def test_changed_and_lost_numbers_are_named(whole, copy, caplog, statement, words):
    before = _numbers(bd.runs.read(whole))
    _change(copy, statement)
    assert _numbers(bd.runs.read(copy)).items() < before.items()
    assert words in caplog.text


def test_a_database_that_computes_is_refused(copy):
    """A view in the place of a table is a program of whoever wrote it; so is a trigger."""
    _change(copy, "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM metrics; END")
    for opened in (bd.runs.listed, bd.runs.read, Store):
        with pytest.raises(bd.RunError, match="its tables are not ours"):
            opened(copy)


def test_a_terminal_obeys_nothing_that_a_database_says(copy, capsys):
    with Store(copy) as store:
        store.register("\x1b[2Jcleared", {"task": "\x1b]0;title\x07"})
    assert main(["runs", str(copy)]) == 0
    told = capsys.readouterr()
    assert "\\x1b[2Jcleared" in told.out
    assert "\x1b" not in told.out + told.err


def test_a_database_of_the_first_version_is_read_as_it_is_and_brought_up_to_date(copy):
    """It had no checksums: they are computed by the next who writes."""
    before, entries = _numbers(bd.runs.read(copy)), bd.runs.listed(copy)
    _to_first_version(copy)
    data = (copy / "bidual.sqlite").read_bytes()
    assert _numbers(bd.runs.read(copy)) == before
    assert bd.runs.listed(copy) == entries
    assert (copy / "bidual.sqlite").read_bytes() == data
    with Store(copy) as store:
        store.update("b", "finished", 200)
    assert _numbers(bd.runs.read(copy)) == before
    _change(copy, "UPDATE metrics SET value = 0.0 WHERE episode = 9")
    assert len(_numbers(bd.runs.read(copy))) == len(before) - 4


def _to_first_version(folder):
    from bidual.learning.runs._schema import _TABLES_UNSEALED as OLD

    statements = []
    for name, columns in (
        ("runs", "name, created, updated, status, episodes, manifest, result"),
        ("metrics", "series, episode, value"),
    ):
        statements += [f"ALTER TABLE {name} RENAME TO new_{name}", OLD[name]]
        statements += [f"INSERT INTO {name} SELECT {columns} FROM new_{name}", f"DROP TABLE new_{name}"]
    _change(folder, *statements, "PRAGMA user_version = 1", "PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def _read_only(folder):
    """Nothing can be written: by permissions, which do not hold for root."""
    folder.chmod(0o555)
    effective = os.geteuid()
    if effective == 0:
        for path in (folder, *folder.parents):
            if not path.stat().st_mode & 0o001:
                pytest.skip("another user cannot enter the folder of the tests")
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(effective)
        folder.chmod(0o755)


def test_a_store_that_cannot_be_written_is_read(copy, tmp_path):
    before, entries = _numbers(bd.runs.read(copy)), bd.runs.listed(copy)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if parent.owner() == copy.owner() and parent != parent.parent:
            parent.chmod(parent.stat().st_mode | 0o055)
    with _read_only(copy):
        assert _numbers(bd.runs.read(copy)) == before
        assert bd.runs.listed(copy) == entries


@pytest.mark.parametrize("which", ["few", pytest.param("all", marks=pytest.mark.slow)])
def test_hostile_files_are_refused_within_bounded_memory(tmp_path, which):
    """Files of ten megabytes: whatever is in them, refusing them takes less than 200 MB beyond the start."""
    used = _find_used("tests.hostile", tmp_path, which, {"ArchiveError", "RunError"})
    # They print why:
    assert used == {"all": {"list columns", "list text", "table text", "exact axis"}, "few": set()}[which]


@pytest.mark.parametrize("which", ["few", *(pytest.param(row, marks=pytest.mark.slow) for row in ROWS)])
def test_hostile_files_of_runs_and_sweeps_are_refused_within_bounded_memory(tmp_path, which):
    """Likewise where a run is concluded or goes on, a policy is loaded or exported, and a sweep is read.

    Each row is a process with a limit of CPU time: one that takes it for ever does not keep the others.
    """
    refusals = {"ArchiveError", "CertificateError", "PolicyError", "RunError", "TaskError"}
    used = _find_used("tests.hostile_runs", tmp_path, which, refusals)
    assert all(name.startswith(USABLE) for name in used), used


def _find_used(module, folder, which, refusals):
    """Try hostile files in another process, within bounded memory; return the names of those that are not refused."""
    command = [sys.executable, "-m", module, str(folder), which]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert max(megabytes for _, megabytes in found.values()) < 200, found
    used = {name for name, (error, _) in found.items() if error not in refusals}
    assert {found[name][0] for name in used} <= {"nothing"}, found
    return used
