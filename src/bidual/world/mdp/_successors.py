"""Input of `TabularMDP`, checked with the place of every mistake and converted to successor lists."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._base.errors import ModelError
from bidual._base.names import UNNAMED, Names, are_names, read_names
from bidual._base.types import Successors
from bidual.world.mdp._sparse import ROW_TOLERANCE, Matrix, are_matrices, check_matrices, list_matrices

Transitions = ArrayLike | tuple[ArrayLike, ArrayLike] | Sequence[Matrix]


def check_transitions(
    transitions: Transitions, horizon: int | None, actions: ArrayLike | None, names: Names = UNNAMED
) -> Successors:
    """Check the law in any form that `TabularMDP` accepts, and return it as read-only successor lists."""
    horizon = _check_horizon(horizon)
    mask = None if actions is None else _read_array("actions", actions)
    states, probabilities = _to_lists(transitions, horizon, mask, names)
    allowed = _check_actions(mask, states.shape[1:3], names)
    states = _check_indices(states, allowed, names)
    probabilities = _check_rows(probabilities, allowed, names)
    return Successors(_freeze(states), _freeze(probabilities), _freeze(allowed), horizon)


def check_initial(initial: int | ArrayLike, size: int, names: Names = UNNAMED) -> Float[np.ndarray, "S"]:
    """Check a state index or a distribution over `size` states, and return the start law, read-only."""
    law = _read_array("initial", initial)
    if law.ndim == 0 and np.issubdtype(law.dtype, np.integer):
        if not 0 <= law < size:
            raise ModelError(f"initial state {int(law)} does not exist: states are numbered 0 to {size - 1}")
        return _freeze(np.eye(1, size, int(law))[0])
    law = _read_numbers("initial", initial)
    if law.shape != (size,):
        raise ModelError(
            f"initial must be a state index or a distribution of shape (S,) = ({size},); got shape {law.shape}"
        )
    if law.min() < 0:
        where = int(np.argmin(law))
        whose = "" if names.states is None else f", of {names.state(where)!r},"
        raise ModelError(f"initial[{where}]{whose} is {law.min():g}: probabilities cannot be negative")
    if abs(law.sum() - 1) > ROW_TOLERANCE:
        raise ModelError(f"initial sums to {law.sum():.12g}, not 1: divide it by its sum")
    return _freeze(law / law.sum())


def split_actions(
    states: object, actions: Sequence[str] | ArrayLike | None, allowed: ArrayLike | None
) -> tuple[Names, ArrayLike | None]:
    """Return the names, and the mask of the actions that states allow: `actions` may be either."""
    if are_names(actions):
        return read_names(states, actions), allowed
    if actions is not None and allowed is not None:
        raise ModelError("actions and allowed are both a mask: give the mask as allowed, and names as actions")
    return read_names(states, None), allowed if actions is None else actions


def end_episodes(lists: Successors, until: object) -> tuple[Successors, Bool[np.ndarray, "S"] | None]:
    """Return the law with rows that stay in the states of a mask, and the mask, checked; None where there is none."""
    if until is None or (isinstance(until, str) and until == "absorbed"):
        return lists, None
    size = lists.states.shape[1]
    ended = _read_array("until", until)
    if ended.shape != (size,) or ended.dtype != np.bool_:
        raise ModelError(
            f'until is "absorbed" or a boolean mask of shape (S,) = ({size},); got {ended.dtype} of shape {ended.shape}'
        )
    states, probabilities = lists.states.copy(), lists.probabilities.copy()
    states[:, ended] = np.flatnonzero(ended)[:, None, None]
    probabilities[:, ended] = np.eye(1, probabilities.shape[-1])[0]
    return Successors(_freeze(states), _freeze(probabilities), lists.allowed, lists.horizon), ended


def _check_horizon(horizon: object) -> int:
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ModelError(f"horizon must be a whole number of steps, at least 1; got {horizon!r}")
    return int(horizon)


def _to_lists(
    transitions: Transitions, horizon: int, mask: np.ndarray | None, names: Names
) -> tuple[Int[np.ndarray, "next S A K"], Float[np.ndarray, "law S A K"]]:
    """Return transitions of any form as successor lists."""
    if are_matrices(transitions):
        matrices = check_matrices(transitions)
        return list_matrices(matrices, _check_actions(mask, (matrices[0].indptr.size - 1, len(matrices)), names), names)
    if isinstance(transitions, tuple):
        if len(transitions) != 2:
            raise ModelError(
                f"successor lists are a pair (next_states, probabilities); got a tuple of {len(transitions)}"
            )
        states, probabilities = (
            _read_array("next_states", transitions[0]),
            _read_numbers("probabilities", transitions[1], mask),
        )
        if not np.issubdtype(states.dtype, np.integer):
            raise ModelError(f"next_states must hold integers (state indices); got dtype {states.dtype}")
        states = _add_step_axis("next_states", states, horizon)
        probabilities = _add_step_axis("probabilities", probabilities, horizon)
        if states.shape[1:] != probabilities.shape[1:]:
            raise ModelError(
                "next_states and probabilities must have the same (S, A, K); "
                f"got {states.shape[1:]} and {probabilities.shape[1:]}"
            )
        return states, probabilities
    dense = _add_step_axis("transitions", _read_numbers("transitions", transitions, mask), horizon)
    if dense.shape[1] != dense.shape[3]:
        raise ModelError(
            f"dense transitions must have shape (S, A, S) or (H, S, A, S): S differs in {dense.shape[-3:]}; "
            "for successor lists give the pair (next_states, probabilities)"
        )
    return _sparsify(dense)


def _read_array(what: str, value: object) -> np.ndarray:
    try:
        return np.array(value)
    except ValueError as error:
        raise ModelError(f"{what} must be a rectangular array: {error}") from error


def _read_numbers(what: str, value: object, mask: np.ndarray | None = None) -> Float[np.ndarray, "..."]:
    """Read finite numbers in double precision; rows that a mask of actions (S, A) rules out become 0."""
    array = _read_array(what, value)
    if array.dtype.kind not in "biuf":
        raise ModelError(f"{what} must be an array of real numbers; got dtype {array.dtype}")
    array = array.astype(np.float64)
    if mask is not None and mask.dtype == np.bool_ and array.shape[-3:-1] == mask.shape:
        array[..., ~mask, :] = 0.0
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ModelError(f"{what}{list(where)} is {array[where]}: every entry must be a finite number")
    return array


def _add_step_axis(what: str, array: np.ndarray, horizon: int) -> np.ndarray:
    """Return an array with a leading axis of steps, of length 1 for one law."""
    if array.ndim == 3:
        array = array[None]
    elif array.ndim != 4:
        raise ModelError(f"{what} must have 3 axes (S, A, S), or 4 with one law per step; got shape {array.shape}")
    elif array.shape[0] != horizon:
        raise ModelError(f"{what} has {array.shape[0]} steps on its first axis, but the horizon is {horizon}")
    if 0 in array.shape:
        raise ModelError(
            f"{what} has an empty axis (shape {array.shape}): at least one state, action and successor are needed"
        )
    return array


def _sparsify(
    dense: Float[np.ndarray, "steps S A S"],
) -> tuple[Int[np.ndarray, "steps S A K"], Float[np.ndarray, "steps S A K"]]:
    width = max(1, int(np.count_nonzero(dense, axis=-1).max()))
    # A stable sort of "is zero" lists the non-zero successors first, in order of their index.
    states = np.argsort(dense == 0, axis=-1, kind="stable")[..., :width]
    return states, np.take_along_axis(dense, states, axis=-1)


def _check_actions(mask: np.ndarray | None, shape: tuple[int, ...], names: Names) -> Bool[np.ndarray, "S A"]:
    """Return the mask of allowed actions, by default all."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    if mask.shape != shape or mask.dtype != np.bool_:
        raise ModelError(
            f"actions must be a boolean mask of shape (S, A) = {shape}, or names of the actions; got {mask.dtype} of "
            f"shape {mask.shape}"
        )
    if not mask.any(axis=1).all():
        state = names.describe_state(int(np.argmin(mask.any(axis=1))))
        raise ModelError(f"{state} allows no action: every state needs one")
    return mask


def _check_indices(
    states: Int[np.ndarray, "next S A K"], allowed: Bool[np.ndarray, "S A"], names: Names
) -> Int[np.ndarray, "next S A K"]:
    """Return the next states, harmless where no action is allowed; raise `ModelError` beyond the states."""
    size = states.shape[1]
    states = np.where(allowed[:, :, None], states, 0)
    if states.min() < 0 or states.max() >= size:
        wrong = np.argwhere((states < 0) | (states >= size))[0]
        h, s, a, k = (int(i) for i in wrong)
        step = f" at step {h}" if states.shape[0] > 1 else ""
        raise ModelError(
            f"next_states of {names.row(s, a)}{step}: entry {k} is {states[h, s, a, k]}, "
            f"but states are numbered 0 to {size - 1}"
        )
    return states.astype(np.int32)


def _check_rows(
    probabilities: Float[np.ndarray, "law S A K"], allowed: Bool[np.ndarray, "S A"], names: Names
) -> Float[np.ndarray, "law S A K"]:
    """Return the probabilities, each row a law; raise `ModelError` for others."""
    # Rows of actions that are not allowed are never used; make them harmless.
    probabilities = np.where(allowed[:, :, None], probabilities, 1.0 / probabilities.shape[-1])
    if probabilities.min() < 0:
        h, s, a, k = (int(i) for i in np.argwhere(probabilities < 0)[0])
        row = _name_row(probabilities, names, h, s, a)
        raise ModelError(
            f"negative probability {probabilities[h, s, a, k]:g} in {row} (entry {k}): probabilities are at least 0"
        )
    sums = probabilities.sum(axis=-1)
    if np.abs(sums - 1).max() > ROW_TOLERANCE:
        h, s, a = (int(i) for i in np.unravel_index(np.argmax(np.abs(sums - 1)), sums.shape))
        raise ModelError(
            f"the probabilities of {_name_row(probabilities, names, h, s, a)} sum to {sums[h, s, a]:.12g}, not 1 "
            "(the worst row). Use float64 and divide by the row sums: P / P.sum(-1, keepdims=True)"
        )
    return probabilities / sums[..., None]


def _name_row(probabilities: np.ndarray, names: Names, h: int, s: int, a: int) -> str:
    return names.row(s, a) + (f", step {h}" if probabilities.shape[0] > 1 else "")


def _freeze(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
