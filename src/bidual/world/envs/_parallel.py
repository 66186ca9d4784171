"""Episodes of one policy on several processes.

An episode depends on its policy and its draw alone, so it is the same in every process, to the last bit.
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

from bidual._base.brief import describe_briefly
from bidual._base.errors import BidualError, EnvError, ModelError
from bidual._base.keys import Draw
from bidual._base.names import UNNAMED, Names
from bidual._base.types import Episode
from bidual.problem.features import Observed
from bidual.world.envs._base import AbstractEnvironment, check_numbering, check_policy
from bidual.world.envs._gymnasium import GymnasiumEnvironment, gymnasium_environment
from bidual.world.envs._opening import check_count, check_maker
from bidual.world.envs._sending import pack, unpack
from bidual.world.observations import Numbering
from bidual.world.policies import AbstractPolicy, MarkovPolicy

if TYPE_CHECKING:
    from gymnasium import Env

MOST = 4  # environments in the cache of a worker


@runtime_checkable
class Future(Protocol):
    """The part of a future that is used."""

    def result(self) -> object:
        """Wait for the value of the function, and return it."""
        ...

    def cancel(self) -> object:
        """Cancel the call if it has not started."""
        ...


@runtime_checkable
class Submits(Protocol):
    """The part of an executor that is used: `concurrent.futures`, and compatible ones."""

    def submit(self, fn: Callable[..., object], /, *args: object) -> Future:
        """Submit a function call."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Parallel(AbstractEnvironment):
    """A Gymnasium environment in this process and in every worker of an executor; constructed by `parallel`."""

    __repr__ = describe_briefly

    local: GymnasiumEnvironment
    executor: Submits = field(repr=False)
    workers: int
    _recipe: bytes = field(repr=False)  # the packed constructor of the environment, for workers
    _signals: bytes = field(repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A), with the added state."""
        return self.local.shape

    @property
    def absorbing(self) -> Bool[np.ndarray, "S"]:
        """A mask of the added state, and no other."""
        return self.local.absorbing

    @property
    def allowed(self) -> Bool[np.ndarray, "S A"]:
        """All actions, but only action 0 in the added state."""
        return self.local.allowed

    @property
    def simultaneous(self) -> int:
        """A few for every worker, because some episodes take longer than others."""
        return 4 * self.workers

    @property
    def numbering(self) -> Numbering:  # pyright: ignore[reportIncompatibleVariableOverride]: it grows
        """The numbering of observations so far."""
        return self.local.numbering

    @property
    def names(self) -> Names:  # pyright: ignore[reportIncompatibleVariableOverride]: it grows
        """The observations as names of their states."""
        return self.local.names

    def with_numbering(self, numbering: Numbering) -> "Parallel":
        """Return the same environment with a numbering of its own that begins as another does."""
        return replace(self, local=self.local.with_numbering(numbering))

    def with_signals(self, observed: Sequence[tuple[str, Observed]]) -> "Parallel":
        """Return the same environment with other observed signals; their functions go to the workers."""
        return replace(self, local=self.local.with_signals(observed), _signals=_pack_signals(observed))

    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """Run one episode in this process: it is not worth sending."""
        return self.local.collect(policy, draw)

    def collect_many(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> list[Episode]:
        """Run a share in every worker. Where several fail, the first failure is raised, as it would be one by one."""
        check_policy(policy, self.shape)
        if len(draws) < 2:
            return self.local.collect_many(policy, draws)
        check_numbering(policy, self.numbering)
        known = self.numbering.keys
        sent, jobs = pack("the policy", _strip_numbering(policy)), []
        try:
            for share in _split_draws(draws, self.workers):
                jobs.append(self.executor.submit(_play, self._recipe, self._signals, known, sent, share))
            shares = [cast("tuple[list[Episode], tuple[str, ...]]", job.result()) for job in jobs]
            return [episode for share in shares for episode in self._merge(*share, len(known))]
        except BidualError:
            raise
        except Exception as error:  # an executor may raise anything
            raise _explain_executor_error(error) from error
        finally:
            for job in jobs:
                job.cancel()

    def _merge(self, episodes: list[Episode], met: tuple[str, ...], known: int) -> list[Episode]:
        """Number what a worker has met beyond the first `known` observations as if it had been met here."""
        if not met:
            return episodes
        numbers = np.arange(self.shape[1])
        numbers[known : known + len(met)] = [self.local.book.add(key, "an episode of a worker") for key in met]
        return [replace(episode, states=numbers[episode.states].astype(episode.states.dtype)) for episode in episodes]

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
    states: Callable[[Any], Any] | None = None,
    num_states: int | None = None,
    states_limit: int | None = None,
    options: Mapping[str, object] | None = None,
    step_limit: float | None = None,
) -> Parallel:
    """Open an environment to learn from, with episodes run by the workers of an executor, many at a time.

    They are the same as those of `gymnasium_environment`, to the last bit. Everything that goes to a worker must be
    picklable: functions must be those of a module, no lambdas.

    Args:
        env: the name of a Gymnasium environment, or a function without arguments that constructs it.
        horizon: the number of steps H of an episode.
        executor: an executor as in `concurrent.futures`, for instance ``bd.envs.processes(8)``; shut it down
            when done.
        observed: signals that only the environment can compute, with their names, as for `gymnasium_environment`.
        workers: the number of shares of many episodes, best the number of workers of the executor.
        states: a function from an observation to a state, as for `gymnasium_environment`.
        num_states: the number of states of that function.
        states_limit: the number of different observations that can occur at most, as for `gymnasium_environment`.
        options: arguments of ``gymnasium.make`` for an environment given by name.
        step_limit: the most seconds of a reset or a step, as for `gymnasium_environment`.
    """
    check_maker(env, "for parallel episodes")
    _check_executor(executor)
    for name, thing in (("env", env), ("states", states), ("options", options)):
        pack(name, thing)
    recipe = partial(
        gymnasium_environment,
        env,
        horizon,
        states=states,
        num_states=num_states,
        states_limit=states_limit,
        options=options,
        step_limit=step_limit,
    )
    count, signals, sent = check_count("workers", workers), _pack_signals(observed), pack("env", recipe)
    return Parallel(recipe().with_signals(observed), executor, count, sent, signals)


def _check_executor(executor: object) -> None:
    if not callable(getattr(executor, "submit", None)):
        raise ModelError(
            f"executor must have a submit, as those of concurrent.futures; got a {type(executor).__name__}. "
            "Make one with bd.envs.processes(workers)"
        )


def _pack_signals(observed: Sequence[tuple[str, Observed]]) -> bytes:
    for name, signal in observed:
        pack(f"signal {name!r}", signal)
    return pack("signals", tuple(observed))


def _split_draws(draws: Sequence[Draw], workers: int) -> Iterator[list[Draw]]:
    """Split the draws in order into shares of nearly the same size, none of them empty."""
    count = min(workers, len(draws))
    ends = [len(draws) * i // count for i in range(count + 1)]
    return (list(draws[first:end]) for first, end in itertools.pairwise(ends))


def _explain_executor_error(error: Exception) -> EnvError:
    """Return the error for a failure of the executor, as far as it can be distinguished from the environment's."""
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

# The environments of each thread, for they are not thread-safe; no result depends on them.
_environments = threading.local()


def _play(
    recipe: bytes, signals: bytes, known: tuple[str, ...], policy: bytes, draws: list[Draw]
) -> tuple[list[Episode], tuple[str, ...]]:
    """Run a share of the episodes; return them with the observations that were met beyond those known before."""
    env = _get_environment(recipe).with_signals(unpack("a signal", signals, tuple))
    env = env.with_numbering(env.numbering.with_keys(known))
    episodes = env.collect_many(unpack("the policy", policy, AbstractPolicy), draws)
    return episodes, env.numbering.keys[len(known) :]


def _strip_numbering(policy: AbstractPolicy) -> AbstractPolicy:
    """Return a policy without its numbering: a worker has the same, and need not be sent it twice."""
    return replace(policy, names=UNNAMED, numbering=None) if isinstance(policy, MarkovPolicy) else policy


def _get_environment(recipe: bytes) -> GymnasiumEnvironment:
    """Return the environment from the cache, constructing it first; the oldest one is evicted."""
    known: dict[bytes, GymnasiumEnvironment] = _environments.__dict__.setdefault("known", {})
    if recipe not in known:
        while len(known) >= MOST:
            known.pop(next(iter(known))).close()
        known[recipe] = unpack("env", recipe, partial)()
    return known[recipe]
