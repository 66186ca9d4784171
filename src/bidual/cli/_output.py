"""Standard output, which is for results alone, and the one place where results and errors are printed.

Environments are other people's programs, and so are the processes that they start: what they print goes to standard
error. Strings of files are printed without the characters that a terminal obeys.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from io import TextIOBase, TextIOWrapper
from typing import TextIO, final

from bidual._base.text import escape_unprintable

_OUT, _ERR = 1, 2  # the descriptors that children inherit
_Stream = TextIO | TextIOBase  # of this process, or what stands for it in tests


@final
class Results:
    """The stream of results. Once its reader is gone, as that of `head` is, the command goes on and prints nothing."""

    def __init__(self, stream: _Stream | None) -> None:
        self._stream, self.reader_left = stream, False

    def print(self, text: str) -> None:
        """Print a text at once; nothing where the stream was closed before we began."""
        if self._stream is not None and not self.reader_left:
            self.reader_left = not _print(text, self._stream)


_RESULTS: ContextVar[Results | None] = ContextVar("results", default=None)


def show(result: object) -> None:
    """Print a result on standard output, at once."""
    (_RESULTS.get() or Results(sys.stdout)).print(escape_unprintable(str(result)))


def report(text: object) -> None:
    """Print what is not a result on standard error; nothing where that is closed or its reader is gone."""
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]: print() would turn to standard output
        _print(escape_unprintable(str(text)), sys.stderr)


@contextmanager
def reserve_stdout() -> Iterator[Results]:
    """Keep standard output to `show`: all else that is written to it, by whatever process, goes to standard error."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]: it was closed before we began
        yield Results(None)
        return
    sys.stdout.flush()
    with ExitStack() as opened:
        results = Results(opened.enter_context(_reserve_descriptor()))
        opened.callback(_RESULTS.reset, _RESULTS.set(results))
        with redirect_stdout(sys.stderr):
            yield results


def give_up_stdout() -> None:
    """Send to standard error what is printed after the last result, while the process ends."""
    for stream in (sys.stdout, sys.stderr):  # the parser of arguments leaves its texts in them
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]: it was closed before we began
            _print("", stream, end="")
    with suppress(OSError):
        _redirect_to_stderr()
    sys.stdout = sys.stderr


@contextmanager
def _reserve_descriptor() -> Iterator[TextIO]:
    """Point descriptor 1 at standard error, and yield a stream to where it pointed before."""
    ours = os.dup(_OUT)
    try:
        _redirect_to_stderr()
        with _open_stream(ours) as results:
            yield results
    finally:
        os.dup2(ours, _OUT)
        os.close(ours)


def _redirect_to_stderr() -> None:
    """Point descriptor 1 at standard error or, where that is closed, at nothing."""
    try:
        os.dup2(_ERR, _OUT)
    except OSError:
        _redirect_to_nothing(_OUT)


def _redirect_to_nothing(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def _print(text: str, stream: _Stream, end: str = "\n") -> bool:
    """Print a text at once, and return whether anyone reads it. If not, the stream ends in nothing from now on.

    What could not be written stays in the buffer of the stream, and would be an error again when that is closed.
    """
    try:
        print(text, file=stream, end=end, flush=True)
    except BrokenPipeError:
        with suppress(OSError, ValueError):  # a stream without a descriptor has no such buffer
            _redirect_to_nothing(stream.fileno())
        return False
    return True


@contextmanager
def _open_stream(descriptor: int) -> Iterator[TextIO]:
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
