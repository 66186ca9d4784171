"""Signals over a known model: arrays, or functions of the transitions of the environment that it was read from."""

from collections.abc import Callable

from numpy.typing import ArrayLike

from bidual._base.errors import ModelError
from bidual.problem import features
from bidual.problem.features import AbstractFeatures, Arrival, Observed, concat, signals
from bidual.world.mdp._toy_text import Table, Transition

Signal = ArrayLike | Arrival | Callable[[Transition], float]


def to_array(name: str, signal: Signal, table: Table | None, shape: tuple[int, int, int]) -> ArrayLike | Arrival:
    """Return a signal as an array over the states of a model."""
    if not callable(signal):
        return signal if table is None else _add_end(name, signal, table, shape)
    if table is None:
        raise ModelError(
            f"signal {name!r} is a function; this model needs it as an array over (S, A): "
            "only models made by from_gymnasium know the transitions to call it with"
        )
    return table.signal(name, signal)


def _add_end(name: str, signal: ArrayLike | Arrival, table: Table, shape: tuple[int, int, int]) -> ArrayLike | Arrival:
    """Extend an array over the environment's own states to the one that was added."""
    (extended,) = signals(**{name: signal}).with_end(shape).arrays
    if not isinstance(extended, Observed):
        return extended
    function = extended.function
    return table.signal(name, lambda t: function(t.state, t.action, t.next_state))


def make_features(
    shape: tuple[int, int, int], *, visits: bool, occupancy: bool, named: dict[str, ArrayLike | Arrival]
) -> AbstractFeatures:
    """Build the feature map of signals, visits and occupancies over a model."""
    for name, flag in (("visits", visits), ("occupancy", occupancy)):
        if not isinstance(flag, bool):
            raise ModelError(f"{name} is True or False, not a signal: the embedding adds the part x.{name} itself")
    _, S, A = shape
    members = [signals(**named)] if named or not (visits or occupancy) else []
    members += [features.visits(S)] if visits else []
    members += [features.occupancy(S, A)] if occupancy else []
    return concat(*members)
