"""A restored state against the one before the first episode: whether a run of these settings can have come to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bidual._base.errors import BidualError, RunError
from bidual._base.types import has_finite_doubles
from bidual.certificate.bounds import Executed, Restarts
from bidual.learning.outputs import Sums
from bidual.learning.runs._episodes import check_episodes
from bidual.learning.state import LearnState
from bidual.storage import check_knowledge


@contextmanager
def blame_checkpoint(folder: Path | None) -> Iterator[None]:
    """Name the checkpoint where the first turn after it fails: what an explorer remembers is known to it alone."""
    try:
        yield
    except BidualError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if folder is None:
            raise
        raise RunError(
            f"the run in {folder} cannot go on from its last checkpoint ({type(error).__name__}: {error}). If explorer "
            f"and environment are those of then, it is damaged: 'bidual finish {folder}' uses what was learned"
        ) from error


def check_state(learn_state: LearnState, first: LearnState) -> None:
    """Check what is counted, summed and declared; raise `ValueError` where it does not fit together."""
    loop = learn_state.loop
    numbers = loop.episodes, learn_state.plans, learn_state.rounds, learn_state.spent, learn_state.seconds
    if not all(0 <= number < np.inf for number in numbers):
        raise ValueError("it has numbers of episodes, plans or seconds that are none")
    check_episodes(learn_state.pending, first.loop.knowledge)
    _check_met(learn_state)
    knowledge, start = loop.knowledge, first.loop.knowledge
    if knowledge.pieces is not start.pieces or knowledge.horizon != start.horizon:
        raise ValueError("its features are not those of the problem")
    knowledge.check_restored(start, loop.episodes, check_knowledge)
    count = loop.episodes - len(learn_state.pending)
    _check_executed(learn_state.executed, first.executed, count)
    _check_restarts(learn_state.restarts, first.executed, count)
    if learn_state.sums is not None and first.sums is not None:
        _check_sums(learn_state.sums, first.sums, count)
    values, none = learn_state.values_per_episode, first.values_per_episode
    if (values is None) != (none is None):
        raise ValueError("it has values of every episode, or has none, unlike its run")
    if values is not None and none is not None and not has_finite_doubles(values, (count, none.shape[1])):
        raise ValueError(f"it does not have the values of {count} episodes")
    if any(not 0 <= one.episodes <= loop.episodes for one in learn_state.history):
        raise ValueError("it has bounds after episodes that were never run")


def _check_met(learn_state: LearnState) -> None:
    """Check that observations are as many as the states that were counted, no more than declared, and different."""
    known, met = learn_state.loop.knowledge.counted, learn_state.met
    grows = known is not None and not known.numbers_known
    most, least = (known.shape[1] - 1, known.counts.count_met()) if known is not None and grows else (0, 0)
    if not least <= len(met) <= most or len(set(met)) < len(met):
        raise ValueError("it has other observations than those that were counted")


def _check_executed(executed: Executed, first: Executed, count: int) -> None:
    """Check the sums of values in parts of their intervals: each is at most a half, and each error at most 1."""
    intervals = ((getattr(executed.range, end), getattr(first.range, end)) for end in ("low", "high", "half", "scale"))
    if not all(np.array_equal(one, other) for one, other in intervals) or executed.count != count:
        raise ValueError("its values are not those of its episodes")
    fine = has_finite_doubles(executed.total, first.total.shape) and has_finite_doubles(
        executed.variation, first.total.shape
    )
    if not (fine and np.all(np.abs(executed.total) <= 0.5 * count + 1e-6) and np.all(executed.variation >= 0)):
        raise ValueError("its sums of values are none")


def _check_restarts(restarts: Restarts, first: Executed, count: int) -> None:
    """Check that they started at the last two powers of two."""
    latest = 1 << (count.bit_length() - 1) if count else 0
    if (restarts.count, restarts.since) != (count, latest // 2):
        raise ValueError("its last half is none of its episodes")
    _check_executed(restarts.current, first, count - restarts.since)
    _check_executed(restarts.following, first, count - latest)


def _check_sums(sums: Sums, first: Sums, count: int) -> None:
    latest = 1 << (count.bit_length() - 1) if count else 0
    parts = (sums.whole, sums.latest, sums.following)
    if (sums.count, sums.since) != (count, latest // 2) or not all(
        has_finite_doubles(part, first.whole.shape) for part in parts
    ):
        raise ValueError("its sums of features are not those of its episodes")
