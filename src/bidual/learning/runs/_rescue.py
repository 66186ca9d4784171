"""Copies of a run that vanished while it was stored, beside the place where it was and under names that are free."""

import itertools
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bidual._base import archive
from bidual._base.errors import BidualError
from bidual.learning.folder import SOLUTION, write_manifest
from bidual.learning.learned import Learned
from bidual.learning.metrics import Metric
from bidual.learning.runs._checkpoints import Checkpoints
from bidual.learning.runs._lock import RunLock
from bidual.learning.runs._store import Store
from bidual.learning.state import LearnState


class Remains(NamedTuple):
    """What is in memory of a run that vanished."""

    manifest: dict[str, Any]
    first: LearnState
    learn_state: LearnState
    solution: Learned | None
    metrics: list[Metric]


def rescue_run(folder: Path, remains: Remains) -> str:
    """Store a run whose folder is lost in a new one; return what to do with that, as a sentence."""
    rescued = _make_folder(folder)
    lock = RunLock(rescued)
    try:
        write_manifest(rescued, remains.manifest)
        Checkpoints(rescued, remains.first).write(remains.learn_state)
        if remains.solution is not None:
            remains.solution.save(rescued / SOLUTION, signals={})
        numbers = _store_numbers(rescued, remains)
    finally:
        lock.release()
    extent = f"up to episode {remains.learn_state.episodes}" if remains.solution is None else "and finished"
    return f"It is stored {extent} in {rescued}: 'bidual learn --run {rescued} --resume' goes on with it{numbers}"


def rescue_database(store: Store) -> str:
    """Copy a database whose file is lost to a new one; return what to do with that, as a sentence."""
    for path in _propose_names(store.path):
        try:
            path.open("xb").close()
        except FileExistsError:
            continue
        try:
            store.copy_to(path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return f"The numbers of all runs are in {path}: rename it to {store.path.name} first, or go on without them"
    raise AssertionError("names are infinitely many")


def read_metrics(store: Store, run: str) -> list[Metric]:
    """Read the metrics of a run, as many as can be read: the file of the database may be gone."""
    found: list[Metric] = []
    with suppress(BidualError):
        for name, series in store.series(run).items():
            pairs = zip(series.episodes.tolist(), series.values.tolist(), strict=True)
            found += [Metric(name, episode, value) for episode, value in pairs]
    return found


def _store_numbers(rescued: Path, remains: Remains) -> str:
    """Store the numbers of a rescued run; return what to add to the report where the database cannot be used."""
    solution = remains.solution
    status, result = ("failed", None) if solution is None else ("finished", solution.to_dict())
    try:
        with Store(rescued.resolve().parent) as store:
            store.register(rescued.name, remains.manifest)
            store.update(rescued.name, status, remains.learn_state.episodes, remains.metrics, result)
    except BidualError as error:
        return f", without its numbers: {error}"
    return ""


def _make_folder(lost: Path) -> Path:
    archive.make(lost.parent)
    for folder in _propose_names(lost):
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("names are infinitely many")


def _propose_names(lost: Path) -> Iterable[Path]:
    """Yield names beside a lost file or folder, to be tried one after the other."""
    first = lost.with_name(f"{lost.name}.rescued")
    return itertools.chain([first], (first.with_name(f"{first.name}-{number}") for number in itertools.count(2)))
