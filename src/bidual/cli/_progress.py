"""A progress line on stderr: live in a terminal, now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bidual.solution import Progress

_SECONDS_BETWEEN_LOG_LINES = 5.0


@contextmanager
def progress_line(what: str) -> "Iterator[Callable[..., None]]":
    """Yield a function that shows where the solve stands, after some words of the caller's if they are given."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(f"{what}: compiling the planner") as status:
            yield lambda state, where="": status.update(f"{what}: {where}{_words(state)}")
        return
    last = time.monotonic()

    def log(state: "Progress", where: str = "") -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LOG_LINES:
            last = time.monotonic()
            print(f"{what}: {where}{_words(state)}", file=sys.stderr, flush=True)

    yield log


def _words(state: "Progress") -> str:
    gap = "looking for a feasible policy" if state.gap is None else f"gap {state.gap:.2e}"
    return f"plan {state.plans}, {gap}, violation {state.violation:.1e}, {state.seconds:.1f} s"
