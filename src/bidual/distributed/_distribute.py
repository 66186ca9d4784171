"""Hand cells out, tell how they ended as they do, and start again what was lost with its worker.

What a cell raises is caught where it runs and comes back as a `Failure`. An error that comes out of a future is
therefore never the cell's: its worker was killed, or the connection to it is gone, and the cell is handed out again.
A cell may so be run several times, and should go on from where it was.
"""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, final

from bidual._errors import BidualError
from bidual.distributed._crew import Crew

C = TypeVar("C")
V = TypeVar("V")

_UNEXPECTED = 1  # exit code
_PAUSE = 1.0  # seconds between moments at which Ctrl-C is certain to be heard


@final
@dataclass(frozen=True)
class Failure:
    """Why there is no result: the class of the error, its message, and the exit code that it stands for."""

    kind: str
    message: str
    exit_code: int


@final
@dataclass(frozen=True)
class Outcome(Generic[V]):
    """How a cell ended: with a value or with a failure."""

    place: int  # among the cells that were given
    value: V | None
    failure: Failure | None
    attempts: int  # how often it was handed out


def distribute(
    function: Callable[[C], V], cells: Sequence[C], crew: Crew, *, attempts: int = 5
) -> Generator[Outcome[V], None, None]:
    """Have a function called with every cell, and yield the outcomes in the order in which they come.

    When the last is there, or the caller closes the generator, the crew is stopped.

    Args:
        function: what to do; it and the cells must be picklable, so it must be one of a module, and no lambda.
        cells: what to do it with.
        crew: who does it.
        attempts: how often a cell is handed out before its worker's end is taken to be the cell's fault.
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
                reply = _heard(future)
                if not isinstance(reply, _Lost):
                    yield Outcome(place, reply.value, reply.failure, tried[place])
                    continue
                if isinstance(reply.error, BrokenExecutor):
                    lane.give_up(executor)
                if tried[place] < attempts:
                    waiting.appendleft(place)
                else:
                    yield Outcome(place, None, _lost_for_good(reply.error, tried[place]), tried[place])
    finally:
        for lane in lanes:
            lane.give_up()


class _Lane:
    """A place for an executor: opened at first use, and anew after one has broken."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._executor: Executor | None = None

    def submit(self, function: Callable[[Any], object], cell: object) -> tuple[Future[Any], Executor]:
        """Have it called by the executor that is named beside the future."""
        try:
            executor = self._opened()
            return executor.submit(_attempted, function, cell), executor
        except RuntimeError:  # it has broken while it had nothing to do, or somebody has shut it down
            self.give_up()
            executor = self._opened()
            return executor.submit(_attempted, function, cell), executor

    def give_up(self, broken: Executor | None = None) -> None:
        """Stop the executor; unless `broken` is another one, which was given up before."""
        executor = self._executor
        if executor is not None and broken in (None, executor):
            self._executor = None
            self._crew.stop(executor)

    def _opened(self) -> Executor:
        if self._executor is None:
            self._executor = self._crew.open()
        return self._executor


class _Sent(NamedTuple):
    place: int
    lane: _Lane
    executor: Executor


@dataclass(frozen=True)
class _Reply:
    """What a worker sends back."""

    value: Any
    failure: Failure | None


class _Lost(NamedTuple):
    """No reply came, and this is what the executor says about it."""

    error: Exception


def _heard(future: Future[Any]) -> _Reply | _Lost:
    try:
        return future.result()
    except Exception as error:
        return _Lost(error)


def _lost_for_good(error: Exception, attempts: int) -> Failure:
    message = (
        f"its worker was lost {attempts} times, the last time with {type(error).__name__}: {error}. Look whether it "
        "needs more memory than there is, or run it alone"
    )
    return Failure(type(error).__name__, message, _UNEXPECTED)


def _attempted(function: Callable[[Any], Any], cell: object) -> _Reply:
    """In the worker: nothing gets out of here but a reply. A user's file may raise anything, SystemExit included."""
    try:
        return _Reply(function(cell), None)
    except BidualError as error:
        return _Reply(None, Failure(type(error).__name__, str(error), error.exit_code))
    except BaseException as error:
        kind, last = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
        message = f"{kind}: {error} ({last.filename}, line {last.lineno})"
        return _Reply(None, Failure(kind, message, _UNEXPECTED))
