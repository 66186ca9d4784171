"""The cells of a sweep: one run each, in a folder of its own, that is found finished later, or gone on with."""

import contextlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from bidual._errors import BidualError, RunError, TaskError
from bidual.cli._options import Options, learned, unknown_of

if TYPE_CHECKING:
    from bidual.distributed import Failure
    from bidual.runs import Entry

_PATIENCE = 300.0  # seconds that a worker waits for another that still writes to the same run


@final
@dataclass(frozen=True)
class Cell:
    """One run of a sweep. Its name is that of its folder; the group is the name without the seed."""

    name: str
    group: str
    folder: Path  # absolute: workers may be elsewhere
    options: Options
    every: int | None = None  # episodes between checkpoints; by the clock where it is not said


@final
@dataclass(frozen=True)
class Record:
    """How a cell has ended: with what `Learned.to_dict` gave, or with a failure. No attempts: it was finished then."""

    cell: Cell
    result: dict[str, Any] | None
    failure: "Failure | None"
    attempts: int

    @property
    def violation(self) -> float | None:
        """The largest bound of a violation, None where one is not bounded."""
        bounds = [constraint["violation_upper"] for constraint in (self.result or {}).get("constraints", ())]
        return None if None in bounds else max(bounds, default=0.0)

    @property
    def certified(self) -> bool:
        """Whether the policy is shown to keep every constraint."""
        return self.result is not None and self.result["status"] in ("optimal", "feasible")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.cell.name,
            "group": self.cell.group,
            "status": "finished" if self.failure is None else "failed",
            "attempts": self.attempts,
            "error": None if self.failure is None else self.failure.message,
            "options": self.cell.options.to_dict(),
            "result": self.result,
        }


def learn_cell(cell: Cell) -> dict[str, Any]:
    """In a worker: learn one cell, or go on with it. Stdout belongs to the process that asked."""
    from bidual.distributed import patiently
    from bidual.runs import Folder

    options = cell.options
    run = Folder(cell.folder, resume=True, every=cell.every, task=options.target, options=options.to_dict())
    with contextlib.redirect_stdout(sys.stderr):
        target = unknown_of(options)
        return patiently(lambda: learned(options, target, run=run), _PATIENCE).to_dict()


def check_cells(cells: Iterable[Cell]) -> None:
    """What can be known to be wrong before any work; files of the user are not run here."""
    from bidual._keys import check_seed
    from bidual._learn import stop_when
    from bidual._prepare import check_counts
    from bidual.bounds import Split

    built = set()
    for cell in cells:
        options = cell.options
        try:
            check_counts(options.episodes, options.evaluation, None, options.batch)
            check_seed(options.seed)
            Split(options.delta)
            if options.stop_gap is not None:
                stop_when(options.stop_gap)
            key = options.target, options.settings, options.support, options.explorer, options.dual
            if key not in built:
                _check_target(options)
                built.add(key)
        except BidualError as error:
            raise TaskError(f"{cell.name}: {error}") from error


def _check_target(options: Options) -> None:
    if not options.target.endswith(".py"):
        unknown_of(options)
    elif not Path(options.target).is_file():
        raise TaskError(f"there is no file {options.target}; 'bidual new FILE.py' writes an example")


def finished(out: Path, cells: Sequence[Cell]) -> list[Record]:
    """Those that were finished before. Refuses to start where the folder of a cell holds another run."""
    entries = stored(out)
    begun = [cell for cell in cells if _is_begun(cell, entries.get(cell.name))]
    ended = [(cell, entries[cell.name]) for cell in begun if cell.name in entries]
    ended = [(cell, entry) for cell, entry in ended if entry.manifest["options"]["episodes"] == cell.options.episodes]
    return [
        Record(cell, entry.result | {"task": Path(cell.options.target).name}, None, 0)
        for cell, entry in ended
        if entry.status == "finished" and entry.result is not None
    ]


def stored(out: Path) -> "dict[str, Entry]":
    """What the database says of the runs in a folder, by name."""
    from bidual.runs import Store

    if not (out / "bidual.sqlite").is_file():
        return {}
    with Store(out) as store:
        return {entry.name: entry for entry in store.entries()}


def _is_begun(cell: Cell, entry: "Entry | None") -> bool:
    """Whether its folder holds its run; raises if it holds another."""
    from bidual.runs import read_manifest

    if not (cell.folder / "run.json").exists():
        return False
    manifest = read_manifest(cell.folder) if entry is None else entry.manifest
    then, now = manifest["options"], cell.options.to_dict()
    differ = [name for name in {**then, **now} if then.get(name, _default(name)) != now.get(name)]
    if differ == ["episodes"] and now["episodes"] > then["episodes"]:
        return True  # more of the same: it goes on
    if differ:
        words = ", ".join(f"{name} was {then.get(name)!r} and is {now.get(name)!r}" for name in differ)
        raise RunError(
            f"{cell.folder} holds a run with other options ({words}): nothing was started. Choose another folder with "
            "--out or 'out' in the sweep, or remove this one"
        )
    return True


def _default(name: str) -> object:
    """Of an option that a run was started without, because there was none then."""
    return getattr(Options, name, None)
