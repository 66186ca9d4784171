"""Standard output, which is for results alone, and the one place where results and errors are printed.

Environments are other people's programs, and so are the processes that they start: what they print goes to standard
error. Strings of files are printed without the characters that a terminal obeys.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from io import TextIOWrapper
from typing import TextIO

from bidual._base.text import printable

_OUT, _ERR = 1, 2  # the descriptors that children inherit
_RESULTS: ContextVar[TextIO | None] = ContextVar("results", default=None)


def show(result: object) -> None:
    """Print a result on standard output, at once."""
    print(printable(str(result)), file=_RESULTS.get() or sys.stdout, flush=True)


def report(text: object) -> None:
    """Print what is not a result on standard error."""
    print(printable(str(text)), file=sys.stderr, flush=True)


@contextmanager
def reserve_stdout() -> Iterator[None]:
    """Keep standard output to `show`: all else that is written to it, by whatever process, goes to standard error."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]: it was closed before we began
        yield
        return
    sys.stdout.flush()
    with ExitStack() as opened:
        results = opened.enter_context(_reserve_descriptor())
        opened.callback(_RESULTS.reset, _RESULTS.set(results))
        with redirect_stdout(sys.stderr):
            yield


def give_up_stdout() -> None:
    """Send to standard error what is printed after the last result, while the process ends."""
    with suppress(OSError):
        _point_at_stderr()
    sys.stdout = sys.stderr


@contextmanager
def _reserve_descriptor() -> Iterator[TextIO]:
    """Point descriptor 1 at standard error, and yield a stream to where it pointed before."""
    ours = os.dup(_OUT)
    try:
        _point_at_stderr()
        with _stream_to(ours) as results:
            yield results
    finally:
        os.dup2(ours, _OUT)
        os.close(ours)


def _point_at_stderr() -> None:
    """Point descriptor 1 at standard error or, where that is closed, at nothing."""
    try:
        os.dup2(_ERR, _OUT)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, _OUT)
        os.close(nothing)


@contextmanager
def _stream_to(descriptor: int) -> Iterator[TextIO]:
    """Open a stream to the descriptor like standard output; where that writes elsewhere, as in tests, yield itself."""
    usual = sys.stdout
    if not (isinstance(usual, TextIOWrapper) and _writes_to_descriptor()):
        yield usual
        return
    with open(descriptor, "w", encoding=usual.encoding, errors=usual.errors, closefd=False) as results:
        yield results


def _writes_to_descriptor() -> bool:
    with suppress(OSError, ValueError):
        return sys.stdout.fileno() == _OUT
    return False
