"""The file of the database: its tables, its versions, how it is opened to write and to read, and its checksums.

A bit that flips on a disk changes no number silently: rows have checksums. They notice accidents, not intentions:
whoever can write the file can compute them. Version 1 had none. It is brought up to date by whoever writes to it first;
readers take it as it is.
"""

import hashlib
import os
import shutil
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from bidual._base.errors import RunError

FILE = "bidual.sqlite"
PATIENCE = 60.0  # seconds to wait for another writer
_MARK, _FORMAT, _UNSEALED = 0x62694475, 2, 1  # SQLite's own places for "whose file is this" and "of which version"
_LONGEST = 1 << 24  # bytes of a text in the database
_NUMBER = struct.Struct("<qd")  # of a series: episode and value
_TABLES = {
    "runs": "CREATE TABLE runs (name TEXT PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, "
    "status TEXT NOT NULL, episodes INTEGER NOT NULL, manifest TEXT NOT NULL, result TEXT, "
    "numbers INTEGER NOT NULL, digest TEXT NOT NULL)",
    "series": "CREATE TABLE series (id INTEGER PRIMARY KEY, run TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (run, name))",
    "metrics": "CREATE TABLE metrics (series INTEGER NOT NULL, episode INTEGER NOT NULL, value REAL NOT NULL, "
    "seal INTEGER NOT NULL, PRIMARY KEY (series, episode)) WITHOUT ROWID",
}
_TABLES_UNSEALED = {
    "runs": _TABLES["runs"].replace(", numbers INTEGER NOT NULL, digest TEXT NOT NULL", ""),
    "series": _TABLES["series"],
    "metrics": _TABLES["metrics"].replace("seal INTEGER NOT NULL, ", ""),
}


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the database to write; make it where there is none, and bring an older one up to date."""
    base = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        version = _check(base, path)
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = FULL")
        if version != _FORMAT:
            _create(base, path)
    except BaseException:
        base.close()
        raise
    return base


def open_reader(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Open the database without changing anything, also where nothing can be changed; return whether it has seals.

    One without tables was left by a process that ended before it made them: no run is in it.
    """
    base = _connect_to_read(path)
    try:
        version = _check(base, path)
    except BaseException:
        base.close()
        raise
    if version:
        return base, version != _UNSEALED
    base.close()
    return _make_empty(), True


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Connect to read. In a folder that cannot be written SQLite needs to be told that nobody else writes either.

    Where it can be written the usual way is best: SQLite removes its files for the log when the last one closes.
    """
    where = path.resolve().as_uri()
    if _is_writable(path.parent) and _is_writable(path):
        base = _connect(f"{where}?mode=rw")
        base.execute("PRAGMA query_only = ON")
        return base
    with suppress(sqlite3.OperationalError):
        return _connect(f"{where}?mode=ro")
    log = path.with_name(f"{path.name}-wal")
    if not log.exists() or log.stat().st_size == 0:
        return _connect(f"{where}?immutable=1")
    with tempfile.TemporaryDirectory(prefix="bidual-") as folder:  # what is in the log alone would be missed
        for one in (path, log):
            shutil.copyfile(one, Path(folder) / one.name)
        copy = sqlite3.connect(":memory:")
        with closing(_connect((Path(folder) / path.name).as_uri())) as base:
            base.backup(copy)
    return copy


def _make_empty() -> sqlite3.Connection:
    """Return a database in memory without runs."""
    base = sqlite3.connect(":memory:", isolation_level=None)
    for statement in _TABLES.values():
        base.execute(statement)
    return base


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _connect(uri: str) -> sqlite3.Connection:
    base = sqlite3.connect(uri, timeout=PATIENCE, isolation_level=None, uri=True)
    try:
        base.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        base.close()
        raise
    return base


def _check(base: sqlite3.Connection, path: Path) -> int:
    """Check that the database is empty or one of ours, with our tables and nothing that computes; return its version.

    A view or a trigger is a program: a reader of a stranger's file would run it.
    """
    base.execute("PRAGMA trusted_schema = OFF")
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    base.text_factory = _decode
    base.execute("BEGIN")  # one moment for all answers: another process may be making the tables
    mark, version = (base.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    found = base.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    base.execute("COMMIT")
    if not found:
        return 0
    if mark != _MARK:
        raise RunError(f"{path} is a database of another program: move it away, or use another folder")
    if version not in (_FORMAT, _UNSEALED):
        remedy = "upgrade bidual" if version > _FORMAT else "use the version of bidual that wrote it"
        raise RunError(f"{path} has format {version}, this bidual reads format {_FORMAT}: {remedy}")
    wanted = _TABLES if version == _FORMAT else _TABLES_UNSEALED
    tables = {name: sql for kind, name, sql in found if kind == "table"}
    if any(tables.get(name) != sql for name, sql in wanted.items()) or {"view", "trigger"} & {one[0] for one in found}:
        raise RunError(
            f"{path} is damaged or was changed: its tables are not ours. Move it away, and resume the runs: they make "
            "a new one, without the numbers of earlier episodes"
        )
    return version


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")  # a damaged text fails its checksum, and must not end the query before


def _create(base: sqlite3.Connection, path: Path) -> None:
    """Create the tables or bring those of version 1 up to date, unless another process has done so a moment ago."""
    base.execute("BEGIN IMMEDIATE")
    try:
        version = base.execute("PRAGMA user_version").fetchone()[0]
        found = base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not found:
            for statement in _TABLES.values():
                base.execute(statement)
        elif version == _UNSEALED:
            _add_seals(base)
        base.execute(f"PRAGMA application_id = {_MARK}")
        base.execute(f"PRAGMA user_version = {_FORMAT}")
        base.execute("COMMIT")
    except BaseException:
        if base.in_transaction:
            base.execute("ROLLBACK")
        raise


def _add_seals(base: sqlite3.Connection) -> None:
    """Compute the checksums of everything that version 1 stored without any."""
    for name in ("runs", "metrics"):
        base.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
        base.execute(_TABLES[name])
    seeds = {number: seed_series(run, name) for number, run, name in base.execute("SELECT id, run, name FROM series")}
    base.create_function("seal", 3, lambda series, episode, value: seal(seeds[series], episode, value))
    base.execute("INSERT INTO metrics SELECT series, episode, value, seal(series, episode, value) FROM old_metrics")
    base.create_function("digest", -1, lambda *entry: digest_entry(entry))
    count = "(SELECT count(*) FROM metrics JOIN series ON series.id = series WHERE run = old_runs.name)"
    row = "name, created, updated, status, episodes, manifest, result"
    base.execute(f"INSERT INTO runs SELECT {row}, {count}, digest({row}, {count}) FROM old_runs")
    for name in ("runs", "metrics"):
        base.execute(f"DROP TABLE old_{name}")


def seed_series(run: str, name: str) -> int:
    """Return where the seals of a series begin: a number under another name fails its seal."""
    return zlib.crc32(f"{run}\0{name}".encode(errors="replace"))


def seal(seed: int, episode: int, value: float) -> int:
    """Return the checksum of a number of a series."""
    return zlib.crc32(_NUMBER.pack(episode, value), seed)


def is_sealed(seed: int, episode: object, value: object, found: object) -> bool:
    """Return whether a row is as it was written, whatever types a damaged one has."""
    if not (type(episode) is int and type(value) is float and type(found) is int):
        return False
    try:
        return seal(seed, episode, value) == found
    except (struct.error, OverflowError):
        return False


def digest_entry(entry: Sequence[object]) -> str:
    """Return the checksum of a run's row."""
    return hashlib.sha256(repr(tuple(entry)).encode(errors="replace")).hexdigest()[:32]
