"""A restored state against the one before the first episode: whether a run of these settings can have come to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Float

from bidual._base.errors import BidualError, RunError
from bidual.certificate.bounds import Executed, Restarts
from bidual.learning.outputs import Sums
from bidual.learning.runs._episodes import check_episodes
from bidual.learning.state import LearnState
from bidual.models import AbstractKnowledge, ControlKnowledge, LatentKnowledge, find_fitted, is_refitted
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
    _check_knowledge(loop.knowledge, first.loop.knowledge, loop.episodes)
    count = loop.episodes - len(learn_state.pending)
    _check_executed(learn_state.executed, first.executed, count)
    _check_restarts(learn_state.restarts, first.executed, count)
    if learn_state.sums is not None and first.sums is not None:
        _check_sums(learn_state.sums, first.sums, count)
    values, none = learn_state.values_per_episode, first.values_per_episode
    if (values is None) != (none is None):
        raise ValueError("it has values of every episode, or has none, unlike its run")
    if values is not None and none is not None and not _is_like(values, (count, none.shape[1])):
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


def _check_knowledge(knowledge: AbstractKnowledge, first: AbstractKnowledge, episodes: int) -> None:
    """Check that what was declared is unchanged, and that counts are such."""
    if knowledge.pieces is not first.pieces or knowledge.horizon != first.horizon:
        raise ValueError("its features are not those of the problem")
    if isinstance(knowledge, ControlKnowledge):
        _check_regression(knowledge, first, episodes)
        return
    counted, start = knowledge.counted, first.counted
    assert counted is not None and start is not None  # noqa: PT018 - `_outline_state` has compared their kinds
    if counted.counts.episodes != episodes:
        raise ValueError(f"it counts {counted.counts.episodes} episodes of {episodes}")
    if isinstance(counted, LatentKnowledge):
        counted.check()
        return
    now, then = counted.counts.support, start.counts.support
    same = [(now.absorbing, then.absorbing), (now.allowed, then.allowed), (counted.initial, start.initial)]
    same += [] if then.open else [(now.states, then.states)]
    if now.open != then.open or not all(np.array_equal(one, other) for one, other in same):
        raise ValueError("its declarations are not those of the model")
    check_knowledge(counted)


def _check_regression(knowledge: ControlKnowledge, first: AbstractKnowledge, episodes: int) -> None:
    """Check sums of squares, first states and the range of what was seen."""
    moments, n, d = knowledge.moments, knowledge.shape[1], knowledge.phi.sizes[2]
    if not isinstance(first, ControlKnowledge) or any(
        getattr(knowledge, name) is not getattr(first, name) for name in ("declared", "features")
    ):
        raise ValueError("its declarations are not those of the model")
    _check_units(knowledge, first, episodes)
    shapes = ((moments.gram, (d, d)), (moments.cross, (n, d)), (moments.squares, (n,)))
    sums = all(_is_like(array, shape) for array, shape in shapes) and bool(np.all(moments.squares >= 0))
    if not (sums and np.allclose(moments.gram, moments.gram.T) and np.all(moments.gram.diagonal() >= 0)):
        raise ValueError("its sums of squares are none")
    steps = 0 <= moments.count <= episodes * knowledge.horizon
    if not (knowledge.episodes == episodes and 0 <= knowledge.broken <= episodes and steps):
        raise ValueError("it counts other episodes than it has")
    seen = all(_is_like(end, (n,)) or not episodes for end in knowledge.seen)
    if not (_is_like(knowledge.starts, (len(knowledge.starts), n)) and len(knowledge.starts) <= episodes and seen):
        raise ValueError("its first states are not those of its episodes")


def _check_units(knowledge: ControlKnowledge, first: ControlKnowledge, episodes: int) -> None:
    """Check the map of the regression, which is the first one but for units that are fitted to the first episodes."""
    fitted = find_fitted(first.declared.model_features) is not None
    if knowledge.phi is not first.phi and not (fitted and is_refitted(knowledge.phi, first.phi)):
        raise ValueError("its declarations are not those of the model")
    if knowledge.early is None:
        return
    (H, n, m), count = knowledge.shape, len(knowledge.early[0])
    shapes = ((count, n), (count, m), (count, n))
    fine = len(knowledge.early) == len(shapes) and all(map(_is_like, knowledge.early, shapes))
    if not (fitted and fine and count <= episodes * H):
        raise ValueError("its first transitions are not those of its episodes")


def _check_executed(executed: Executed, first: Executed, count: int) -> None:
    """Check the sums of values in parts of their intervals: each is at most a half, and each error at most 1."""
    intervals = ((getattr(executed.range, end), getattr(first.range, end)) for end in ("low", "high", "half", "scale"))
    if not all(np.array_equal(one, other) for one, other in intervals) or executed.count != count:
        raise ValueError("its values are not those of its episodes")
    fine = _is_like(executed.total, first.total.shape) and _is_like(executed.variation, first.total.shape)
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
    if (sums.count, sums.since) != (count, latest // 2) or not all(_is_like(part, first.whole.shape) for part in parts):
        raise ValueError("its sums of features are not those of its episodes")


def _is_like(array: Float[np.ndarray, "..."], shape: tuple[int, ...]) -> bool:
    """Return whether an array consists of finite numbers in double precision and has a shape."""
    return array.shape == shape and array.dtype == np.float64 and bool(np.isfinite(array).all())
