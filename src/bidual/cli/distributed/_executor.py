"""Distribution of jobs: hand them out, report how each ended, and restart those that were lost with their worker.

Errors of a job are caught in the worker and come back as a `Failure`. An error that comes out of a future is therefore
never the job's: its worker was killed, or the connection to it is gone, and the job is handed out again. So a job may
be run several times, and should resume.
"""

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, final

from bidual._base.errors import BidualError, BusyError
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


C = TypeVar("C")
V = TypeVar("V")

_UNEXPECTED = 1  # exit code
_PAUSE = 1.0  # seconds between moments at which Ctrl-C is certain to be noticed


@final
@dataclass(frozen=True)
class Failure:
    """The reason of a missing result: the class of the error, its message, and the exit code that it stands for."""

    kind: str
    message: str
    exit_code: int


@final
@dataclass(frozen=True)
class Outcome(Generic[V]):
    """The end of a job: a value or a failure."""

    place: int  # among the given jobs
    value: V | None
    failure: Failure | None
    attempts: int  # the number of times it was handed out


def distribute(
    function: Callable[[C], V], cells: Sequence[C], crew: WorkerPool, *, attempts: int = 5
) -> Generator[Outcome[V], None, None]:
    """Call a function with every job, and yield the outcomes in the order in which they come.

    When the last has arrived, or the caller closes the generator, the pool is stopped.

    Args:
        function: the function; it and the jobs must be picklable, so it must be one of a module, and no lambda.
        cells: the jobs, its arguments.
        crew: the pool of workers.
        attempts: the number of times a job is handed out before the loss of its worker counts as its own failure.
    """
    waiting, tried = deque(range(len(cells))), Counter[int]()
    lanes = [_Lane(crew) for _ in range(min(crew.executors, len(cells)))]
    sent: dict[Future[Any], _Sent] = {}
    try:
        while waiting or sent:
            for lane in lanes:
                while waiting and (crew.each is None or sum(one.lane is lane for one in sent.values()) < crew.each):
                    place = waiting.popleft()
                    tried[place] += 1
                    future, executor = lane.submit(function, cells[place])
                    sent[future] = _Sent(place, lane, executor)
            done, _ = wait(sent, timeout=_PAUSE, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda one: sent[one].place):
                place, lane, executor = sent.pop(future)
                reply = _read_reply(future)
                if not isinstance(reply, _Lost):
                    yield Outcome(place, reply.value, reply.failure, tried[place])
                    continue
                if isinstance(reply.error, BrokenExecutor):
                    lane.give_up(executor)
                if tried[place] < attempts:
                    waiting.appendleft(place)
                else:
                    yield Outcome(place, None, _describe_loss(reply.error, tried[place]), tried[place])
    finally:
        for lane in lanes:
            lane.give_up()


class _Lane:
    """A place for an executor: opened at first use, and anew after one has broken."""

    def __init__(self, crew: WorkerPool) -> None:
        self._crew = crew
        self._executor: Executor | None = None

    def submit(self, function: Callable[[Any], object], cell: object) -> tuple[Future[Any], Executor]:
        """Submit a call to the executor that is returned beside the future."""
        try:
            executor = self._ensure_open()
            return executor.submit(_attempt, function, cell), executor
        except RuntimeError:  # it has broken while idle, or was shut down
            self.give_up()
            executor = self._ensure_open()
            return executor.submit(_attempt, function, cell), executor

    def give_up(self, broken: Executor | None = None) -> None:
        """Stop the executor; unless `broken` is another one, which was given up before."""
        executor = self._executor
        if executor is not None and broken in (None, executor):
            self._executor = None
            self._crew.stop(executor)

    def _ensure_open(self) -> Executor:
        if self._executor is None:
            self._executor = self._crew.open()
        return self._executor


class _Sent(NamedTuple):
    place: int
    lane: _Lane
    executor: Executor


@dataclass(frozen=True)
class _Reply:
    """The reply of a worker."""

    value: Any
    failure: Failure | None


class _Lost(NamedTuple):
    """The executor's error where no reply came."""

    error: Exception


def _read_reply(future: Future[Any]) -> _Reply | _Lost:
    try:
        return future.result()
    except Exception as error:
        return _Lost(error)


def _describe_loss(error: Exception, attempts: int) -> Failure:
    message = (
        f"its worker was lost {attempts} times, the last time with {type(error).__name__}: {error}. Look whether it "
        "needs more memory than there is, or run it alone"
    )
    return Failure(type(error).__name__, message, _UNEXPECTED)


def _attempt(function: Callable[[Any], Any], cell: object) -> _Reply:
    """Run the job in the worker, and always return a reply: a user's file may raise anything, SystemExit included."""
    try:
        return _Reply(function(cell), None)
    except BidualError as error:
        return _Reply(None, Failure(type(error).__name__, str(error), error.exit_code))
    except BaseException as error:
        kind, last = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
        message = f"{kind}: {error} ({last.filename}, line {last.lineno})"
        return _Reply(None, Failure(kind, message, _UNEXPECTED))


T = TypeVar("T")

_RETRY = 0.5  # seconds between attempts at a run that is locked


def retry_while_busy(attempt: Callable[[], T], seconds: float) -> T:
    """Retry until no other process writes to the run, for so many seconds at most; raise other errors at once."""
    last = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except BusyError:
            if time.monotonic() > last:
                raise
        time.sleep(_RETRY)
