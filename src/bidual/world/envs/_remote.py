"""A Gymnasium environment in a process of its own, which must answer in time.

A step that never returns cannot be stopped from within its process, and one that crashes takes its process with it.
Only the results of calls are sent back; they are checked with all others in `_calls`.
"""

import signal
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, final

from bidual._base.errors import FAILURES, BidualError, EnvError
from bidual.world.envs._calls import Raised, Unanswered, describe_error
from bidual.world.envs._opening import check_maker, open_env
from bidual.world.envs._processes import leave_with_parent
from bidual.world.envs._sending import pack, unpack

if TYPE_CHECKING:
    from gymnasium import Env

ALLOWANCE = 120.0  # seconds to construct the environment: an interpreter starts and imports packages
FAREWELL = 5.0  # seconds to close the environment, before its process is killed
_SPAWN = get_context("spawn")  # a fork of a process that runs JAX hangs

Kind = Literal["answered", "raised", "refused", "unsendable"]


class RemoteReply(NamedTuple):
    """A reply of the child: the result, a described exception with its traceback, or the reason for neither."""

    kind: Kind
    content: Any


@final
@dataclass(frozen=True, eq=False)
class Child:
    """A process, and the pipe to it. No other process has the pipe, so each side notices the end of the other."""

    process: SpawnProcess
    pipe: Connection

    def receive(self, limit: float) -> RemoteReply | None:
        """Wait up to `limit` seconds for a reply; None on timeout, EOFError if the child has exited."""
        return self.pipe.recv() if self.pipe.poll(limit) else None

    def end(self, patience: float = 0.0) -> str:
        """End the process, and describe how it ended."""
        self.pipe.close()  # the child closes the environment and exits, if it is not busy
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        code = self.process.exitcode
        self.process.close()
        return _describe_ending(code or 0)


@final
class Remote:
    """A `gymnasium.Env` in another process, which may be replaced after a failure.

    Args:
        recipe: a packed function without arguments that opens the environment.
        limit: the most seconds of a call.
    """

    def __init__(self, recipe: bytes, limit: float) -> None:
        self._recipe, self._limit = recipe, limit
        self._child, spaces = _start(recipe)
        self.observation_space, self.action_space = spaces

    def reset(self, *, seed: int) -> object:
        """Call `reset` of the environment, and return its result."""
        return self._ask("reset", seed)

    def step(self, action: int) -> object:
        """Call `step` of the environment, and return its result."""
        return self._ask("step", action)

    def close(self) -> None:
        """Close the environment and end its process; a later call starts a new one."""
        child, self._child = self._child, None
        if child is not None:
            child.end(FAREWELL)

    def _ask(self, name: str, argument: int) -> object:
        """Send a call to the process and return its reply; end the process where that fails."""
        child = self._child = self._child or _start(self._recipe)[0]
        try:
            with suppress(ConnectionError):  # it has exited, and reading its reply raises EOFError
                child.pipe.send((name, argument))
            reply = child.receive(self._limit)
        except (EOFError, ConnectionError):
            self._child = None
            raise _report_ended(child.end(FAREWELL)) from None
        except BaseException:  # Ctrl-C, for one: the next call must not get the result of this one
            self._child = None
            child.end()
            raise
        if reply is None:
            self._child = None
            child.end()
            raise _report_timeout(self._limit)
        return _read_content(reply)


def remote(
    env: "Env[Any, Any] | str | Callable[[], Env[Any, Any]]", options: Mapping[str, object], limit: float
) -> Remote:
    """Open the environment with this name, or of this function, in a process of its own."""
    check_maker(env, "with step_limit")
    pack("env", env)
    pack("options", dict(options))
    return Remote(pack("env", partial(open_env, env, dict(options))), limit)


def _start(recipe: bytes) -> tuple[Child, tuple[Any, Any]]:
    """Start a process with the environment, and return it with the spaces of observations and actions."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs, recipe), daemon=True, name="bidual: environment")
    with theirs:
        process.start()
    child = Child(process, ours)
    try:
        reply = child.receive(ALLOWANCE)
    except (EOFError, ConnectionError):
        raise EnvError(
            f"the process that was to make the environment {child.end(FAREWELL)}: what it printed says why. A script "
            'that uses step_limit must do its work under if __name__ == "__main__":, because that process imports it'
        ) from None
    except BaseException:
        child.end()
        raise
    if reply is not None and reply.kind == "answered":
        return child, reply.content
    child.end()
    _refuse(reply)


def _refuse(reply: RemoteReply | None) -> NoReturn:
    """Raise the error for an environment that could not be constructed."""
    if reply is None:
        raise EnvError(f"the environment was not made within {ALLOWANCE:g} s: correct the function that makes it")
    if reply.kind == "refused":
        raise reply.content
    raise EnvError(f"the spaces of the environment cannot be sent to another process: {reply.content}")


def _read_content(reply: RemoteReply) -> object:
    """Return the result of a call, or raise its exception."""
    if reply.kind == "answered":
        return reply.content
    if reply.kind == "raised":
        message, trace = reply.content
        error = Raised(message)
        error.add_note(f"In the process of the environment:\n{trace}")
        raise error
    raise Unanswered(
        f"gave an answer that cannot be sent to another process ({reply.content})",
        "Leave out of observation and info what cannot be pickled, or leave out step_limit",
    )


def _report_timeout(limit: float) -> Unanswered:
    return Unanswered(
        f"gave no answer within {limit:g} s",
        "Its process was killed, and the next episode starts a fresh one. Raise step_limit, or correct the environment",
    )


def _report_ended(ending: str) -> Unanswered:
    return Unanswered(
        f"gave no answer: the process of the environment {ending}",
        "The next episode starts a fresh one. Correct the environment; what it printed may say why",
    )


def _describe_ending(code: int) -> str:
    """Describe how a process ended. A negative code is the signal that killed it."""
    if code >= 0:
        return f"ended with exit code {code}"
    names = {int(one): one.name for one in signal.Signals}
    return f"ended with exit code {code} ({names.get(-code, 'a signal')})"


# In the other process


def _serve(pipe: Connection, recipe: bytes) -> None:
    """Construct the environment, then answer calls until the pipe is closed."""
    leave_with_parent()
    try:
        env = unpack("env", recipe, partial)()
    except BidualError as error:
        pipe.send(RemoteReply("refused", error))
        return
    _send(pipe, RemoteReply("answered", (getattr(env, "observation_space", None), getattr(env, "action_space", None))))
    with suppress(EOFError, ConnectionError):
        while True:
            name, argument = pipe.recv()
            _send(pipe, _call(env, name, argument))
    env.close()


def _call(env: "Env[Any, Any]", name: str, argument: int) -> RemoteReply:
    try:
        return RemoteReply("answered", env.reset(seed=argument) if name == "reset" else env.step(argument))
    except FAILURES as error:
        return RemoteReply("raised", (describe_error(error), traceback.format_exc()))


def _send(pipe: Connection, reply: RemoteReply) -> None:
    """Send a reply; pickling comes before sending, so one that fails has not been sent in part."""
    try:
        pipe.send(reply)
    except ConnectionError:
        raise
    except Exception as error:
        pipe.send(RemoteReply("unsendable", describe_error(error)))
