"""The database of a runs folder: one SQLite file with the status of every run, and the metrics of every episode.

Several processes may write at once: SQLite's write-ahead log lets one write while others read, and a writer
that finds it busy waits. A commit is on the disk when it returns. Rows carry checksums: one that is damaged is named
in a warning and left out, and the others are read.
"""

import json
import logging
import math
import os
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import RunError
from bidual._base.limits import read_json
from bidual.learning.metrics import PROGRESS_METRICS, Metric
from bidual.learning.runs._lock import leads_to
from bidual.learning.runs._schema import (
    FILE,
    PATIENCE,
    digest_entry,
    is_sealed,
    open_reader,
    open_writer,
    seal,
    seed_series,
)

_ROW = "name, created, updated, status, episodes, manifest, result"
_LOG = logging.getLogger("bidual.runs")

T = TypeVar("T")


class RunEntry(NamedTuple):
    """A run in the database."""

    name: str
    created: float
    updated: float
    status: str
    episodes: int
    manifest: dict[str, Any]
    result: dict[str, Any] | None


class Series(NamedTuple):
    """A metric of a run: its values, by ascending episodes."""

    episodes: Int[np.ndarray, "n"]
    values: Float[np.ndarray, "n"]


class Store:
    """An open database. Every method is one transaction. Opened to read it changes nothing."""

    def __init__(self, folder: Path, *, writable: bool = True) -> None:
        self.path = folder / FILE
        opened = (lambda: (open_writer(self.path), True)) if writable else (lambda: open_reader(self.path))
        self._base, self._sealed = _retry(opened, self.path)
        try:
            self._files = _find_files(self.path) if writable else {}
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def find_missing(self) -> Path | None:
        """Find a file of the database that was deleted, renamed or replaced since it was opened; None if none was."""
        return next((path for path, opened in self._files.items() if not leads_to(path, opened)), None)

    def copy_to(self, path: Path) -> None:
        """Copy the database to an empty file: all of it, also where its own file was deleted since it was opened."""
        try:
            with closing(sqlite3.connect(path)) as base:
                self._base.backup(base)
        except sqlite3.Error as error:
            raise _explain_error(path, error) from error

    def register(self, name: str, manifest: dict[str, Any]) -> None:
        """Register a run that begins or resumes."""
        now = time.time()
        with self._transaction() as base:
            row = self._row(base, name)
            episodes = 0 if row is None else row[4]
            created = float(manifest.get("created", now))
            entry = (name, created, now, "running", episodes, json.dumps(manifest), None)
            _put(base, entry, _count(base, name))

    def update(
        self,
        name: str,
        status: str,
        episodes: int,
        metrics: Iterable[Metric] = (),
        result: dict[str, Any] | None = None,
    ) -> None:
        """Update the status of a run, with the metrics since the last time."""
        with self._transaction() as base:
            added, row = _insert(base, name, metrics), self._row(base, name)
            if row is None:
                raise RunError(f"the entry of run {name!r} in {self.path} is damaged or gone: resume the run")
            text = row[6] if result is None else json.dumps(result)
            _put(base, (name, row[1], time.time(), status, episodes, row[5], text), row[7] + added)

    def forget(self, name: str, after: int) -> None:
        """Delete metrics of later episodes than `after`, and the bounds after it: they will be computed again."""
        with self._transaction() as base:
            for least, names in ((after + 1, "name"), (after, ", ".join(f"'{metric}'" for metric in PROGRESS_METRICS))):
                own = f"SELECT id FROM series WHERE run = ? AND name IN ({names})"
                base.execute(f"DELETE FROM metrics WHERE series IN ({own}) AND episode >= ?", (name, least))
            row = self._row(base, name)
            if row is not None:
                _put(base, (*row[:4], after, *row[5:7]), _count(base, name))

    def entries(self) -> list[RunEntry]:
        """Return all runs, in the order of their names; damaged entries are named in a warning, and left out."""
        query = f"SELECT {_ROW}{', numbers, digest' if self._sealed else ''} FROM runs ORDER BY name"
        found = (self._entry(row) for row in self._rows(query))
        return [entry for entry in found if entry is not None]

    def series(self, run: str) -> dict[str, Series]:
        """Return the metrics of a run by name; damaged numbers are counted in a warning, and left out."""
        found = {name: self._read_series(run, name, number) for number, name in self._names(run)}
        if self._sealed:
            self._warn_of_losses(run, found)
        return {name: one for name, (one, _) in found.items()}

    def latest(self, run: str, name: str) -> float | None:
        """Return the last undamaged value of a series; None where there is none."""
        for number, other in self._names(run):
            if other == name:
                rows = self._numbers(number, seed_series(run, name), "DESC")
                return next((value for _, value, intact in rows if intact), None)
        return None

    def _entry(self, row: tuple[Any, ...]) -> RunEntry | None:
        """Return the entry of a row, None where it is damaged."""
        try:
            if self._sealed and digest_entry(row[:8]) != row[8]:
                raise ValueError("its checksum is another")
            name, created, updated, status, episodes, manifest, result, *_ = row
            return RunEntry(name, created, updated, status, episodes, read_json(manifest), read_json(result or "null"))
        except (ValueError, TypeError, RecursionError) as error:
            _LOG.warning("the entry of run %r in %s is damaged (%s): resume the run", row[0], self.path, error)
            return None

    def _names(self, run: str) -> list[tuple[int, str]]:
        return list(self._rows("SELECT id, name FROM series WHERE run = ? ORDER BY id", (run,)))

    def _read_series(self, run: str, name: str, number: int) -> tuple[Series, int]:
        """Read one series; return with it how many of its numbers are damaged."""
        episodes, values, damaged = array("q"), array("d"), 0
        for episode, value, intact in self._numbers(number, seed_series(run, name)):
            if intact and not (episodes and episode <= episodes[-1]):  # a row that appears twice hides another
                episodes.append(episode)
                values.append(value)
            else:
                damaged += 1
        return Series(np.array(episodes, dtype=np.int64), np.array(values, dtype=np.float64)), damaged

    def _numbers(self, number: int, seed: int, order: str = "ASC") -> Iterator[tuple[int, float, bool]]:
        """Yield episode, value and whether they are as they were written."""
        query = (
            f"SELECT episode, value{', seal' if self._sealed else ''} FROM metrics WHERE series = ? ORDER BY episode"
        )
        for episode, value, *found in self._rows(f"{query} {order}", (number,)):
            if self._sealed:
                yield episode, value, is_sealed(seed, episode, value, found[0])
            else:
                yield episode, value, type(episode) is int and type(value) is float

    def _warn_of_losses(self, run: str, found: dict[str, tuple[Series, int]]) -> None:
        damaged = {name: count for name, (_, count) in found.items() if count}
        if damaged:
            _LOG.warning("numbers of run %r in %s are damaged and left out: %s", run, self.path, damaged)
        rows = list(self._rows(f"SELECT {_ROW}, numbers, digest FROM runs WHERE name = ?", (run,)))
        if rows and self._entry(rows[0]) is not None:
            missing = rows[0][7] - sum(one.values.size + count for one, count in found.values())
            if missing:
                _LOG.warning("%d numbers of run %r in %s are missing", missing, run, self.path)

    def _rows(self, query: str, arguments: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, as many as can be read; the rest is named in a warning."""
        count = 0
        try:
            for row in self._base.execute(query, arguments):
                count += 1
                yield row
        except sqlite3.DatabaseError as error:
            if not count and not isinstance(error, sqlite3.DataError) and "malformed" not in str(error):
                raise _explain_error(self.path, error) from error
            _LOG.warning("%s is damaged (%s): some of it cannot be read", self.path, error)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that locks for writing at once, so that nothing read can change before its end."""
        try:
            try:
                self._base.execute("BEGIN IMMEDIATE")
                yield self._base
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise _explain_error(self.path, error) from error

    def _row(self, base: sqlite3.Connection, name: str) -> tuple[Any, ...] | None:
        """Return the row of a run; None where there is none that is as it was written."""
        row = base.execute(f"SELECT {_ROW}, numbers, digest FROM runs WHERE name = ?", (name,)).fetchone()
        return row if row is not None and digest_entry(row[:8]) == row[8] else None


def _find_files(path: Path) -> dict[Path, os.stat_result]:
    """Return the files of an open database with what the system says of them: its own and, if there, its log."""
    log = path.with_name(f"{path.name}-wal")
    return {one: one.stat() for one in (path, log) if one == path or one.exists()}


def _put(base: sqlite3.Connection, entry: tuple[Any, ...], numbers: int) -> None:
    row = (*entry, numbers)
    base.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, digest_entry(row)))


def _count(base: sqlite3.Connection, run: str) -> int:
    own = "SELECT id FROM series WHERE run = ?"
    return base.execute(f"SELECT count(*) FROM metrics WHERE series IN ({own})", (run,)).fetchone()[0]


def _insert(base: sqlite3.Connection, run: str, metrics: Iterable[Metric]) -> int:
    """Insert metrics, in the place of earlier ones of the same episodes; return how many more there are."""
    numbers: dict[str, tuple[int, int]] = {}
    rows = []
    for name, episode, value in metrics:
        if name not in numbers:
            base.execute("INSERT OR IGNORE INTO series (run, name) VALUES (?, ?)", (run, name))
            found = base.execute("SELECT id FROM series WHERE run = ? AND name = ?", (run, name)).fetchone()
            numbers[name] = found[0], seed_series(run, name)
        if not math.isnan(value):  # SQLite has no NaN; missing values are read as NaN
            number, seed = numbers[name]
            rows.append((number, episode, value, seal(seed, episode, value)))
    unique = {row[:2]: row for row in rows}
    before = base.executemany("DELETE FROM metrics WHERE series = ? AND episode = ?", unique.keys()).rowcount
    base.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?)", unique.values())
    return len(unique) - max(before, 0)


def _retry(attempt: Callable[[], T], path: Path) -> T:
    """Retry while the database is locked: changing to the write-ahead log does not wait for others by itself."""
    last = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if "lock" not in str(error) or time.monotonic() > last:
                raise _explain_error(path, error) from error
            time.sleep(0.01)


def _explain_error(path: Path, error: sqlite3.Error) -> RunError:
    message = str(error)
    remedy = "move it away, or use another folder"
    if "full" in message or "I/O" in message:
        remedy = "free some space, or look after the disk; what was reported as saved is safe"
    elif "readonly" in message or "unable to open" in message:
        remedy = "make the folder writable, or use another one"
    elif "lock" in message:
        remedy = f"another process has kept it busy for {PATIENCE:.0f} s: stop it, or try again"
    return RunError(f"the database {path} cannot be used: {message}: {remedy}")
