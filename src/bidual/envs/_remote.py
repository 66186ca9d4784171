"""A Gymnasium environment in a process of its own, which must answer in time.

A step that never returns cannot be stopped from within its process, and one that crashes takes its process with it.
Only the answers of the environment come out; they are checked where all answers are, in `_calls`.
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

from bidual._errors import BidualError, EnvError
from bidual.envs._calls import Raised, Unanswered, told
from bidual.envs._opening import check_maker, open_env
from bidual.envs._processes import leave_with_parent
from bidual.envs._sending import packed, unpacked

if TYPE_CHECKING:
    from gymnasium import Env

ALLOWANCE = 120.0  # seconds until the environment is made: an interpreter starts and imports what it needs
FAREWELL = 5.0  # seconds to close the environment, before its process is killed
_SPAWN = get_context("spawn")  # a fork of a process that runs JAX hangs

Kind = Literal["answered", "raised", "refused", "unsendable"]


class Reply(NamedTuple):
    """What comes back: the answer, an exception in words with its traceback, or why there is none."""

    kind: Kind
    content: Any


@final
@dataclass(frozen=True, eq=False)
class Child:
    """A process, and the pipe to it. Nobody else has the pipe, so each side sees the other end."""

    process: SpawnProcess
    pipe: Connection

    def hear(self, limit: float) -> Reply | None:
        """What it says, or None if it says nothing for so many seconds; EOFError if it has ended."""
        return self.pipe.recv() if self.pipe.poll(limit) else None

    def end(self, patience: float = 0.0) -> str:
        """The process is gone after this; how it went, in words."""
        self.pipe.close()  # it closes the environment and ends, if it is not busy
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        code = self.process.exitcode
        self.process.close()
        return _ending(code or 0)


@final
class Remote:
    """What is called of a `gymnasium.Env`, in another process. It knows its process, which may change after a failure.

    Args:
        recipe: a packed function without arguments that opens the environment.
        limit: how many seconds a call may take.
    """

    def __init__(self, recipe: bytes, limit: float) -> None:
        self._recipe, self._limit = recipe, limit
        self._child, spaces = _start(recipe)
        self.observation_space, self.action_space = spaces

    def reset(self, *, seed: int) -> object:
        """The environment's own answer."""
        return self._ask("reset", seed)

    def step(self, action: int) -> object:
        """The environment's own answer."""
        return self._ask("step", action)

    def close(self) -> None:
        """Close the environment and end its process; one that is asked again starts anew."""
        child, self._child = self._child, None
        if child is not None:
            child.end(FAREWELL)

    def _ask(self, name: str, argument: int) -> object:
        child = self._child = self._child or _start(self._recipe)[0]
        try:
            with suppress(ConnectionError):  # it has gone, and `hear` finds that out
                child.pipe.send((name, argument))
            reply = child.hear(self._limit)
        except (EOFError, ConnectionError):
            self._child = None
            raise _gone(child.end(FAREWELL)) from None
        except BaseException:  # Ctrl-C, for one: the next question must not get the answer to this one
            self._child = None
            child.end()
            raise
        if reply is None:
            self._child = None
            child.end()
            raise _late(self._limit)
        return _content(reply)


def remote(
    env: "Env[Any, Any] | str | Callable[[], Env[Any, Any]]", options: Mapping[str, object], limit: float
) -> Remote:
    """The environment with this name, or made by this function, in a process of its own."""
    check_maker(env, "with step_limit")
    packed("env", env)
    packed("options", dict(options))
    return Remote(packed("env", partial(open_env, env, dict(options))), limit)


def _start(recipe: bytes) -> tuple[Child, tuple[Any, Any]]:
    """A process with the environment, and its spaces of observations and actions."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs, recipe), daemon=True, name="bidual: environment")
    with theirs:
        process.start()
    child = Child(process, ours)
    try:
        reply = child.hear(ALLOWANCE)
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


def _refuse(reply: Reply | None) -> NoReturn:
    """There is no environment."""
    if reply is None:
        raise EnvError(f"the environment was not made within {ALLOWANCE:g} s: correct the function that makes it")
    if reply.kind == "refused":
        raise reply.content
    raise EnvError(f"the spaces of the environment cannot be sent to another process: {reply.content}")


def _content(reply: Reply) -> object:
    """The answer, or its lack as an exception."""
    if reply.kind == "answered":
        return reply.content
    if reply.kind == "raised":
        words, trace = reply.content
        error = Raised(words)
        error.add_note(f"In the process of the environment:\n{trace}")
        raise error
    raise Unanswered(
        f"gave an answer that cannot be sent to another process ({reply.content})",
        "Leave out of observation and info what cannot be pickled, or leave out step_limit",
    )


def _late(limit: float) -> Unanswered:
    return Unanswered(
        f"gave no answer within {limit:g} s",
        "Its process was killed, and the next episode starts a fresh one. Raise step_limit, or correct the environment",
    )


def _gone(ending: str) -> Unanswered:
    return Unanswered(
        f"gave no answer: the process of the environment {ending}",
        "The next episode starts a fresh one. Correct the environment; what it printed may say why",
    )


def _ending(code: int) -> str:
    """How a process ended. A negative code is the signal that killed it."""
    if code >= 0:
        return f"ended with exit code {code}"
    names = {int(one): one.name for one in signal.Signals}
    return f"ended with exit code {code} ({names.get(-code, 'a signal')})"


# In the other process


def _serve(pipe: Connection, recipe: bytes) -> None:
    """Make the environment, then answer until nobody is there to ask."""
    leave_with_parent()
    try:
        env = unpacked("env", recipe, partial)()
    except BidualError as error:
        pipe.send(Reply("refused", error))
        return
    _send(pipe, Reply("answered", (getattr(env, "observation_space", None), getattr(env, "action_space", None))))
    with suppress(EOFError, ConnectionError):
        while True:
            name, argument = pipe.recv()
            _send(pipe, _reply(env, name, argument))
    env.close()


def _reply(env: "Env[Any, Any]", name: str, argument: int) -> Reply:
    try:
        return Reply("answered", env.reset(seed=argument) if name == "reset" else env.step(argument))
    except Exception as error:
        return Reply("raised", (told(error), traceback.format_exc()))


def _send(pipe: Connection, reply: Reply) -> None:
    """Pickling comes before sending, so an answer that fails has not been sent in part."""
    try:
        pipe.send(reply)
    except ConnectionError:
        raise
    except Exception as error:
        pipe.send(Reply("unsendable", told(error)))
