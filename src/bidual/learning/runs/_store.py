"""The database of a runs folder: one SQLite file with the status of every run, and the metrics of every episode.

Several processes may write at once: SQLite's write-ahead log lets one write while others read, and a writer
that finds it busy waits. A commit is on the disk when it returns.
"""

import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bidual._base.errors import RunError
from bidual.learning.metrics import PROGRESS_METRICS, Metric

FILE = "bidual.sqlite"
_MARK, _FORMAT = 0x62694475, 1  # SQLite's own places for "whose file is this" and "of which version"
_PATIENCE = 60.0  # seconds to wait for another writer
_QUESTIONS = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
_SCHEMA = (
    "CREATE TABLE runs (name TEXT PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, status TEXT NOT NULL, "
    "episodes INTEGER NOT NULL, manifest TEXT NOT NULL, result TEXT)",
    "CREATE TABLE series (id INTEGER PRIMARY KEY, run TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (run, name))",
    "CREATE TABLE metrics (series INTEGER NOT NULL, episode INTEGER NOT NULL, value REAL NOT NULL, "
    "PRIMARY KEY (series, episode)) WITHOUT ROWID",
)

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


class Store:
    """An open database. Every method is one transaction."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._base = _retry(lambda: self._connect(), self.path)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def register(self, name: str, manifest: dict[str, Any]) -> None:
        """Register a run that begins or resumes."""
        now, text = time.time(), json.dumps(manifest)
        with self._transaction() as base:
            base.execute(
                "INSERT INTO runs VALUES (?, ?, ?, 'running', 0, ?, NULL) ON CONFLICT (name) DO UPDATE "
                "SET updated = excluded.updated, status = 'running', manifest = excluded.manifest, result = NULL",
                (name, manifest.get("created", now), now, text),
            )

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
            _insert(base, name, metrics)
            base.execute(
                "UPDATE runs SET updated = ?, status = ?, episodes = ?, result = coalesce(?, result) WHERE name = ?",
                (time.time(), status, episodes, None if result is None else json.dumps(result), name),
            )

    def forget(self, name: str, after: int) -> None:
        """Delete metrics of later episodes than `after`, and the bounds after it: they will be computed again."""
        with self._transaction() as base:
            base.execute("UPDATE runs SET episodes = ? WHERE name = ?", (after, name))
            for least, names in ((after + 1, "name"), (after, ", ".join(f"'{metric}'" for metric in PROGRESS_METRICS))):
                own = f"SELECT id FROM series WHERE run = ? AND name IN ({names})"
                base.execute(f"DELETE FROM metrics WHERE series IN ({own}) AND episode >= ?", (name, least))

    def entries(self) -> list[RunEntry]:
        """Return all runs, in the order of their names."""
        rows = self._read("SELECT name, created, updated, status, episodes, manifest, result FROM runs ORDER BY name")
        return [
            RunEntry(name, created, updated, status, episodes, json.loads(manifest), json.loads(result or "null"))
            for name, created, updated, status, episodes, manifest, result in rows
        ]

    def metrics(self, name: str) -> list[tuple[str, int, float]]:
        """Return name, episode and value of every metric of a run."""
        return self._read(
            "SELECT series.name, episode, value FROM metrics JOIN series ON series.id = series WHERE run = ? "
            "ORDER BY series.id, episode",
            (name,),
        )

    def latest(self, run: str, name: str) -> float | None:
        """Return the last value of a series; None where there is none."""
        found = self._read(
            "SELECT value FROM metrics JOIN series ON series.id = series WHERE run = ? AND name = ? "
            "ORDER BY episode DESC LIMIT 1",
            (run, name),
        )
        return found[0][0] if found else None

    def _read(self, query: str, arguments: tuple[object, ...] = ()) -> list[Any]:
        try:
            return self._base.execute(query, arguments).fetchall()
        except sqlite3.Error as error:
            raise _error_from(self.path, error) from error

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
            raise _error_from(self.path, error) from error

    def _connect(self) -> sqlite3.Connection:
        base = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        try:
            base.execute("BEGIN")  # one moment for all answers: another process may be making the tables
            mark, version, tables = (base.execute(question).fetchone()[0] for question in _QUESTIONS)
            base.execute("COMMIT")
            if tables and mark != _MARK:
                raise RunError(f"{self.path} is a database of another program: move it away, or use another folder")
            if tables and version != _FORMAT:
                remedy = "upgrade bidual" if version > _FORMAT else "use the version of bidual that wrote it"
                raise RunError(f"{self.path} has format {version}, this bidual reads format {_FORMAT}: {remedy}")
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = FULL")
            if not tables:
                _create(base)
        except BaseException:
            base.close()
            raise
        return base


def _create(base: sqlite3.Connection) -> None:
    """Create the tables, unless another process has done so a moment ago."""
    base.execute("BEGIN IMMEDIATE")
    if not base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in (*_SCHEMA, f"PRAGMA application_id = {_MARK}", f"PRAGMA user_version = {_FORMAT}"):
            base.execute(statement)
    base.execute("COMMIT")


def _insert(base: sqlite3.Connection, run: str, metrics: Iterable[Metric]) -> None:
    numbers: dict[str, int] = {}
    rows = []
    for name, episode, value in metrics:
        if name not in numbers:
            base.execute("INSERT OR IGNORE INTO series (run, name) VALUES (?, ?)", (run, name))
            found = base.execute("SELECT id FROM series WHERE run = ? AND name = ?", (run, name)).fetchone()
            numbers[name] = found[0]
        if not math.isnan(value):  # SQLite has no NaN; missing values are read as NaN
            rows.append((numbers[name], episode, value))
    base.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?)", rows)


def _retry(attempt: Callable[[], T], path: Path) -> T:
    """Retry while the database is locked: changing to the write-ahead log does not wait for others by itself."""
    last = time.monotonic() + _PATIENCE
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if "lock" not in str(error) or time.monotonic() > last:
                raise _error_from(path, error) from error
            time.sleep(0.01)


def _error_from(path: Path, error: sqlite3.Error) -> RunError:
    message = str(error)
    remedy = "move it away, or use another folder"
    if "full" in message or "I/O" in message:
        remedy = "free some space, or look after the disk; what was reported as saved is safe"
    elif "readonly" in message or "unable to open" in message:
        remedy = "make the folder writable, or use another one"
    elif "lock" in message:
        remedy = f"another process has kept it busy for {_PATIENCE:.0f} s: stop it, or try again"
    return RunError(f"the database {path} cannot be used: {message}: {remedy}")
