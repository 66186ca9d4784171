"""Named scalar signals (rewards, costs, indicators) given as arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bidual._base.brief import describe_briefly
from bidual._base.errors import ModelError
from bidual._base.types import Successors, select_step
from bidual.problem.features._base import AbstractFeatures, FeaturePart, Observed, Pieces, Psi


@final
@dataclass(frozen=True, eq=False)
class Arrival:
    """An array explicitly marked as paid on arrival; constructed by `on_arrival`."""

    __repr__ = describe_briefly

    values: Float[np.ndarray, "..."]


@final
@dataclass(frozen=True, eq=False)
class ArrivalTable:
    """Values (S, A, S) over an environment's own states: its value at a step has the state arrived in, ended or not."""

    values: Float[np.ndarray, "S A S"]

    def __call__(self, state: int, action: int, next_state: int) -> float:
        """Return the value of a transition."""
        return float(self.values[state, action, next_state])


@final
@dataclass(frozen=True, eq=False)
class Signals(AbstractFeatures):
    """One feature per named signal."""

    __repr__ = describe_briefly

    names: tuple[str, ...]
    arrays: tuple[Arrival | Observed | Float[np.ndarray, "..."], ...]

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """One part per signal."""
        return tuple(FeaturePart(name, position) for position, name in enumerate(self.names))

    @property
    def observed(self) -> tuple[tuple[str, Observed], ...]:
        """The signals given as functions."""
        pairs = zip(self.names, self.arrays, strict=True)
        return tuple((name, array) for name, array in pairs if isinstance(array, Observed))

    def stage(self, successors: Successors) -> Psi:
        """Compute the expectation of every signal given (step, state, action)."""
        staged = [_place_stage(name, array, successors) for name, array in zip(self.names, self.arrays, strict=True)]
        steps = max(signal.shape[0] for signal in staged)
        return Psi(np.stack([np.broadcast_to(s, (steps, *s.shape[1:])) for s in staged], axis=1))

    def with_end(self, shape: tuple[int, int, int]) -> "Signals":
        """Return the signals with arrays over the states before the last padded by 0, or read as steps are made."""
        pairs = zip(self.names, self.arrays, strict=True)
        return Signals(self.names, tuple(_add_end(name, array, shape) for name, array in pairs))

    def pieces(self, shape: tuple[int, int, int]) -> Pieces:
        """Sort the signals into arrays over (state, action), arrays paid on arrival, and functions."""
        placed = [_place(name, array, shape) for name, array in zip(self.names, self.arrays, strict=True)]
        stage = [one if kind is None else np.zeros((1, *shape[1:])) for one, kind in placed]
        steps = max(signal.shape[0] for signal in stage)
        return Pieces(
            np.stack([np.broadcast_to(s, (steps, *s.shape[1:])) for s in stage], axis=1),
            tuple((i, one) for i, (one, kind) in enumerate(placed) if kind is Arrival),
            tuple((i, one) for i, (one, kind) in enumerate(placed) if kind is Observed),
        )


def signals(**named: ArrayLike | Arrival | Observed | Callable[..., float]) -> Signals:
    """Declare named signals as features.

    Args:
        **named: for each name an array of shape (S,) or (S, A); (H, S, A) for a signal that changes with the
            step; (S, A, S) or (H, S, A, S) for one that is paid on arrival in the next state. Where an environment is
            learned also a function, of the four arguments ``obs, action, next_obs, info`` or of one transition with
            these and ``reward`` and ``terminated``: its values must lie in [0, 1], or in what `observed` declares.
            Arrays for an environment are over its own states: one is added for ended episodes, with signals 0.
    """
    if not named:
        raise ModelError("signals() needs at least one named array, for example signals(reward=r, cost=c)")
    return Signals(tuple(named), tuple(_read_signal(name, array) for name, array in named.items()))


def observed(
    function: Callable[..., float],
    low: float = 0.0,
    high: float = 1.0,
    *,
    noisy: bool = False,
    at_end: bool = False,
) -> Observed:
    """Declare a signal of an environment, with its bounds and structure.

    Args:
        function: of one transition, or of the four arguments obs, action, next_obs, info.
        low: a lower bound of its values; a value outside is an error.
        high: an upper bound, likewise.
        noisy: the same transition may show different values, drawn independently with one mean; otherwise the signal
            is taken for a function of the transition, and no bound is claimed once data refute that.
        at_end: it is 0 but for the step that terminates an episode, like a prize for reaching a goal; a value elsewhere
            is an error. A reward that can be earned once is then not counted optimistically at every step.
    """
    if not callable(function):
        raise ModelError(f"observed() needs a function of a transition; got {function!r}")
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ModelError(f"a signal needs finite bounds low <= high; got [{low}, {high}]")
    return Observed(function, float(low), float(high), noisy, at_end)


def on_arrival(values: ArrayLike) -> Arrival:
    """Mark an array (S, A, S) as paid on arrival, where its shape could also be read as (H, S, A)."""
    return Arrival(_copy_numbers("on_arrival", values))


def _read_signal(
    name: str, array: ArrayLike | Arrival | Observed | Callable[..., float]
) -> Arrival | Observed | Float[np.ndarray, "..."]:
    """Return a signal as a checked array, or as it was declared; a function is an observed signal."""
    if isinstance(array, Observed):
        return array
    if callable(array):
        return observed(array)
    values = array.values if isinstance(array, Arrival) else _copy_numbers(f"signal {name!r}", array)
    if not np.all(np.isfinite(values)):
        where = [int(i) for i in np.argwhere(~np.isfinite(values))[0]]
        raise ModelError(f"signal {name!r} is {values[tuple(where)]} at {where}: every entry must be finite")
    return Arrival(values) if isinstance(array, Arrival) else values


def _copy_numbers(what: str, array: ArrayLike) -> Float[np.ndarray, "..."]:
    """Copy to double precision, so that later changes by the caller have no effect."""
    try:
        if np.iscomplexobj(array):
            raise ValueError("it is complex")
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be an array of real numbers: {error}") from error


def _add_end(
    name: str, signal: Arrival | Observed | Float[np.ndarray, "..."], shape: tuple[int, int, int]
) -> Arrival | Observed | Float[np.ndarray, "..."]:
    """Extend a signal over an environment's own states to the one that was added for ended episodes.

    One that is paid on arrival becomes a signal of the steps: in the added state one cannot see where they arrived.
    """
    if isinstance(signal, Observed):
        return signal
    (H, S, A), marked = shape, isinstance(signal, Arrival)
    own, values = S - 1, signal.values if isinstance(signal, Arrival) else signal
    if values.shape in ((S,), (S, A), (H, S, A), (S, A, S), (H, S, A, S)):
        return signal
    by_step, by_arrival = values.shape == (H, own, A) and not marked, values.shape == (own, A, own)
    if by_step and by_arrival:
        raise _ambiguous(name, values.shape)
    if by_arrival:
        return Observed(ArrivalTable(values), float(values.min()), float(values.max()))
    if by_step or (values.shape in ((own,), (own, A)) and not marked):
        place = 1 if by_step else 0
        return np.pad(values, [(0, int(axis == place)) for axis in range(values.ndim)])
    raise ModelError(
        f"signal {name!r} has shape {values.shape}; with H = {H}, S = {own} states of its own, A = {A} "
        f"it must be (S,) = {(own,)}, (S, A) = {(own, A)}, (H, S, A) = {(H, own, A)} or, paid on arrival, "
        f"(S, A, S) = {(own, A, own)}; or as many states more as are added at the end, one"
    )


def _ambiguous(name: str, shape: tuple[int, ...]) -> ModelError:
    return ModelError(
        f"signal {name!r} of shape {shape} could mean (H, S, A) or (S, A, S) because H = S = A: "
        "write bd.features.on_arrival(array) for the latter, or give (H, S, A, S) or (S, A)"
    )


def _place_stage(
    name: str, array: Arrival | Observed | np.ndarray, successors: Successors
) -> Float[np.ndarray, "steps S A"]:
    if isinstance(array, Observed):
        raise ModelError(f"signal {name!r} is a function; a known model needs it as an array over (S, A)")
    placed, kind = _place(name, array, successors.shape)
    return placed if kind is None else _expect_arrival(placed, successors)


def _place(
    name: str, array: Arrival | Observed | np.ndarray, shape: tuple[int, int, int]
) -> tuple[Any, type[Arrival] | type[Observed] | None]:
    """Add a time axis to a signal, and return whether it is paid on arrival or observed."""
    H, S, A = shape
    if isinstance(array, Observed):
        return array, Observed
    if isinstance(array, Arrival):
        return _check_arrival(name, array.values, shape), Arrival
    by_step, by_arrival = array.shape == (H, S, A), array.shape == (S, A, S)
    if by_step and by_arrival:
        raise _ambiguous(name, array.shape)
    if array.shape == (S,):
        return np.broadcast_to(array[None, :, None], (1, S, A)), None
    if array.shape == (S, A):
        return array[None], None
    if by_step:
        return array, None
    if by_arrival or array.shape == (H, S, A, S):
        return _check_arrival(name, array, shape), Arrival
    raise ModelError(
        f"signal {name!r} has shape {array.shape}; with H = {H}, S = {S}, A = {A} it must be (S,) = {(S,)}, "
        f"(S, A) = {(S, A)}, (H, S, A) = {(H, S, A)} or, paid on arrival, (S, A, S) = {(S, A, S)}"
    )


def _check_arrival(name: str, values: np.ndarray, shape: tuple[int, int, int]) -> Float[np.ndarray, "steps S A S"]:
    H, S, A = shape
    values = values[None] if values.ndim == 3 else values
    if values.shape[1:] != (S, A, S) or values.shape[0] not in (1, H):
        raise ModelError(
            f"signal {name!r} is paid on arrival and must have shape (S, A, S) = {(S, A, S)}; got {values.shape}"
        )
    return values


def _expect_arrival(values: Float[np.ndarray, "next S A S"], successors: Successors) -> Float[np.ndarray, "steps S A"]:
    """Return E[r(s, a, s')] over the known successors."""
    steps = max(values.shape[0], successors.states.shape[0], successors.probabilities.shape[0])
    expected = [
        np.sum(
            select_step(successors.probabilities, h)
            * np.take_along_axis(select_step(values, h), select_step(successors.states, h), axis=-1),
            axis=-1,
        )
        for h in range(steps)
    ]
    return np.where(successors.allowed, np.stack(expected), 0.0)
