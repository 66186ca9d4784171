"""Queries on stored runs: a list of runs, and a table of metrics."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bidual._base.errors import RunError
from bidual.learning.folder import MANIFEST, SOLUTION, find_latest_episode, read_manifest
from bidual.learning.learned import Learned
from bidual.learning.runs._checkpoints import Checkpoints
from bidual.learning.runs._lock import is_held
from bidual.learning.runs._manifest import check_facts
from bidual.learning.runs._schema import FILE as DATABASE
from bidual.learning.runs._store import RunEntry, Series, Store
from bidual.learning.state import LearnState

_MOST_CELLS, _MOST_EMPTY = 10_000_000, 10  # of a table, and how many for each number in it beyond that


class Listed(NamedTuple):
    """A run in a list.

    `status` is running, finished, failed, or stopped, whether on purpose or by a crash; begun before its problem and
    environment are set up; unknown where the folder is there and the database has no undamaged entry for it.
    """

    name: str
    folder: Path
    task: str | None
    status: str
    episodes: int
    created: float  # seconds since 1970
    updated: float
    gap: float | None  # at most: of the policy in the end, of the mixture so far before
    violation: float | None  # likewise, of the constraint that may be violated most
    result: dict[str, Any] | None  # of `Learned.to_dict`; None before the end


def listed(folder: str | os.PathLike[str] = "runs") -> list[Listed]:
    """List the runs of a folder, in the order of their names."""
    parent = Path(folder)
    with _translate_errors(parent):
        others = list(_list_folders(parent))
        if others and not (parent / DATABASE).is_file():  # which runs that have only begun leave out
            return others
        with _open_store(parent) as store:
            found = [_list_entry(parent, entry, store) for entry in store.entries()]
        known = {one.name for one in found}
        others = [one for one in others if one.name not in known]
    return sorted([*found, *others], key=lambda one: one.name)


def read(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read the metrics of every episode as columns, of one run or of all runs of a folder.

    ``pandas.DataFrame(bd.runs.read("runs"))`` and ``polars.DataFrame(bd.runs.read("runs"))`` make tables of it. The
    columns are run, episode, and the metrics; NaN where one is missing.
    """
    with _translate_errors(Path(folder)):
        return _read(Path(folder))


def read_checkpoint(
    folder: Path, manifest: dict[str, Any], facts: dict[str, Any], first: LearnState
) -> LearnState | None:
    """Read the last checkpoint of a run with these settings, and change nothing; None where there is none yet."""
    check_facts(folder, manifest, facts)
    with _translate_errors(folder):
        return Checkpoints(folder, first).read()


def is_stopped(folder: Path) -> bool:
    """Tell whether a folder holds a run that has not finished, or has gone on since and not finished again."""
    if not (folder / MANIFEST).is_file():
        return False
    if not (folder / SOLUTION).is_file():
        return True
    parent, name = folder.resolve().parent, folder.resolve().name
    if not (parent / DATABASE).is_file() or not find_latest_episode(folder):
        return False
    with _open_store(parent) as store:
        return any(entry.name == name and entry.status != "finished" for entry in store.entries())


def is_result_of(solution: Learned, result: dict[str, Any]) -> bool:
    """Tell whether a solution has a stored result, but for bounds: where these are hard, a clock ends them."""
    now = solution.to_dict()
    constraints = [[one["value"] for one in entries["constraints"]] for entries in (result, now)]
    return constraints[0] == constraints[1] and all(result[key] == now[key] for key in ("value", "episodes"))


def _read(path: Path) -> dict[str, np.ndarray]:
    """Read all metrics of a run, or of all runs in a folder, as columns."""
    if (path / MANIFEST).exists():
        read_manifest(path)
        parent, only = path.resolve().parent, path.resolve().name
    else:
        parent, only = path, None
    with _open_store(parent) as store:
        names = [entry.name for entry in store.entries() if only in (None, entry.name)]
        if only is not None and not names:
            raise RunError(f"{store.path} knows no run {only!r}: give the folder its old name and place again")
        return _tabulate({name: store.series(name) for name in names}, store.path)


@contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"the runs in {folder} cannot be read: {error}: look after the disk, and try again") from error


def _tabulate(series_of_runs: dict[str, dict[str, Series]], path: Path) -> dict[str, np.ndarray]:
    """Tabulate the metrics: one row per run and episode."""
    every = [(name, one) for series in series_of_runs.values() for name, one in series.items() if one.episodes.size]
    columns = list(dict.fromkeys(name for name, _ in every))
    episodes = {
        run: np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(one.episodes for one in series.values())]))
        for run, series in series_of_runs.items()
    }
    rows, given = sum(map(len, episodes.values())), sum(one.values.size for _, one in every)
    if rows * len(columns) > max(_MOST_CELLS, _MOST_EMPTY * given):
        raise RunError(
            f"{path} has {given} numbers for {rows} rows and {len(columns)} columns: read its runs one by one, or look "
            "whether they are yours"
        )
    table, first = {name: np.full(rows, np.nan) for name in columns}, 0
    for run, series in series_of_runs.items():
        for name, one in series.items():
            if one.episodes.size:
                table[name][first + np.searchsorted(episodes[run], one.episodes)] = one.values
        first += len(episodes[run])
    own = {
        "run": np.repeat(np.array(list(episodes), dtype=str), [len(part) for part in episodes.values()]),
        "episode": np.concatenate([np.zeros(0, dtype=np.int64), *episodes.values()]),
    }
    return own | {f"{name} (constraint)" if name in own else name: column for name, column in table.items()}


def _open_store(parent: Path) -> Store:
    if not (parent / DATABASE).is_file():
        raise RunError(
            f"there are no runs in {parent} (no {DATABASE}): 'bidual learn TASK --run {parent / 'NAME'}' starts one"
        )
    return Store(parent, writable=False)


def _list_folders(parent: Path) -> Iterator[Listed]:
    """List the runs of a folder by their manifests: what the database should say, and does not always."""
    for path in sorted(parent.glob(f"*/{MANIFEST}")):
        folder, task, created, status = path.parent, None, 0.0, "unknown"
        with suppress(RunError):
            manifest = read_manifest(folder)
            task, created = manifest.get("task"), float(manifest.get("created", 0.0))
            status = status if manifest["facts"] else "begun"
        yield Listed(folder.name, folder, task, status, find_latest_episode(folder), created, created, None, None, None)


def _list_entry(parent: Path, entry: RunEntry, store: Store) -> Listed:
    """Describe a run by its entry in the store; one that no process holds has stopped."""
    folder, status, result = parent / entry.name, entry.status, entry.result
    if status == "running" and not is_held(folder):
        status = "stopped"
    if result is None:
        gap, violation = store.latest(entry.name, "gap"), store.latest(entry.name, "violation_at_most")
    else:
        gap, violation = result["gap"], _find_worst(result["constraints"])
    task = entry.manifest.get("task")
    return Listed(
        entry.name, folder, task, status, entry.episodes, entry.created, entry.updated, gap, violation, result
    )


def _find_worst(constraints: list[dict[str, Any]]) -> float | None:
    """Return the largest possible violation; None where one is not bounded."""
    bounds = [constraint["violation_upper"] for constraint in constraints]
    return None if None in bounds else max(bounds, default=0.0)
