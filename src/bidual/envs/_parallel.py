"""Episodes of one policy on several processes.

An episode depends on its policy and its draw alone, so it is the same wherever it is made, to the last bit.
"""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, final, runtime_checkable

import numpy as np
from jaxtyping import Bool

from bidual._errors import BidualError, EnvError, ModelError
from bidual._keys import Draw
from bidual._types import Episode
from bidual.envs._base import AbstractEnvironment, check_policy
from bidual.envs._gymnasium import GymnasiumEnvironment, gymnasium_environment
from bidual.envs._opening import check_count, check_maker
from bidual.envs._sending import packed, unpacked
from bidual.features import Observed
from bidual.policies import AbstractPolicy

if TYPE_CHECKING:
    from gymnasium import Env

MOST = 4  # environments that a worker keeps


@runtime_checkable
class Job(Protocol):
    """What is needed of a future."""

    def result(self) -> object:
        """What the function returned, once it has."""
        ...

    def cancel(self) -> object:
        """It is no longer needed."""
        ...


@runtime_checkable
class Submits(Protocol):
    """What is needed of an executor: `concurrent.futures`, and many that look like it."""

    def submit(self, fn: Callable[..., object], /, *args: object) -> Job:
        """Have a function called elsewhere."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Parallel(AbstractEnvironment):
    """A Gymnasium environment in this process, and the same one in every worker of an executor; made by `parallel`."""

    local: GymnasiumEnvironment
    executor: Submits = field(repr=False)
    workers: int
    _recipe: bytes = field(repr=False)  # how a worker makes the environment
    _signals: bytes = field(repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A), with the added state."""
        return self.local.shape

    @property
    def absorbing(self) -> Bool[np.ndarray, "S"]:
        """The added state, and no other."""
        return self.local.absorbing

    @property
    def allowed(self) -> Bool[np.ndarray, "S A"]:
        """Everything, but only action 0 in the added state."""
        return self.local.allowed

    def with_signals(self, observed: Sequence[tuple[str, Observed]]) -> "Parallel":
        """The same environment that tells other signals; their functions go to the workers."""
        return replace(self, local=self.local.with_signals(observed), _signals=_packed_signals(observed))

    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """One episode is not worth sending: it is made in this process."""
        return self.local.collect(policy, draw)

    def collect_many(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> list[Episode]:
        """Every worker makes its share. Where several fail, the first failure is told, as it would be one by one."""
        check_policy(policy, self.shape)
        if len(draws) < 2:
            return self.local.collect_many(policy, draws)
        sent, jobs = packed("the policy", policy), []
        try:
            for share in _shares(draws, self.workers):
                jobs.append(self.executor.submit(_play, self._recipe, self._signals, sent, share))
            return [episode for job in jobs for episode in cast("list[Episode]", job.result())]
        except BidualError:
            raise
        except Exception as error:  # an executor may raise anything
            raise _lost(error) from error
        finally:
            for job in jobs:
                job.cancel()

    def close(self) -> None:
        """Close the environment of this process; those of the workers go with their processes."""
        self.local.close()


def parallel(
    env: "str | Callable[[], Env[Any, Any]]",
    horizon: int,
    executor: Submits,
    observed: Sequence[tuple[str, Observed]] = (),
    *,
    workers: int,
    states: Callable[[Any], int] | None = None,
    num_states: int | None = None,
    options: Mapping[str, object] | None = None,
    step_limit: float | None = None,
) -> Parallel:
    """An environment to learn from, whose episodes are made by the workers of an executor, many at a time.

    They are the same as those of `gymnasium_environment`, to the last bit. Everything that goes to a worker must be
    picklable: functions must be those of a module, no lambdas.

    Args:
        env: the name of a Gymnasium environment, or a function without arguments that makes it.
        horizon: the number of steps H of an episode.
        executor: an executor as `concurrent.futures` has them, for instance ``bd.envs.processes(8)``; shut it down
            when done.
        observed: signals that only the environment can tell, with their names, as for `gymnasium_environment`.
        workers: into how many shares many episodes are divided, best as many as the executor has workers.
        states: a function from an observation to a state, as for `gymnasium_environment`.
        num_states: how many states that function knows.
        options: what ``gymnasium.make`` shall pass on to an environment given by name.
        step_limit: how many seconds a reset or a step may take, as for `gymnasium_environment`.
    """
    check_maker(env, "for parallel episodes")
    _check_executor(executor)
    for name, thing in (("env", env), ("states", states), ("options", options)):
        packed(name, thing)
    recipe = partial(
        gymnasium_environment,
        env,
        horizon,
        states=states,
        num_states=num_states,
        options=options,
        step_limit=step_limit,
    )
    count, signals, sent = check_count("workers", workers), _packed_signals(observed), packed("env", recipe)
    return Parallel(recipe().with_signals(observed), executor, count, sent, signals)


def _check_executor(executor: object) -> None:
    if not callable(getattr(executor, "submit", None)):
        raise ModelError(
            f"executor must have a submit, as those of concurrent.futures; got a {type(executor).__name__}. "
            "Make one with bd.envs.processes(workers)"
        )


def _packed_signals(observed: Sequence[tuple[str, Observed]]) -> bytes:
    for name, signal in observed:
        packed(f"signal {name!r}", signal)
    return packed("signals", tuple(observed))


def _shares(draws: Sequence[Draw], workers: int) -> Iterator[list[Draw]]:
    """The draws in order, in shares of nearly the same size, none of them empty."""
    count = min(workers, len(draws))
    ends = [len(draws) * i // count for i in range(count + 1)]
    return (list(draws[first:end]) for first, end in itertools.pairwise(ends))


def _lost(error: Exception) -> EnvError:
    """The executor has failed, not the environment, as far as can be told."""
    if isinstance(error, CancelledError):
        return EnvError("the executor has cancelled episodes, so they are missing: do not shut it down before the end")
    if isinstance(error, BrokenExecutor):
        return EnvError(
            f"a worker process has died, and its episodes with it ({error}). Its executor cannot go on: make a new "
            "one. If the environment crashes, step_limit shields the worker and names the step; a script must do its "
            'work under if __name__ == "__main__":, because workers import it'
        )
    return EnvError(
        f"the executor failed to run episodes: {type(error).__name__}: {error}. Give one that is open and has workers "
        "that can import bidual, for instance bd.envs.processes(workers)"
    )


# In the worker

# The environments of each thread, for they are not made to be shared; no answer depends on them.
_kept = threading.local()


def _play(recipe: bytes, signals: bytes, policy: bytes, draws: list[Draw]) -> list[Episode]:
    """A share of the episodes."""
    env = _environment(recipe).with_signals(unpacked("a signal", signals, tuple))
    return env.collect_many(unpacked("the policy", policy, AbstractPolicy), draws)


def _environment(recipe: bytes) -> GymnasiumEnvironment:
    """Made once, and kept. The oldest makes room for a new one."""
    known: dict[bytes, GymnasiumEnvironment] = _kept.__dict__.setdefault("known", {})
    if recipe not in known:
        while len(known) >= MOST:
            known.pop(next(iter(known))).close()
        known[recipe] = unpacked("env", recipe, partial)()
    return known[recipe]
