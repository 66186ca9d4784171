"""Shapes and arrays that every layer shares.

Letters in shapes: H steps, S states, A actions, K successors per row, d features, m constraint rows, k plans.
An axis named ``steps``, ``next`` or ``law`` has length 1 when the thing does not change with time, else H.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast, final

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.errors import BidualError

if TYPE_CHECKING:
    DeviceArray = Array  # as compiled code sees either
else:
    DeviceArray = Array | np.ndarray

_LARGE = 100_000  # entries of an array that are no small matter to copy

P = ParamSpec("P")
T = TypeVar("T")
Steps = TypeVar("Steps", np.ndarray, Array)


def float64(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` in double precision, whatever the caller's global JAX flag says.

    Plans in float32 would never close a gap of 1e-6, and a library must not flip its user's switches: so every
    function that touches JAX arrays sets the flag for itself and restores it.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        _check_process()
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapper


def float32(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` in single precision, likewise: for sampling, whose own error is far larger than rounding."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        _check_process()
        with jax.enable_x64(False):
            return function(*args, **kwargs)

    return wrapper


@cache
def _record_first_process() -> int:
    """Return the number of the process that computed first: the parent's in a process forked afterwards."""
    return os.getpid()


def _check_process() -> None:
    """Raise where JAX would wait for ever, for threads that a fork does not copy."""
    if _record_first_process() != os.getpid():
        raise BidualError(
            "this process was forked from one in which bidual had computed, and JAX hangs in such a process: tables "
            'and affine laws act here, but to compute start it with multiprocessing.get_context("spawn") or '
            '"forkserver", or fork before anything is computed'
        )


def place_on_device(array: np.ndarray) -> DeviceArray:
    """Put an array on the device of compiled code if it is large: small ones are faster passed with every call."""
    array = np.ascontiguousarray(array)
    if array.size <= _LARGE:
        return cast("Array", array)
    with jax.enable_x64(True):
        return jax.device_put(array)


def select_step(array: Steps, h: int | Int[Array, ""]) -> Steps:
    """Return entry `h` of a leading time axis that may have length 1 (the same at every step)."""
    return cast("Steps", array[0] if array.shape[0] == 1 else array[h])


def has_finite_doubles(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Return whether an array consists of finite numbers in double precision and has a shape."""
    return array.shape == shape and array.dtype == np.float64 and bool(np.isfinite(array).all())


@final
@dataclass(frozen=True, eq=False)
class Successors:
    """Transition law as lists: from (s, a) to ``states[..., k]`` with ``probabilities[..., k]``.

    Never a dense (S, A, S) array: at 100 000 states that would not fit in memory. A list may name a
    state twice or pad itself with probability 0.
    """

    states: Int[np.ndarray, "next S A K"]
    probabilities: Float[np.ndarray, "law S A K"]
    allowed: Bool[np.ndarray, "S A"]
    horizon: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return self.horizon, self.states.shape[1], self.states.shape[2]


@final
@dataclass(frozen=True, eq=False)
class Episode:
    """H steps of one policy in an environment: states with the last arrival, actions and observed signals."""

    __repr__ = describe_briefly

    states: Int[np.ndarray, "arrivals"]
    actions: Int[np.ndarray, "H"]
    observed: Float[np.ndarray, "H o"]  # the signals that only the environment knows; often there are none
    only: int | None = None  # the one step that is learned from, where that is not all of them
    observations: Float[np.ndarray, "arrivals D"] | None = None  # where states are decoded from them; 0 after the end
    controls: Float[np.ndarray, "H m"] | None = None  # where actions are vectors; states and actions are 0 then
    length: int | None = None  # steps before the end, where there are controls
    broken: bool = False  # whether the episode ended because a number was not finite
