"""How a sweep goes on, on stderr: a live table in a terminal, a line per finished cell in a log."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bidual._errors import RunError
from bidual.cli._cells import Cell, Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bidual.runs import Listed

_LINES = 20  # of the live table, where the terminal is not lower than that
_AROUND = 6  # lines that are not cells


@contextmanager
def board(out: Path, cells: Sequence[Cell], before: Sequence[Record]) -> Iterator[Callable[[Record], None]]:
    """Yield a function that is told how a cell has ended; `before` are those that were finished at the start."""
    if not sys.stderr.isatty():
        yield _Log(len(cells), len(before))
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    live = _Live(console, out, cells, before)
    try:
        with Live(get_renderable=live.drawn, console=console, refresh_per_second=1, transient=True):
            yield live.tell
    finally:
        for record in live.failed():
            print(f"{record.cell.name}: {words(record)}", file=sys.stderr)


def number(value: float | None, unknown: str = "-") -> str:
    """Four digits of a number that may not be known."""
    return unknown if value is None else f"{value:.4g}"


def words(record: Record) -> str:
    """How a cell has ended, in a line."""
    if record.failure is not None:
        return f"failed: {record.failure.message}"
    assert record.result is not None
    result = record.result
    gap = "no gap" if result["gap"] is None else f"gap {number(result['gap'])}"
    violation = "violation not bounded" if record.violation is None else f"violation at most {number(record.violation)}"
    return f"{result['status']}, value {number(result['value'])}, {gap}, {violation}, {result['seconds']:.1f} s"


class _Log:
    """Prints."""

    def __init__(self, count: int, done: int) -> None:
        self._count, self._done = count, done

    def __call__(self, record: Record) -> None:
        self._done += 1
        print(f"[{self._done}/{self._count}] {record.cell.name}: {words(record)}", file=sys.stderr, flush=True)


class _Live:
    """Draws, whenever it is asked to, what has ended and what the database says of the rest."""

    def __init__(self, console: "Console", out: Path, cells: Sequence[Cell], before: Sequence[Record]) -> None:
        self._console, self._out, self._cells = console, out, {cell.name: cell for cell in cells}
        self._ended = {record.cell.name: record for record in before}
        self._started, self._seen = time.monotonic(), dict[str, float]()

    def tell(self, record: Record) -> None:
        self._ended[record.cell.name] = record

    def failed(self) -> list[Record]:
        return [record for record in self._ended.values() if record.failure is not None]

    def drawn(self) -> "Table":
        from rich.table import Table

        ended, running, failed = list(self._ended.values()), self._running(), self.failed()
        left = len(self._cells) - len(ended) - len(running)
        title = f"{len(ended) - len(failed)} done, {len(running)} running, {len(failed)} failed, {left} left"
        table = Table(title=f"{title}, {time.monotonic() - self._started:.0f} s", title_justify="left", box=None)
        table.add_column("cell", overflow="fold")
        for column in ("status", "value", "gap", "violation at most", "seconds"):
            table.add_column(column, justify="right", no_wrap=True)
        room = max(min(_LINES, self._console.height - _AROUND) - len(running), 3)
        for record in ended[-room:]:
            table.add_row(record.cell.name, *_row(record))
        for one in running:
            status = f"running {one.episodes}/{self._cells[one.name].options.episodes}"
            seconds = time.monotonic() - self._seen.setdefault(one.name, time.monotonic())
            numbers = [number(one.gap), number(one.violation), f"{seconds:.0f}"]
            table.add_row(one.name, status, "", *numbers, style="bold")
        return table

    def _running(self) -> "list[Listed]":
        """A database that is not there yet, or in trouble, is no reason to stop drawing."""
        from bidual.runs import listed

        try:
            found = listed(self._out)
        except RunError:
            return []
        mine = [one for one in found if one.name in self._cells and one.name not in self._ended]
        return [one for one in mine if one.status == "running"]


def _row(record: Record) -> list[str]:
    if record.result is None:
        return ["failed", "", "", "", ""]
    result = record.result
    numbers = [number(result["value"]), number(result["gap"]), number(record.violation)]
    return [result["status"], *numbers, f"{result['seconds']:.1f}"]
