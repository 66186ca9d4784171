"""Queries on stored runs: a list of runs, and a table of metrics."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bidual._base.errors import RunError
from bidual.learning.runs._lock import is_held
from bidual.learning.runs._manifest import FILE as MANIFEST
from bidual.learning.runs._manifest import read_manifest
from bidual.learning.runs._store import FILE as DATABASE
from bidual.learning.runs._store import RunEntry, Store


class Listed(NamedTuple):
    """A run in a list: `status` is running, finished, failed, or stopped, whether on purpose or by a crash."""

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
    with _open_store(parent) as store:
        return [_list_entry(parent, entry, store) for entry in store.entries()]


def read(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read the metrics of every episode as columns, of one run or of all runs of a folder.

    ``pandas.DataFrame(bd.runs.read("runs"))`` and ``polars.DataFrame(bd.runs.read("runs"))`` make tables of it. The
    columns are run, episode, and the metrics; NaN where one is missing.
    """
    path = Path(folder)
    if (path / MANIFEST).exists():
        read_manifest(path)
        parent, only = path.resolve().parent, path.resolve().name
    else:
        parent, only = path, None
    with _open_store(parent) as store:
        names = [entry.name for entry in store.entries() if only in (None, entry.name)]
        if only is not None and not names:
            raise RunError(f"{store.path} knows no run {only!r}: give the folder its old name and place again")
        return _table({name: store.metrics(name) for name in names})


def _table(metrics_of_runs: dict[str, list[tuple[str, int, float]]]) -> dict[str, np.ndarray]:
    """Tabulate the metrics: one row per run and episode."""
    columns = list(dict.fromkeys(name for rows in metrics_of_runs.values() for name, _, _ in rows))
    places = {
        (run, episode): None for run, rows in metrics_of_runs.items() for episode in sorted({row[1] for row in rows})
    }
    places = {key: place for place, key in enumerate(places)}
    table = {name: np.full(len(places), np.nan) for name in columns}
    for run, rows in metrics_of_runs.items():
        for name, episode, value in rows:
            table[name][places[run, episode]] = value
    own = {
        "run": np.array([run for run, _ in places], dtype=str),
        "episode": np.array([episode for _, episode in places], dtype=np.int64),
    }
    return own | {f"{name} (constraint)" if name in own else name: column for name, column in table.items()}


def _open_store(parent: Path) -> Store:
    if not (parent / DATABASE).is_file():
        raise RunError(
            f"there are no runs in {parent} (no {DATABASE}): 'bidual learn TASK --run {parent / 'NAME'}' starts one"
        )
    return Store(parent)


def _list_entry(parent: Path, entry: RunEntry, store: Store) -> Listed:
    folder, status, result = parent / entry.name, entry.status, entry.result
    if status == "running" and not is_held(folder):
        status = "stopped"
    if result is None:
        gap, violation = store.latest(entry.name, "gap"), store.latest(entry.name, "violation_at_most")
    else:
        gap, violation = result["gap"], _worst(result["constraints"])
    task = entry.manifest.get("task")
    return Listed(
        entry.name, folder, task, status, entry.episodes, entry.created, entry.updated, gap, violation, result
    )


def _worst(constraints: list[dict[str, Any]]) -> float | None:
    """Return the largest possible violation; None where one is not bounded."""
    bounds = [constraint["violation_upper"] for constraint in constraints]
    return None if None in bounds else max(bounds, default=0.0)
