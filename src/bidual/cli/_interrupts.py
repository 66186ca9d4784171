"""Ctrl-C and SIGTERM: both end a command in good order, and neither is lost."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which supervisors and batch systems end a process: like Ctrl-C, with an exit code of its own."""


_RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@final
class _Memory:
    """A handler of signals that raises their interrupt, and remembers that it did."""

    def __init__(self) -> None:
        self._received: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise the interrupt of a signal."""
        del frame
        self._received.append(number)
        raise _RAISED[signal.Signals(number)]

    def raise_lost(self) -> None:
        """Raise the interrupt that was received first, if one was."""
        if self._received:
            raise _RAISED[signal.Signals(self._received[0])]


@contextmanager
def remember_interrupts() -> Iterator[Callable[[], None]]:
    """Raise `KeyboardInterrupt` or `Terminated`; yield a function that raises it again if it was lost.

    Exceptions that are raised while Python collects garbage are dropped, and JAX has it call back then: an interrupt
    that comes at that moment would be lost. Signals that are ignored, or that the caller handles, are left alone.
    Inside another such context its memory is used.
    """
    outer = signal.getsignal(signal.SIGINT)
    memory = outer if isinstance(outer, _Memory) else _Memory()
    main = threading.current_thread() is threading.main_thread()  # Python has no other thread handle signals
    handled = [number for number, usual in _USUAL.items() if main and signal.getsignal(number) == usual]
    for number in handled:
        signal.signal(number, memory)
    try:
        yield memory.raise_lost
    finally:
        for number in handled:
            signal.signal(number, _USUAL[number])
