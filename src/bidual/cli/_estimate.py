"""How long a sweep will take: from runs that are stored, or else from a short pilot."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from bidual._errors import BidualError
from bidual.cli._cells import Cell, stored
from bidual.cli._options import Options, learned, unknown_of

if TYPE_CHECKING:
    from bidual.runs import Entry

_PILOT = 20  # episodes


@final
@dataclass(frozen=True)
class Pace:
    """Of a task: seconds per episode, seconds until a worker has compiled what it needs, and how that is known."""

    episode: float
    start: float
    source: str


@final
@dataclass(frozen=True)
class Estimate:
    """Seconds on the clock, None where a task could not be tried; and what they rest on, in words."""

    seconds: float | None
    sources: tuple[str, ...]


def estimated(out: Path, left: Sequence[Cell], workers: int) -> Estimate:
    """Of the cells that are left, divided evenly among workers."""
    entries, mine = stored(out), {}
    for cell in left:
        mine.setdefault(cell.options.target, []).append(cell)
    starting, working, sources, unknown = 0.0, 0.0, [], False
    for target, own in mine.items():
        try:
            pace = _stored_pace(target, entries) or _pilot_pace(own[0])
        except BidualError as error:
            unknown = True
            sources.append(f"{Path(target).name}: no estimate: {error}")
            continue
        starting += pace.start
        working += pace.episode * sum(cell.options.episodes - _spent(cell, entries) for cell in own)
        sources.append(f"{Path(target).name}: {pace.episode:.2g} s per episode, {pace.source}")
    seconds = starting + working / max(min(workers, len(left)), 1)
    return Estimate(None if unknown else seconds, tuple(sources))


def _spent(cell: Cell, entries: "Mapping[str, Entry]") -> int:
    entry = entries.get(cell.name)
    return 0 if entry is None else min(entry.episodes, cell.options.episodes)


def _stored_pace(target: str, entries: "Mapping[str, Entry]") -> Pace | None:
    paces = list(_paces(target, entries.values()))
    if not paces:
        return None
    count = f"{len(paces)} finished run{'s' * (len(paces) > 1)} of it"
    return Pace(sum(paces) / len(paces), 0.0, f"the mean of {count}")


def _paces(target: str, entries: "Iterable[Entry]") -> Iterable[float]:
    for entry in entries:
        if entry.status == "finished" and entry.result and entry.manifest["options"].get("target") == target:
            yield entry.result["seconds"] / max(entry.result["episodes"], 1)


def _pilot_pace(cell: Cell) -> Pace:
    """The first time compiles, the second is timed. Nothing of it stays."""
    options = replace(cell.options, episodes=_PILOT, evaluation=_PILOT // 3, stop_gap=None)
    with tempfile.TemporaryDirectory() as folder:
        first, second = (_timed(options, Path(folder) / name) for name in ("first", "second"))
    return Pace(second / _PILOT, max(first - second, 0.0), f"from a pilot of {_PILOT} episodes of {cell.name}")


def _timed(options: Options, folder: Path) -> float:
    from bidual.runs import Folder

    started = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        learned(options, unknown_of(options), run=Folder(folder))
    return time.perf_counter() - started
