"""The progress of a sweep, on stderr: a live table in a terminal, a line per finished job in a log."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._base.errors import RunError
from bidual.cli._output import report
from bidual.cli.sweep._jobs import Job, JobRecord

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bidual.learning.runs import Listed

_LINES = 20  # of the live table, where the terminal is not lower than that
_AROUND = 6  # lines that are not cells


@contextmanager
def open_sweep_progress(
    out: Path, jobs: Sequence[Job], before: Sequence[JobRecord]
) -> Iterator[Callable[[JobRecord], None]]:
    """Yield a function that takes the record of every ended job; `before` are those that were finished at the start."""
    if not sys.stderr.isatty():
        yield _Log(len(jobs), len(before))
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    live = _Live(console, out, jobs, before)
    try:
        with Live(get_renderable=live.render, console=console, refresh_per_second=1, transient=True):
            yield live.tell
    finally:
        for record in live.failed():
            report(f"{record.job.name}: {describe(record)}")


def format_number(value: float | None, unknown: str = "-") -> str:
    """Format a number that may be unknown with four digits."""
    return unknown if value is None else f"{value:.4g}"


def describe(record: JobRecord) -> str:
    """Describe the end of a job in a line."""
    if record.failure is not None:
        return f"failed: {record.failure.message}"
    assert record.result is not None
    result = record.result
    gap = "no gap" if result["gap"] is None else f"gap {format_number(result['gap'])}"
    violation = (
        "violation not bounded" if record.violation is None else f"violation at most {format_number(record.violation)}"
    )
    return f"{result['status']}, value {format_number(result['value'])}, {gap}, {violation}, {result['seconds']:.1f} s"


class _Log:
    """A log that prints a line per job."""

    def __init__(self, count: int, done: int) -> None:
        self._count, self._done = count, done

    def __call__(self, record: JobRecord) -> None:
        self._done += 1
        report(f"[{self._done}/{self._count}] {record.job.name}: {describe(record)}")


class _Live:
    """A live table of the ended jobs and, from the database, the running ones."""

    def __init__(self, console: "Console", out: Path, jobs: Sequence[Job], before: Sequence[JobRecord]) -> None:
        self._console, self._out, self._cells = console, out, {job.name: job for job in jobs}
        self._ended = {record.job.name: record for record in before}
        self._started, self._seen = time.monotonic(), dict[str, float]()

    def tell(self, record: JobRecord) -> None:
        self._ended[record.job.name] = record

    def failed(self) -> list[JobRecord]:
        return [record for record in self._ended.values() if record.failure is not None]

    def render(self) -> "Table":
        """Draw the table of the running and the ended jobs."""
        from rich.table import Table

        ended, running, failed = list(self._ended.values()), self._read_running(), self.failed()
        left = len(self._cells) - len(ended) - len(running)
        title = f"{len(ended) - len(failed)} done, {len(running)} running, {len(failed)} failed, {left} left"
        table = Table(title=f"{title}, {time.monotonic() - self._started:.0f} s", title_justify="left", box=None)
        table.add_column("cell", overflow="fold")
        for column in ("status", "value", "gap", "violation at most", "seconds"):
            table.add_column(column, justify="right", no_wrap=True)
        room = max(min(_LINES, self._console.height - _AROUND) - len(running), 3)
        for record in ended[-room:]:
            table.add_row(record.job.name, *_format_row(record))
        for one in running:
            status = f"running {one.episodes}/{self._cells[one.name].options.episodes}"
            seconds = time.monotonic() - self._seen.setdefault(one.name, time.monotonic())
            numbers = [format_number(one.gap), format_number(one.violation), f"{seconds:.0f}"]
            table.add_row(one.name, status, "", *numbers, style="bold")
        return table

    def _read_running(self) -> "list[Listed]":
        """Read the running jobs; a database that is missing or broken is no reason to stop drawing."""
        from bidual.learning.runs import listed

        try:
            found = listed(self._out)
        except RunError:
            return []
        mine = [one for one in found if one.name in self._cells and one.name not in self._ended]
        return [one for one in mine if one.status == "running"]


def _format_row(record: JobRecord) -> list[str]:
    if record.result is None:
        return ["failed", "", "", "", ""]
    result = record.result
    numbers = [format_number(result["value"]), format_number(result["gap"]), format_number(record.violation)]
    return [result["status"], *numbers, f"{result['seconds']:.1f}"]
