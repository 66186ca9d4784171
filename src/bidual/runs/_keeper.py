"""A run that is being stored: when to write, in which order, and what to do when that fails."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from bidual._course import Course
from bidual._errors import ArchiveError, ProblemError, RunError
from bidual._measured import Measurement
from bidual._running import Running
from bidual.learned import Learned
from bidual.runs import _tensorboard
from bidual.runs._checkpoints import Checkpoints
from bidual.runs._lock import Lock
from bidual.runs._manifest import (
    FILE,
    check_facts,
    new_manifest,
    read_manifest,
    warn_of_versions,
    write_manifest,
)
from bidual.runs._store import Store

SOLUTION = "solution.bidual"
_LEAST, _MOST = 2.0, 300.0  # seconds between checkpoints
_SHARE = 0.02  # of the time so far, and of the time to come, that may be lost or spent on them


@final
@dataclass(frozen=True)
class Folder:
    """Where and how a run is stored.

    Args:
        path: the folder of this run. Runs that share a parent folder share its database.
        resume: go on with the run that is there, if there is one.
        every: write a checkpoint after so many episodes; by default by the clock, so that it costs next to nothing.
        task: what is solved, in a word, for lists of runs.
        options: JSON values to remember, for whoever starts the run again.
        tensorboard: also write the numbers to ``tensorboard`` in the folder, for TensorBoard.
    """

    path: str | os.PathLike[str]
    resume: bool = False
    every: int | None = None
    task: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tensorboard: bool = False

    def __post_init__(self) -> None:
        """Check the number of episodes."""
        whole = isinstance(self.every, int) and not isinstance(self.every, bool)
        if self.every is not None and not (whole and self.every >= 1):
            raise ProblemError(f"checkpoints are written every 1, 2, ... episodes; got every={self.every!r}")


class Keeper:
    """Holds the lock of a run and writes to it. Use it as a context."""

    def __init__(self, to: Folder, facts: dict[str, Any], first: Course, episodes: int) -> None:
        folder = Path(to.path)
        self.folder, self.name, self._every = folder, folder.resolve().name, to.every
        with _saved(folder, 0), ExitStack() as opened:
            _prepare(folder, resume=to.resume)
            opened.callback(Lock(folder).release)
            self._store = opened.enter_context(Store(folder.resolve().parent))
            # Whose run it is can only be told behind the lock: another process may just have begun one.
            self.manifest = _agreed(to, facts) if (folder / FILE).exists() else _begun(to, facts)
            self._checkpoints = Checkpoints(folder, first)
            self.course = self._checkpoints.latest() or first
            _check_extent(folder, self.course.episodes, episodes)
            self._board = _tensorboard.opened(folder, self.course.episodes) if to.tensorboard else None
            if self._board is not None:
                opened.callback(self._board.close)
            write_manifest(folder, self.manifest)  # from here on something is changed
            self._store.register(self.name, self.manifest)
            self._store.forget(self.name, self.course.episodes)
            self._open = opened.pop_all()
        self._waiting: list[Measurement] = []
        self.saved, self._began = self.course.episodes, time.perf_counter() - self.course.seconds
        self._next = time.perf_counter() + _LEAST

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def due(self, episodes: int) -> bool:
        """Whether it is time for a checkpoint: after so many episodes where that was asked for, else by the clock."""
        if self._every is not None:
            return episodes - self.saved >= self._every
        return time.perf_counter() >= self._next

    def keep(self, running: Running, status: str = "running") -> None:
        """Write a checkpoint. Numbers go first: those beyond the checkpoint are forgotten when the run goes on."""
        started, course = time.perf_counter(), running.course()
        with _saved(self.folder, self.saved):
            self._measure(status, course.episodes, running, None)
            if course.episodes > self.saved or not self.saved:
                self._checkpoints.write(course)
        self.saved = course.episodes
        now = time.perf_counter()
        self._next = now + min(max(_LEAST, _SHARE * (now - self._began), (now - started) / _SHARE), _MOST)

    def finish(self, running: Running, solution: Learned) -> None:
        """The run is over."""
        with _saved(self.folder, self.saved):
            solution.save(self.folder / SOLUTION)
            self._measure("finished", solution.episodes, running, solution.to_dict())

    def _measure(self, status: str, episodes: int, running: Running, result: dict[str, Any] | None) -> None:
        self._waiting += running.measurements()  # until they are stored: after an interrupt this is called again
        self._store.update(self.name, status, episodes, self._waiting, result)
        stored, self._waiting = self._waiting, []
        if self._board is not None:
            _tensorboard.write(self._board, stored)


def _begun(to: Folder, facts: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a run that begins."""
    return new_manifest(facts, to.task, dict(to.options))


def _agreed(to: Folder, facts: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a run that goes on, with the options of today: they may ask for more episodes."""
    folder = Path(to.path)
    _check_resume(folder, resume=to.resume)
    manifest = read_manifest(folder)
    check_facts(folder, manifest, facts)
    warn_of_versions(folder, manifest)
    return manifest | ({"options": dict(to.options)} if to.options else {})


def _check_resume(folder: Path, *, resume: bool) -> None:
    if not resume:
        raise RunError(f"{folder} already holds a run: resume it (--resume, resume=True) or use another folder")


def _prepare(folder: Path, *, resume: bool) -> None:
    """Make the folder of a new run; one with anything else in it is left alone."""
    if (folder / FILE).exists():
        _check_resume(folder, resume=resume)
        return
    folder.mkdir(parents=True, exist_ok=True)
    strangers = sorted(path.name for path in folder.iterdir() if path.name != "lock" and not path.name.startswith("."))
    if strangers:
        raise RunError(f"{folder} holds other files ({', '.join(strangers[:3])}): use an empty folder, or a new one")


def _check_extent(folder: Path, done: int, episodes: int) -> None:
    if done > episodes:
        raise RunError(
            f"the run in {folder} already has {done} episodes, {episodes} were asked for: ask for as many or more"
        )


@contextmanager
def _saved(folder: Path, episodes: int) -> Iterator[None]:
    """Trouble with files becomes an error that says what is safe."""
    safe = f"It is stored up to episode {episodes}, and can be resumed from there" if episodes else "Nothing is lost"
    try:
        yield
    except OSError as error:
        raise RunError(f"the run in {folder} cannot be stored: {error}. {safe}") from error
    except ArchiveError as error:
        raise RunError(f"the run in {folder} cannot be read: {error}") from error
    except RunError as error:
        if not episodes:
            raise
        raise RunError(f"{error}. {safe}") from error
