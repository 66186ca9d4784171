"""The jobs of a sweep: one run each, in a folder of its own, that may be finished or resumed later."""

import contextlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from bidual._base.errors import BidualError, RunError, TaskError
from bidual.cli._options import Options, learn_with_options, load_declared

if TYPE_CHECKING:
    from bidual.cli.distributed import Failure
    from bidual.learning.runs import RunEntry

_PATIENCE = 300.0  # seconds to wait for another worker that still writes to the same run


@final
@dataclass(frozen=True)
class Job:
    """One run of a sweep. Its name is that of its folder; the group is the name without the seed."""

    name: str
    group: str
    folder: Path  # absolute: workers may be elsewhere
    options: Options
    every: int | None = None  # episodes between checkpoints; None: by the clock


@final
@dataclass(frozen=True)
class JobRecord:
    """The end of a job: the result of `Learned.to_dict`, or a failure. No attempts: it was finished before."""

    job: Job
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
        """Whether the policy is proved to keep every constraint."""
        return self.result is not None and self.result["status"] in ("optimal", "feasible")

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return {
            "name": self.job.name,
            "group": self.job.group,
            "status": "finished" if self.failure is None else "failed",
            "attempts": self.attempts,
            "error": None if self.failure is None else self.failure.message,
            "options": self.job.options.to_dict(),
            "result": self.result,
        }


def run_job(job: Job) -> dict[str, Any]:
    """Run or resume one job, in a worker. Stdout belongs to the calling process."""
    from bidual.cli.distributed import retry_while_busy
    from bidual.learning.runs import Folder

    options = job.options
    run = Folder(job.folder, resume=True, every=job.every, task=options.target, options=options.to_dict())
    with contextlib.redirect_stdout(sys.stderr):
        target = load_declared(options)
        return retry_while_busy(lambda: learn_with_options(options, target, run=run), _PATIENCE).to_dict()


def check_jobs(jobs: Iterable[Job]) -> None:
    """Check the options of all jobs before any work; files of the user are not run here."""
    from bidual._base.keys import check_seed
    from bidual.certificate.bounds import Split
    from bidual.learning.callbacks import stop_when
    from bidual.learning.setup import check_counts

    built = set()
    for job in jobs:
        options = job.options
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
            raise TaskError(f"{job.name}: {error}") from error


def _check_target(options: Options) -> None:
    if not options.target.endswith(".py"):
        load_declared(options)
    elif not Path(options.target).is_file():
        raise TaskError(f"there is no file {options.target}; 'bidual new FILE.py' writes an example")


def read_finished(out: Path, jobs: Sequence[Job]) -> list[JobRecord]:
    """Return records of the jobs finished before; raise where the folder of a job holds another run."""
    entries = read_entries(out)
    begun = [job for job in jobs if _is_begun(job, entries.get(job.name))]
    ended = [(job, entries[job.name]) for job in begun if job.name in entries]
    ended = [(job, entry) for job, entry in ended if entry.manifest["options"]["episodes"] == job.options.episodes]
    return [
        JobRecord(job, entry.result | {"task": Path(job.options.target).name}, None, 0)
        for job, entry in ended
        if entry.status == "finished" and entry.result is not None
    ]


def read_entries(out: Path) -> "dict[str, RunEntry]":
    """Read the runs of a folder from its database, by name."""
    from bidual.learning.runs import Store

    if not (out / "bidual.sqlite").is_file():
        return {}
    with Store(out, writable=False) as store:
        return {entry.name: entry for entry in store.entries()}


def _is_begun(job: Job, entry: "RunEntry | None") -> bool:
    """Return whether the folder of a job holds its run; raise if it holds another."""
    from bidual.learning.folder import read_manifest

    if not (job.folder / "run.json").exists():
        return False
    manifest = read_manifest(job.folder) if entry is None else entry.manifest
    then, now = manifest["options"], job.options.to_dict()
    differ = [name for name in {**then, **now} if then.get(name, _find_default(name)) != now.get(name)]
    if differ == ["episodes"] and now["episodes"] > then["episodes"]:
        return True  # more of the same: it goes on
    if differ:
        differences = ", ".join(f"{name} was {then.get(name)!r} and is {now.get(name)!r}" for name in differ)
        raise RunError(
            f"{job.folder} holds a run with other options ({differences}): nothing was started. Choose another folder "
            "with --out or 'out' in the sweep, or remove this one"
        )
    return True


def _find_default(name: str) -> object:
    """Return the default of an option that an older run was started without."""
    return getattr(Options, name, None)
