"""Checkpoints: files from which a run resumes. The last two are kept, so that one may be damaged.

They are written by the clock, so that what may be lost and what it costs are both small.
"""

import logging
import re
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import final

from bidual._base import archive
from bidual._base.errors import ArchiveError, RunError
from bidual.learning.folder import CHECKPOINTS
from bidual.learning.runs._policies import Journal, PolicyPart
from bidual.learning.runs._restored import check_state
from bidual.learning.runs._states import pack_state, unpack_state
from bidual.learning.state import LearnState
from bidual.planners.control import Given

_LEAST, _MOST = 2.0, 300.0  # seconds between checkpoints
_SHARE = 0.02  # of the time so far, which may be lost
_WRITES = 20  # so many times what a checkpoint takes pass before the next one
_RECENT = 2  # checkpoints whose cost counts: by the cheaper of them, because one may have waited for the disk


@final
class Schedule:
    """The times of checkpoints: from `every` on after so many episodes, by default by the clock."""

    def __init__(self, seconds: float, episodes: int, every: int | None) -> None:
        """Begin a run, or resume one that has taken so many seconds for so many episodes."""
        self._every, self._saved = every, episodes
        self._began = time.perf_counter() - seconds
        self._costs = deque([0.0], maxlen=_RECENT)
        self._next = time.perf_counter() + _LEAST

    def again(self) -> "Schedule":
        """Return a schedule for the episodes that are counted from 0 on now, in the same run."""
        return Schedule(time.perf_counter() - self._began, 0, self._every)

    def due(self, episodes: int) -> bool:
        """Return whether a checkpoint is due after so many episodes."""
        if self._every is not None:
            return episodes - self._saved >= self._every
        return time.perf_counter() >= self._next

    def record(self, started: float, episodes: int) -> None:
        """Record a checkpoint after so many episodes, whose writing started then and ends now."""
        now, self._saved = time.perf_counter(), episodes
        self._costs.append(now - started)
        self._next = now + min(max(_LEAST, _SHARE * (now - self._began), _WRITES * min(self._costs)), _MOST)


_KIND = "checkpoint"
_KEPT = 2
_NAME = re.compile(r"[0-9]{9,}-[0-9]{9,}\.bidual")  # of a part of the policies
_LOG = logging.getLogger("bidual.runs")


class Checkpoints:
    """The checkpoints of one run; `first` is its state before the first episode."""

    def __init__(self, folder: Path, first: LearnState) -> None:
        self.folder, self._first = folder / CHECKPOINTS, first
        self._given = _collect_functions(first)
        self._journal = Journal(folder)
        self._run = folder
        self._newest: Path | None = None

    def latest(self) -> LearnState | None:
        """Read the newest readable checkpoint and put later ones away; None where there is none."""
        found = self._list_paths()
        path, learn_state = self._read_newest(found)
        if path is None:
            self._journal = Journal(self._run)
        else:
            for later in found[: found.index(path)]:
                later.rename(later.with_suffix(".damaged"))
        self._tidy()
        self._newest = path
        return learn_state

    def read(self) -> LearnState | None:
        """Read the newest readable checkpoint and change nothing; None where there is none."""
        return self._read_newest(self._list_paths())[1]

    def write(self, learn_state: LearnState) -> None:
        """Write the policies, then the checkpoint that names them: a crash in between leaves the one before."""
        self._journal.write(learn_state.policies)
        tree, arrays = pack_state(replace(learn_state, policies=()), self._first)
        manifest = {"course": tree, "policies": [list(part) for part in self._journal.parts]}
        path = self.folder / f"{learn_state.episodes:09d}.bidual"
        archive.write(path, _KIND, manifest, arrays)
        self._newest = path
        for path in self._list_paths()[_KEPT:]:
            path.unlink(missing_ok=True)

    def find_missing(self) -> Path | None:
        """Find a file that the newest checkpoint needs and that is gone; None where all are there."""
        there = {path.name for path in self._journal.folder.glob("*")}
        lost = [self._journal.folder / part.name for part in self._journal.parts if part.name not in there]
        if self._newest is not None and not self._newest.exists():
            lost.append(self._newest)
        return lost[0] if lost else None

    def _read_newest(self, found: list[Path]) -> tuple[Path, LearnState] | tuple[None, None]:
        """Return the first of these checkpoints that can be read, with its path; raise where there are only others."""
        for path in found:
            try:
                learn_state = self._read(path)
            except archive.OtherFormat as error:
                raise RunError(f"the run in {self._run} cannot be resumed: {error}") from error
            except (ArchiveError, OSError) as error:
                _LOG.warning("the checkpoint %s cannot be used: %s", path, error)
                continue
            if path != found[0]:
                _LOG.warning("going on from the one before it, at episode %d", learn_state.episodes)
            return path, learn_state
        if found:
            raise RunError(
                f"no checkpoint of {self._run} can be read: start again in another folder; the same seed gives the "
                "same run"
            )
        return None, None

    def _list_paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.bidual"), reverse=True)

    def _read(self, path: Path) -> LearnState:
        """Read a checkpoint and the policies that it names; raise `ArchiveError` where it is damaged."""
        manifest, arrays = archive.read(path, _KIND)
        try:
            parts = [PolicyPart(str(name), str(sha256)) for name, sha256 in manifest["policies"]]
            tree = manifest["course"]
        except (KeyError, TypeError, ValueError) as error:
            raise ArchiveError(f"{path} is not complete ({error!r})") from error
        if not all(_NAME.fullmatch(part.name) for part in parts):
            raise ArchiveError(f"{path} names files that are none of its run")
        learn_state, journal = unpack_state(tree, arrays, self._first), Journal(self._run, parts, self._given)
        if journal.count != learn_state.episodes:
            raise ArchiveError(f"{path} is at episode {learn_state.episodes}, but has policies of {journal.count}")
        shape = self._first.loop.knowledge.shape
        if _list_common_properties(learn_state) != _list_common_properties(self._first) or any(
            policy.shape != shape for policy in journal.distinct
        ):
            raise ArchiveError(f"{path} is of another problem")
        try:
            check_state(learn_state, self._first)
        except ValueError as error:
            raise ArchiveError(f"{path} is not one of its run: {error}") from error
        self._journal = journal
        return replace(learn_state, policies=journal.policies)

    def _tidy(self) -> None:
        """Remove the remains of a crash: parts that no checkpoint names, and unfinished files."""
        known = {part.name for part in self._journal.parts}
        for path in [*self._journal.folder.glob("*.bidual"), *self._journal.folder.glob(".*")]:
            if path.name not in known:
                path.unlink(missing_ok=True)
        for path in self.folder.glob(".*"):
            path.unlink(missing_ok=True)


def _list_common_properties(learn_state: LearnState) -> tuple[object, ...]:
    """Return the properties that every state of a run has in common with its first."""
    return (
        *learn_state.loop.knowledge.invariants,
        learn_state.executed.total.shape,
        learn_state.sums is None,
        type(learn_state.loop.memory),
    )


def _collect_functions(first: LearnState) -> Given:
    """Return the functions that controllers plan with: those of the problem and the model of the run."""
    return Given(*first.loop.knowledge.functions)
