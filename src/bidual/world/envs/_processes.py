"""Worker processes: spawned, because a fork of a process that runs JAX hangs, and ended with their parent."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import final

from bidual.world.envs._opening import check_count

# One thread per worker: they share the cores among themselves. XLA reads NPROC.
_ALONE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_GRACE = 2.0  # seconds to end in good order after the parent has gone
_STARTING = threading.Lock()  # variables of the environment belong to all threads


def processes(workers: int) -> ProcessPoolExecutor:
    """Return an executor with this many processes, which start at first use; close it, or use it in a ``with`` block.

    Each of them computes with one thread, unless OMP_NUM_THREADS and the like are set. A script that uses it must do
    its work under ``if __name__ == "__main__":``, because the processes import it.
    """
    return ProcessPoolExecutor(check_count("workers", workers), mp_context=_Context(), initializer=leave_with_parent)


def leave_with_parent() -> None:
    """End this process soon after its parent has ended, however that was, whatever runs here then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all: the parent decides what it means
    threading.Thread(target=_watch, name="bidual: watch the parent", daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # it was started by multiprocessing
    wait([parent.sentinel])
    time.sleep(_GRACE)
    os._exit(1)


@final
class _Process(SpawnProcess):
    """A worker process, which inherits the variables set at its start."""

    def start(self) -> None:
        with _limit_threads():
            super().start()


@final
class _Context(SpawnContext):
    Process = _Process


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Limit threads by variables that the user has not set, and unset them afterwards."""
    with _STARTING:
        added = [name for name in _ALONE if name not in os.environ]
        os.environ.update({name: _ALONE[name] for name in added})
        try:
            yield
        finally:
            for name in added:
                os.environ.pop(name, None)
