"""The duration of a sweep: from stored runs, or else from a short pilot."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from bidual._base.errors import BidualError
from bidual.cli._options import Options, learn_with_options, load_declared
from bidual.cli.sweep._jobs import Job, read_entries

if TYPE_CHECKING:
    from bidual.learning.runs import RunEntry

_PILOT = 20  # episodes


@final
@dataclass(frozen=True)
class Pace:
    """The speed of a task: seconds per episode, seconds until a worker has compiled it, and the source of these."""

    episode: float
    start: float
    source: str


@final
@dataclass(frozen=True)
class Estimate:
    """Seconds on the clock, None where a task could not be tried; and the sources of the estimate, as text."""

    seconds: float | None
    sources: tuple[str, ...]


def estimate_time(out: Path, left: Sequence[Job], workers: int) -> Estimate:
    """Estimate the time of the remaining jobs, divided evenly among workers."""
    entries, mine = read_entries(out), {}
    for job in left:
        mine.setdefault(job.options.target, []).append(job)
    starting, working, sources, unknown = 0.0, 0.0, [], False
    for target, own in mine.items():
        try:
            pace = _average_stored_paces(target, entries) or _time_pilot(own[0])
        except BidualError as error:
            unknown = True
            sources.append(f"{Path(target).name}: no estimate: {error}")
            continue
        starting += pace.start
        working += pace.episode * sum(job.options.episodes - _count_spent(job, entries) for job in own)
        sources.append(f"{Path(target).name}: {pace.episode:.2g} s per episode, {pace.source}")
    seconds = starting + working / max(min(workers, len(left)), 1)
    return Estimate(None if unknown else seconds, tuple(sources))


def _count_spent(job: Job, entries: "Mapping[str, RunEntry]") -> int:
    entry = entries.get(job.name)
    return 0 if entry is None else min(entry.episodes, job.options.episodes)


def _average_stored_paces(target: str, entries: "Mapping[str, RunEntry]") -> Pace | None:
    paces = list(_list_paces(target, entries.values()))
    if not paces:
        return None
    count = f"{len(paces)} finished run{'s' * (len(paces) > 1)} of it"
    return Pace(sum(paces) / len(paces), 0.0, f"the mean of {count}")


def _list_paces(target: str, entries: "Iterable[RunEntry]") -> Iterable[float]:
    for entry in entries:
        if entry.status == "finished" and entry.result and entry.manifest["options"].get("target") == target:
            yield entry.result["seconds"] / max(entry.result["episodes"], 1)


def _time_pilot(job: Job) -> Pace:
    """Run a pilot twice: the first run compiles, the second is timed. Nothing of it is kept."""
    options = replace(job.options, episodes=_PILOT, evaluation=_PILOT // 3, stop_gap=None)
    with tempfile.TemporaryDirectory() as folder:
        first, second = (_time_run(options, Path(folder) / name) for name in ("first", "second"))
    return Pace(second / _PILOT, max(first - second, 0.0), f"from a pilot of {_PILOT} episodes of {job.name}")


def _time_run(options: Options, folder: Path) -> float:
    from bidual.learning.runs import Folder

    started = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        learn_with_options(options, load_declared(options), run=Folder(folder))
    return time.perf_counter() - started
