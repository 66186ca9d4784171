"""Who does the work: executors, how many of them, and how they are stopped."""

from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import final

from bidual.envs import processes
from bidual.envs._opening import check_count


def shut_down(executor: Executor) -> None:
    """What any executor can do: start nothing more. What runs already may go on to its end."""
    executor.shutdown(wait=False, cancel_futures=True)


@final
@dataclass(frozen=True)
class Crew:
    """Executors to hand cells to.

    Args:
        open: makes an executor with the interface of `concurrent.futures.Executor`; called again where one has broken.
        executors: how many of them work at once.
        each: how many cells one of them is given at a time; None for all at once.
        stop: ends an executor for good, whatever it is doing.
    """

    open: Callable[[], Executor]
    executors: int = 1
    each: int | None = None
    stop: Callable[[Executor], None] = shut_down

    def __post_init__(self) -> None:
        """Nobody would ever do the work of a crew of none."""
        check_count("executors", self.executors)
        if self.each is not None:
            check_count("each", self.each)


def local(workers: int) -> Crew:
    """Processes of this machine, with one thread each.

    Every process has an executor of its own: where one is killed, the others do not notice.
    """
    return Crew(partial(processes, 1), executors=check_count("workers", workers), each=1, stop=_kill)


def _kill(executor: Executor) -> None:
    """A run that is killed goes on from its last checkpoint, so nobody has to wait for it."""
    assert isinstance(executor, ProcessPoolExecutor)
    for process in list((executor._processes or {}).values()):  # there is no public way before Python 3.14
        process.kill()
    executor.shutdown(wait=True, cancel_futures=True)
