"""A run that is being stored: when to write, in which order, and how to handle failures."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from bidual._base.errors import ArchiveError, BidualError, ProblemError, RunError
from bidual._base.types import Episode
from bidual.learning.folder import (
    LOCK,
    MANIFEST,
    SOLUTION,
    begin_run,
    check_resume,
    create_manifest,
    prepare_folder,
    read_manifest,
    tidy_folder,
    write_manifest,
)
from bidual.learning.learned import Learned
from bidual.learning.learner import Learner
from bidual.learning.metrics import Metric
from bidual.learning.outputs import run_fresh_episodes
from bidual.learning.runs._checkpoints import Checkpoints, Schedule
from bidual.learning.runs._evaluation import StoredEvaluation
from bidual.learning.runs._lock import RunLock
from bidual.learning.runs._manifest import check_facts, warn_of_versions
from bidual.learning.runs._reading import is_result_of
from bidual.learning.runs._rescue import Remains, read_metrics, rescue_database, rescue_run
from bidual.learning.runs._store import Store
from bidual.learning.runs._tensorboard import Board, require_tensorboard
from bidual.learning.state import LearnState
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import AbstractPolicy

_MOST_WAITING = 20_000  # numbers that are kept in memory until they are stored


@final
@dataclass(frozen=True)
class Folder:
    """Location and settings of a stored run.

    Args:
        path: the folder of this run. Runs that share a parent folder share its database.
        resume: resume the run that is there, if there is one.
        every: write a checkpoint after so many episodes; by default by the clock, so that it costs next to nothing.
        task: the name of the task, for lists of runs.
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


class RunWriter:
    """A writer that holds the lock of a run. Use it as a context."""

    def __init__(self, to: Folder, facts: dict[str, Any], first: LearnState, episodes: int | None) -> None:
        folder = Path(to.path)
        self.folder, self.name = folder, folder.resolve().name
        with _translate_errors(folder, 0), ExitStack() as opened:
            prepare_folder(folder, resume=to.resume)
            self._lock = RunLock(folder)
            opened.callback(self._lock.release)
            self._store = opened.enter_context(Store(folder.resolve().parent))
            # Existing runs can only be detected behind the lock: another process may just have begun one.
            self.manifest = _find_manifest(to, facts)
            self._first, self._checkpoints = first, Checkpoints(folder, first)
            self.learn_state = self._checkpoints.latest() or first
            if episodes is not None:  # whole batches are run, so there may be a few more
                _check_extent(folder, self.learn_state.episodes, episodes, facts["batch"])
            if to.tensorboard:
                require_tensorboard()
            tidy_folder(folder)  # from here on something is changed
            self._result = self._find_result()
            if self._result is None:
                self._begin()
            # Behind the manifest: a folder with other files and without it is refused as none of ours.
            self._board = Board(folder, self.learn_state.episodes) if to.tensorboard else None
            if self._board is not None:
                opened.callback(self._board.close)
            self._open = opened.pop_all()
        self._waiting: list[Metric] = []
        self.saved = self.learn_state.episodes
        known, guard = first.loop.knowledge, lambda: _translate_errors(folder, self.saved)
        self._evaluation = StoredEvaluation(folder, guard, self._find_missing, known)
        self._schedule = Schedule(self.learn_state.seconds, self.saved, to.every)

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def keep_up(self, learner: Learner) -> None:
        """Write what is due after a turn: a checkpoint, or numbers alone once many wait, so that memory stays flat."""
        if self._schedule.due(learner.state.episodes) or self._result is not None:
            self.write_checkpoint(learner)
        elif learner.waiting >= _MOST_WAITING:
            with self._guard_storing(learner, None):
                self._store_metrics("running", self.saved, learner, None)

    def write_checkpoint(self, learner: Learner, status: str = "running") -> None:
        """Write a checkpoint. Metrics go first: those beyond the checkpoint are deleted when the run resumes."""
        learn_state = learner.learn_state()
        if self._result is not None and learn_state.episodes == self.saved:
            return  # the run was finished, and still is
        with self._guard_storing(learner, None):
            self._begin_again()
            self._store_metrics(status, learn_state.episodes, learner, None)
            started = time.perf_counter()  # numbers have to be stored anyway: they do not count as its cost
            self._write_state(learn_state)
        self._schedule.record(started, self.saved)

    def fresh_episodes(
        self, env: AbstractEnvironment, policy: AbstractPolicy, seed: int, first: int, count: int
    ) -> list[Episode]:
        """Run fresh episodes of a policy; they are stored on the way, and those that were stored are not run again."""
        if self._result is not None:
            return run_fresh_episodes(env, policy, seed, first, count)
        return self._evaluation.collect(env, policy, seed, first, count, self._schedule.again())

    def finish(self, learner: Learner, solution: Learned) -> Learned:
        """Store the solution and mark the run as finished; return it, with the effort of a run that was before."""
        if self._result is not None and is_result_of(solution, self._result):
            return replace(solution, plans=self._result["plans"], seconds=self._result["seconds"])
        with self._guard_storing(learner, solution):
            self._begin_again()
            solution.save(self.folder / SOLUTION, signals={})
            self._store_metrics("finished", solution.episodes, learner, solution.to_dict())
            self._evaluation.remove()
        return solution

    def _begin(self) -> None:
        """Store that the run goes on from its checkpoint."""
        write_manifest(self.folder, self.manifest)
        self._store.register(self.name, self.manifest)
        self._store.forget(self.name, self.learn_state.episodes)
        self._result = None

    def _begin_again(self) -> None:
        if self._result is not None:
            self._begin()

    def _find_result(self) -> dict[str, Any] | None:
        """Return the result of a run that is finished, and whose parts are all there; else None."""
        found = [entry for entry in self._store.entries() if entry.name == self.name]
        whole = found and found[0].status == "finished" and (self.folder / SOLUTION).is_file()
        return found[0].result if whole and found[0].episodes == self.learn_state.episodes else None

    def _store_metrics(self, status: str, episodes: int, learner: Learner, result: dict[str, Any] | None) -> None:
        self._waiting += learner.metrics()  # kept until they are stored: after an interrupt this is called again
        self._store.update(self.name, status, episodes, self._waiting, result)
        stored, self._waiting = self._waiting, []
        if self._board is not None:
            self._board.write(stored)

    def _write_state(self, learn_state: LearnState) -> None:
        if learn_state.episodes > self.saved or not self.saved:
            self._checkpoints.write(learn_state)
        self.saved = learn_state.episodes

    @contextmanager
    def _guard_storing(self, learner: Learner, solution: Learned | None) -> Iterator[None]:
        """Check before and after writing that all is where it was opened; an error has what was learned."""
        try:
            with _translate_errors(self.folder, self.saved):
                self._check_presence()
                yield
                self._check_presence()
        except RunError as error:
            failure = RunError(self._store_elsewhere(learner, solution) or str(error))
            failure.state, failure.solution = learner.learn_state(), solution
            raise failure from error

    def _check_presence(self) -> None:
        missing = self._find_missing() or self._store.find_missing()
        if missing is not None:
            raise RunError(f"{missing} was deleted, renamed or replaced")

    def _find_missing(self) -> Path | None:
        """Find what was deleted, renamed or replaced of the folder since it was opened; None where all is there."""
        parts = (self.folder, self.folder / MANIFEST, self.folder / LOCK)
        missing = next((path for path in parts if not path.exists()), None) or self._checkpoints.find_missing()
        return self.folder if missing is None and not self._lock.is_in(self.folder) else missing

    def _store_elsewhere(self, learner: Learner, solution: Learned | None) -> str | None:
        """Store what was learned where it cannot be lost, and describe that; None where nothing has vanished."""
        try:
            lost = self._find_missing()
            missing = lost or self._store.find_missing()
        except OSError:  # nothing is known to have vanished; what happened is an error of its own
            return None
        if missing is None:
            return None
        header = f"the run in {self.folder} cannot be stored: {missing} was deleted, renamed or replaced"
        try:
            report = self._rescue(learner, solution, folder_lost=lost is not None)
        except (OSError, BidualError) as error:
            report = f"Nothing could be stored elsewhere ({error}): in Python error.state has what was learned"
            report += "" if solution is None else ", and error.solution the result"
        return f"{header}. {report}"

    def _rescue(self, learner: Learner, solution: Learned | None, *, folder_lost: bool) -> str:
        """Store the run in another folder, or the database under another name; return where, as a sentence."""
        learn_state, result = learner.learn_state(), None if solution is None else solution.to_dict()
        if folder_lost:
            with suppress(OSError, BidualError):
                self._store_metrics("failed", learn_state.episodes, learner, None)
            metrics = read_metrics(self._store, self.name) + self._waiting
            beside = self.folder if self.folder.name == self.name else self.folder.resolve()
            return rescue_run(beside, Remains(self.manifest, self._first, learn_state, solution, metrics))
        self._write_state(learn_state)
        if solution is not None:
            solution.save(self.folder / SOLUTION, signals={})
        self._store_metrics("failed" if solution is None else "finished", learn_state.episodes, learner, result)
        return f"It is stored up to episode {self.saved}, and can be resumed. {rescue_database(self._store)}"


def begin_folder(folder: Folder | None) -> AbstractContextManager[None]:
    """Write the folder of a run before its problem and environment are set up, which is slow."""
    if folder is None:
        return nullcontext()
    return begin_run(Path(folder.path), resume=folder.resume, task=folder.task, options=dict(folder.options))


def _find_manifest(to: Folder, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a run: a new one or, where it is resumed, its own with the options of today.

    These may ask for more episodes. A run that has only begun has options and no facts yet.
    """
    folder, options = Path(to.path), dict(to.options)
    if not (folder / MANIFEST).exists():
        return create_manifest(facts, to.task, options)
    manifest = read_manifest(folder)
    if not manifest["facts"]:
        return create_manifest(facts, to.task, options or manifest["options"])
    check_resume(folder, manifest, resume=to.resume)
    check_facts(folder, manifest, facts)
    warn_of_versions(folder, manifest)
    return manifest | ({"options": options} if options else {})


def _check_extent(folder: Path, done: int, episodes: int, batch: int) -> None:
    if done >= episodes + batch:
        raise RunError(
            f"the run in {folder} already has {done} episodes, {episodes} were asked for: ask for as many or more"
        )


@contextmanager
def _translate_errors(folder: Path, episodes: int) -> Iterator[None]:
    """Translate file errors into one that says up to where the run is safe."""
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
