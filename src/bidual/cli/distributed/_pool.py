"""Pools of workers: executors, their number, and how they are stopped."""

from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import final

from bidual.world.envs import check_count, processes


def shut_down(executor: Executor) -> None:
    """Stop an executor as any can be: start nothing more. Running jobs may go on to their end."""
    executor.shutdown(wait=False, cancel_futures=True)


@final
@dataclass(frozen=True)
class WorkerPool:
    """Executors to hand jobs to.

    Args:
        open: creates an executor with the interface of `concurrent.futures.Executor`; called again after one broke.
        executors: the number of them that work at once.
        each: the number of jobs that one of them is given at a time; None for all at once.
        stop: stops an executor for good, whatever it is doing.
    """

    open: Callable[[], Executor]
    executors: int = 1
    each: int | None = None
    stop: Callable[[Executor], None] = shut_down

    def __post_init__(self) -> None:
        """Check the numbers: an empty pool would never finish."""
        check_count("executors", self.executors)
        if self.each is not None:
            check_count("each", self.each)


def local(workers: int) -> WorkerPool:
    """Use processes of this machine, with one thread each.

    Every process has an executor of its own: where one is killed, the others are not affected.
    """
    return WorkerPool(partial(processes, 1), executors=check_count("workers", workers), each=1, stop=_kill)


def _kill(executor: Executor) -> None:
    """Kill the processes: a run that is killed resumes from its last checkpoint, so there is no need to wait."""
    assert isinstance(executor, ProcessPoolExecutor)
    for process in list((executor._processes or {}).values()):  # there is no public way before Python 3.14
        process.kill()
    executor.shutdown(wait=True, cancel_futures=True)
