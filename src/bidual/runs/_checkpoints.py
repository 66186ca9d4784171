"""Checkpoints: files from which a run goes on. The last two are kept, so that one may be damaged."""

import logging
import re
from dataclasses import replace
from pathlib import Path

from bidual import _archive
from bidual._course import Course
from bidual._errors import ArchiveError, RunError
from bidual.control import Given
from bidual.models import ControlKnowledge
from bidual.runs._policies import Journal, Part
from bidual.runs._states import packed, unpacked

FOLDER = "checkpoints"
_KIND = "checkpoint"
_KEPT = 2
_NAME = re.compile(r"[0-9]{9,}-[0-9]{9,}\.bidual")  # of a part of the policies
_LOG = logging.getLogger("bidual")


class Checkpoints:
    """Those of one run; `first` is its course before the first episode."""

    def __init__(self, folder: Path, first: Course) -> None:
        self.folder, self._first = folder / FOLDER, first
        self._given = _functions(first)
        self._journal = Journal(folder)
        self._run = folder

    def latest(self) -> Course | None:
        """The newest that can be read, and everything that is later than it put away; None where there is none."""
        found = self._paths()
        for path in found:
            try:
                course = self._read(path)
            except _archive.OtherFormat as error:
                raise RunError(f"the run in {self._run} cannot be resumed: {error}") from error
            except (ArchiveError, OSError) as error:
                _LOG.warning("the checkpoint %s cannot be used: %s", path, error)
                continue
            for later in found[: found.index(path)]:
                later.rename(later.with_suffix(".damaged"))
            if found.index(path):
                _LOG.warning("going on from the one before it, at episode %d", course.episodes)
            self._tidy()
            return course
        if found:
            raise RunError(
                f"no checkpoint of {self._run} can be read: start again in another folder; the same seed gives the "
                "same run"
            )
        self._journal = Journal(self._run)
        self._tidy()
        return None

    def write(self, course: Course) -> None:
        """First the policies, then the checkpoint that names them: a crash in between leaves the one before."""
        self._journal.write(course.policies)
        words, arrays = packed(replace(course, policies=()), self._first)
        manifest = {"course": words, "policies": [list(part) for part in self._journal.parts]}
        _archive.write(self.folder / f"{course.episodes:09d}.bidual", _KIND, manifest, arrays)
        for path in self._paths()[_KEPT:]:
            path.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.bidual"), reverse=True)

    def _read(self, path: Path) -> Course:
        manifest, arrays = _archive.read(path, _KIND)
        try:
            parts = [Part(str(name), str(sha256)) for name, sha256 in manifest["policies"]]
            words = manifest["course"]
        except (KeyError, TypeError, ValueError) as error:
            raise ArchiveError(f"{path} is not complete ({error!r})") from error
        if not all(_NAME.fullmatch(part.name) for part in parts):
            raise ArchiveError(f"{path} names files that are none of its run")
        course, journal = unpacked(words, arrays, self._first), Journal(self._run, parts, self._given)
        if journal.count != course.episodes:
            raise ArchiveError(f"{path} is at episode {course.episodes}, but has policies of {journal.count}")
        shape = self._first.loop.knowledge.shape
        if _outline(course) != _outline(self._first) or any(policy.shape != shape for policy in journal.distinct):
            raise ArchiveError(f"{path} is of another problem")
        self._journal = journal
        return replace(course, policies=tuple(journal.policies))

    def _tidy(self) -> None:
        """Remove what a crash left: parts that no checkpoint names, and files that were never finished."""
        known = {part.name for part in self._journal.parts}
        for path in [*self._journal.folder.glob("*.bidual"), *self._journal.folder.glob(".*")]:
            if path.name not in known:
                path.unlink(missing_ok=True)
        for path in self.folder.glob(".*"):
            path.unlink(missing_ok=True)


def _outline(course: Course) -> tuple[object, ...]:
    """What every course of a run has in common with its first."""
    return *course.loop.knowledge.outline, course.executed.total.shape, course.sums is None, type(course.loop.memory)


def _functions(first: Course) -> Given:
    """What controllers plan with: functions, which are those of the problem and the model of the run."""
    knowledge = first.loop.knowledge
    if not isinstance(knowledge, ControlKnowledge):
        return Given()
    return Given(knowledge.features, knowledge.declared.model_features)
