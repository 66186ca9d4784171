"""A progress line on stderr: live in a terminal, now and then in a log."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from bidual.cli._interrupts import remember_interrupts
from bidual.cli._output import report

if TYPE_CHECKING:
    from bidual.learning.learned import LearnProgress
    from bidual.solving.solution import Progress

_SECONDS_BETWEEN_LOG_LINES = 5.0
_SECONDS_BETWEEN_LINES_OF_NO_NEWS = 30.0
_SECONDS_OF_SPEED = 5.0  # over which episodes per second are counted: early ones plan more often than later ones


@contextmanager
def open_progress_line(what: str) -> "Iterator[Callable[..., None]]":
    """Yield a function that displays the state of a solve, after a text of the caller's if one is given."""
    with _open_attentive_line(what) as show:
        yield lambda state, where="": show(f"{where}{_describe(state)}")


@contextmanager
def open_learning_line(what: str, episodes: int, *, maximises: bool) -> "Iterator[Callable[[LearnProgress], None]]":
    """Yield a function that displays the state of learning, out of so many episodes."""
    speed = _Speed()
    with _open_attentive_line(what) as show:
        yield lambda progress: show(_describe_learning(progress, episodes, speed(progress), maximises=maximises))


@contextmanager
def _open_attentive_line(what: str) -> Iterator[Callable[[str], None]]:
    """Yield a line that does not lose an interrupt: one that was lost is raised again with the next update."""
    with remember_interrupts() as raise_lost, _open_line(what) as show:

        def show_or_interrupt(text: str) -> None:
            raise_lost()
            show(text)

        yield show_or_interrupt


@contextmanager
def _open_line(what: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that displays a text: at once in a terminal, every few seconds in a log."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(f"{what}: compiling the planner") as status:
            yield lambda text: status.update(f"{what}: {text}")
        return
    log = _Log(what, "compiling the planner", time.monotonic())
    ended = threading.Event()
    thread = threading.Thread(target=_write_log, args=(log, ended), daemon=True)
    thread.start()
    try:
        yield log.set
    finally:
        ended.set()
        thread.join()


def _write_log(log: "_Log", ended: threading.Event) -> None:
    """Print what is due, also while nothing is updated: compiling and evaluating take their time."""
    while not ended.wait(_SECONDS_BETWEEN_LOG_LINES):
        line = log.take_line(time.monotonic())
        if line is not None:
            report(line)


@final
class _Log:
    """The latest text, and when it is due for a line: soon where it is new, now and then where nothing is."""

    def __init__(self, what: str, text: str, now: float) -> None:
        self._what, self._latest = what, text
        self._printed, self._at = text, now

    def set(self, text: str) -> None:
        self._latest = text

    def take_line(self, now: float) -> str | None:
        """Return the line that is due at a time, if one is."""
        text, new = self._latest, self._latest != self._printed
        if not new and now - self._at < _SECONDS_BETWEEN_LINES_OF_NO_NEWS:
            return None
        line = (
            f"{self._what}: {text}" if new else f"{self._what}: {text}, no news for {format_duration(now - self._at)}"
        )
        self._printed, self._at = text, now
        return line


def _describe(state: "Progress") -> str:
    gap = "looking for a feasible policy" if state.gap is None else f"gap {state.gap:.2e}"
    return f"plan {state.plans}, {gap}, violation {state.violation:.1e}, {state.seconds:.1f} s"


class _Speed:
    """The recent episodes per second; None until seconds of them have followed the first ones, which compile."""

    def __init__(self) -> None:
        self.seen: deque[tuple[int, float]] = deque()
        self.settled = False

    def __call__(self, progress: "LearnProgress") -> float | None:
        self.seen.append((progress.episodes, progress.seconds))
        while len(self.seen) > 2 and progress.seconds - self.seen[1][1] > _SECONDS_OF_SPEED:
            self.seen.popleft()
            self.settled = True
        episodes, seconds = self.seen[0]
        return (progress.episodes - episodes) / (progress.seconds - seconds) if self.settled else None


def _describe_learning(progress: "LearnProgress", episodes: int, speed: float | None, *, maximises: bool) -> str:
    """Write the state of learning on a line: episodes, bounds, speed and the time left."""
    parts = [f"{progress.episodes}/{episodes} episodes"]
    if progress.bound is not None:
        parts.append(f"no policy {'above' if maximises else 'below'} {progress.bound:.4g}")
    if progress.reached is not None:
        parts.append(f"mixture {'at least' if maximises else 'at most'} {progress.reached:.4g}")
    if progress.violation is not None:
        parts.append(f"violation at most {progress.violation:.2g}")
    if progress.candidates is not None:
        parts.append(f"candidates left {progress.candidates.worst}")
    if progress.episodes >= episodes:
        return ", ".join([*parts, "now evaluating the policy"])
    if speed:
        per_second = f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}"
        parts += [
            f"{per_second} episodes/s",
            f"{format_duration((episodes - progress.episodes) / speed)} of learning left",
        ]
    return ", ".join(parts)


def format_duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
