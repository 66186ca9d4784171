"""``bidual sweep``: many runs of ``bidual learn``, on many processes."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidual._base.errors import BidualError, TaskError
from bidual.cli._files import make_folder
from bidual.cli._interrupts import remember_interrupts
from bidual.cli._output import report, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidual.cli.distributed import WorkerPool
    from bidual.cli.sweep._jobs import Job, JobRecord
    from bidual.cli.sweep._spec import Spec

_STORE, _FAILED = 5, 1


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "sweep",
        help="learn tasks with several settings and seeds, on several processes",
        description="Learn every combination of tasks, settings and seeds that a TOML file names, each in a folder of "
        "its own. What is finished is not done again, what was interrupted goes on where it was: run the same "
        "command again.",
    )
    parser.add_argument("spec", type=Path, metavar="SPEC.toml", help="what to learn (see examples/sweep.toml)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes on this machine (default: its cores)")
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="hand the runs to the Dask scheduler there, tcp://HOST:PORT, whose workers see the same files; 'local' "
        "starts one on this machine (an extra)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the runs (default: what the file says)")
    parser.add_argument(
        "--checkpoint-every", type=int, metavar="N", help="episodes between checkpoints (default: by the clock)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and about how long it takes")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the remaining jobs and report on all."""
    from bidual.cli.sweep._jobs import check_jobs, read_finished
    from bidual.cli.sweep._spec import read_spec

    workers = _open_workers(args)
    spec = read_spec(args.spec, args.out, args.checkpoint_every)
    check_jobs(spec.jobs)
    before = read_finished(spec.out, spec.jobs)
    names = {record.job.name for record in before}
    left = [job for job in spec.jobs if job.name not in names]
    if args.dry_run:
        return _plan(args, spec, left, workers)
    make_folder(spec.out)
    started = time.perf_counter()
    records = _run_jobs(spec, before, left, _open_pool(args, workers, len(left)))
    _report(args, spec, records, time.perf_counter() - started)
    return _choose_exit_code(records)


def _run_jobs(spec: "Spec", before: "list[JobRecord]", left: "Sequence[Job]", crew: "WorkerPool") -> "list[JobRecord]":
    """Run the remaining jobs; return the records of all, in their order."""
    from contextlib import closing

    from bidual.cli.distributed import distribute
    from bidual.cli.sweep._jobs import JobRecord, run_job
    from bidual.cli.sweep._progress import open_sweep_progress

    if before:
        report(f"{len(before)} of {len(spec.jobs)} cells were finished before")
    records = {record.job.name: record for record in before}
    try:
        with (
            remember_interrupts() as raise_lost,
            closing(distribute(run_job, left, crew)) as outcomes,
            open_sweep_progress(spec.out, spec.jobs, before) as tell,
        ):
            for outcome in outcomes:
                job = left[outcome.place]
                records[job.name] = JobRecord(job, outcome.value, outcome.failure, outcome.attempts)
                tell(records[job.name])
                raise_lost()
    except (KeyboardInterrupt, BidualError):  # Ctrl-C, SIGTERM, or a cluster that is gone
        done = sum(record.failure is None for record in records.values())
        report(
            f"{done} of {len(spec.jobs)} cells are finished, the others are stored as far as they were: run the same "
            "command again to go on"
        )
        raise
    return [records[job.name] for job in spec.jobs]


def _open_workers(args: argparse.Namespace) -> int:
    """Read the number of processes: by default as many as this process may use cores."""
    import os

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if args.workers is None:
        return cores
    if args.workers < 1:
        raise TaskError(f"--workers must be at least 1; got {args.workers}")
    if args.cluster not in (None, "local"):
        raise TaskError(f"--workers is for processes of this machine, but {args.cluster} has its own: leave it out")
    return args.workers


def _open_pool(args: argparse.Namespace, workers: int, jobs: int) -> "WorkerPool":
    from bidual.cli.distributed import dask, local

    count = max(min(workers, jobs), 1)
    if args.cluster is None:
        return local(count)
    return dask(None if args.cluster == "local" else args.cluster, workers=count)


def _plan(args: argparse.Namespace, spec: "Spec", left: "Sequence[Job]", workers: int) -> int:
    """Print the plan: the status of every job, and an estimate of the time."""
    from bidual.cli._progress import format_duration
    from bidual.cli.sweep._estimate import estimate_time
    from bidual.cli.sweep._jobs import read_entries

    estimate, entries, names = (
        estimate_time(spec.out, left, workers),
        read_entries(spec.out),
        {job.name for job in left},
    )
    rows = []
    for job in spec.jobs:
        entry = entries.get(job.name)
        begun = "new" if entry is None else f"stored up to episode {entry.episodes} of {job.options.episodes}"
        rows.append((job.name, begun if job.name in names else "finished"))
    if args.json:
        _print_json(
            {
                "out": str(spec.out),
                "cells": [{"name": name, "status": status} for name, status in rows],
                "left": len(left),
                "workers": workers,
                "estimated_seconds": estimate.seconds,
                "estimate_rests_on": list(estimate.sources),
            }
        )
        return 0
    width = max(len(name) for name, _ in rows)
    show("\n".join(f"{name:{width}}  {status}" for name, status in rows))
    show(f"{len(rows)} cells, {len(rows) - len(left)} of them finished; they are in {spec.out}")
    if left:
        time_ = "no estimate" if estimate.seconds is None else f"about {format_duration(estimate.seconds)}"
        show(f"{time_} for the {len(left)} that are left on {workers} workers: an estimate, which rests on")
        show("\n".join(f"  {source}" for source in estimate.sources))
    return 0


def _report(args: argparse.Namespace, spec: "Spec", records: "Sequence[JobRecord]", seconds: float) -> None:
    """Print the table of a sweep, or its JSON, and the files that were written."""
    from bidual._base.version import __version__
    from bidual.cli.sweep._summary import format_table, summarise_jobs, write_curves

    lines, curves = summarise_jobs(records), write_curves(spec.out, records)
    if not args.json:
        show(format_table(lines))
        report(f"stored in {spec.out}")
        for file in curves:
            report(f"curve in {file}")
        return
    _print_json(
        {
            "out": str(spec.out),
            "cells": [record.to_dict() for record in records],
            "summary": [line.to_dict() for line in lines],
            "curves": [str(file) for file in curves],
            "seconds": seconds,
            "version": __version__,
        }
    )


def _print_json(content: dict[str, Any]) -> None:
    import json

    show(json.dumps(content, indent=2, allow_nan=False))


def _choose_exit_code(records: "Sequence[JobRecord]") -> int:
    """Return the exit code: failed jobs are a failure; a failed store has its own code, because all jobs need it."""
    codes = {record.failure.exit_code for record in records if record.failure is not None}
    return _STORE if _STORE in codes else _FAILED if codes else 0
