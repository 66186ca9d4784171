"""The support: possible successors, declared for every state and action, declared for every state, or not at all.

Counts are kept on its lists. Where nothing is declared they hold the states observed to follow (by any action), they
grow, and every other state remains possible.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bidual._base.errors import EnvError, ModelError
from bidual.world.mdp import TabularMDP

NOBODY = -1  # padding of a list

SuccessorFunction = Callable[[int, int], Iterable[int]]  # of a state and an action
Declared = ArrayLike | TabularMDP | SuccessorFunction | None

_SMALL = 10**6  # entries of a table over (S, A, S) that are no burden


@final
@dataclass(frozen=True, eq=False)
class Support:
    """Successor lists without probabilities."""

    states: Int[np.ndarray, "S A K"]  # padded with NOBODY
    open: bool  # whether states outside a list are possible too
    absorbing: Bool[np.ndarray, "S"]
    allowed: Bool[np.ndarray, "S A"]

    @cached_property
    def sizes(self) -> Int[np.ndarray, "S A"]:
        """The length of each list."""
        return np.sum(self.states != NOBODY, axis=-1)

    @cached_property
    def unsure(self) -> Bool[np.ndarray, "S A"]:
        """Rows whose law has to be learned: an absorbing state or a single successor leaves nothing to learn."""
        return ~self.absorbing[:, None] & self.allowed & (self.open | (self.sizes > 1))

    @cached_property
    def possible(self) -> Int[np.ndarray, "S A"]:
        """The number of successors that each row may have."""
        return np.where(self.open & ~self.absorbing[:, None], len(self.states), self.sizes)

    @cached_property
    def filled(self) -> Int[np.ndarray, "S A K"]:
        """The lists with their first entry in place of padding, which changes no minimum over them."""
        first = np.maximum(self.states[..., :1], 0)
        return np.where(self.states == NOBODY, first, self.states)

    def listed(self, table: Float[np.ndarray, "law S A S"]) -> Float[np.ndarray, "law S A K"]:
        """Return the entries of a table over all states at the listed ones, 0 for padding."""
        places = np.broadcast_to(self.filled, (len(table), *self.filled.shape))
        return np.where(self.states == NOBODY, 0.0, np.take_along_axis(table, places, axis=-1))

    @cached_property
    def _places(self) -> Int[np.ndarray, "entries"] | None:
        """For small models, the place of every possible arrival: looking it up is faster than searching lists."""
        S, A, K = self.states.shape
        if S * A * S > _SMALL:
            return None
        places = np.full((S, A, S + 1), NOBODY)
        rows, columns = np.arange(S)[:, None, None], np.arange(A)[None, :, None]
        places[rows, columns, self.states] = np.arange(K)  # padding writes to the last column, which is never read
        return places.reshape(-1)

    def find(self, rows: Int[np.ndarray, "n"], arrivals: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """Find the places of arrivals in the lists of rows (s A + a); NOBODY for those outside."""
        if self._places is not None:
            return self._places[rows * (len(self.states) + 1) + arrivals]
        match = self.states.reshape(-1, self.states.shape[2])[rows] == arrivals[:, None]
        return np.where(match.any(axis=1), match.argmax(axis=1), NOBODY)

    def refuse(self, state: int, action: int, arrival: int) -> EnvError:
        """Return the error for a transition that was declared impossible."""
        if self.absorbing[state]:
            reason = f"state {state} was declared absorbing"
            remedy = "leave it out of absorbing=..."
        else:
            listed = self.states[state, action, : self.sizes[state, action]].tolist()
            reason = f"its declared successors are {listed}"
            remedy = "add it to the declared support, or declare none (support=None)"
        return EnvError(f"action {action} in state {state} led to state {arrival}, but {reason}: {remedy}")

    def with_pairs(self, states: Int[np.ndarray, "n"], arrivals: Int[np.ndarray, "n"]) -> "Support":
        """Append new arrivals to the lists, for all actions of a state."""
        lists = [row[row != NOBODY].tolist() for row in self.states[:, 0]]
        for state, arrival in zip(states.tolist(), arrivals.tolist(), strict=True):
            if arrival not in lists[state]:
                lists[state].append(arrival)
        # Powers of two, so that compiled code sees few shapes.
        width = max(self.states.shape[2], 1 << (max(map(len, lists)) - 1).bit_length())
        table = np.full((len(lists), width), NOBODY)
        for row, entries in zip(table, lists, strict=True):
            row[: len(entries)] = entries
        shape = (*self.states.shape[:2], width)
        return replace(self, states=np.array(np.broadcast_to(table[:, None], shape)))


def read_support(
    declared: "Declared",
    absorbing: Int[np.ndarray, "e"],
    allowed: Bool[np.ndarray, "S A"],
) -> Support:
    """Read the support in any form that `Tabular` accepts: a model, an array, a function, or None."""
    S, A = allowed.shape
    ends = np.isin(np.arange(S), absorbing)
    if declared is None:
        lists = np.full((S, A, 4), NOBODY)
    elif isinstance(declared, TabularMDP):
        lists = _list_model(declared, S, A)
    elif callable(declared):
        lists = _list_function(declared, allowed & ~ends[:, None])
    else:
        lists = _list_array(declared, S, A)
    if declared is not None and not np.all((lists != NOBODY).any(axis=-1) | ~allowed | ends[:, None]):
        s, a = np.argwhere((lists == NOBODY).all(axis=-1) & allowed & ~ends[:, None])[0].tolist()
        raise ModelError(f"support[{s}, {a}] lists no successor: every state and action needs at least one")
    lists[ends] = NOBODY
    lists[ends, :, 0] = np.flatnonzero(ends)[:, None]
    return Support(lists, declared is None, ends, allowed)


def read_absorbing(absorbing: Sequence[int] | Int[np.ndarray, "e"], S: int) -> Int[np.ndarray, "e"]:
    """Check the numbers of the absorbing states, and return them as an array."""
    numbers = np.asarray(absorbing).reshape(-1)
    if numbers.size and not np.issubdtype(numbers.dtype, np.integer):
        raise ModelError(f"absorbing must be state numbers, not a mask or anything else; got dtype {numbers.dtype}")
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < S):
        raise ModelError(f"absorbing names state {numbers[(numbers < 0) | (numbers >= S)][0]}: states are 0 to {S - 1}")
    return numbers.astype(np.int64)


def _list_model(mdp: TabularMDP, S: int, A: int) -> Int[np.ndarray, "S A K"]:
    """Return the successors of positive probability in a model, as lists."""
    lists = mdp.successors
    if lists.shape[1:] != (S, A):
        raise ModelError(
            f"the support is a model of {lists.shape[1:]} states and actions; the environment has {(S, A)}"
        )
    steps = max(lists.states.shape[0], lists.probabilities.shape[0])
    states = np.broadcast_to(lists.states, (steps, *lists.states.shape[1:]))
    found = np.where(lists.probabilities > 0, states, NOBODY)
    return _sort_lists(np.concatenate(list(found), axis=-1))


def _list_function(declared: SuccessorFunction, rows: Bool[np.ndarray, "S A"]) -> Int[np.ndarray, "S A K"]:
    """Call the function for every row, and check what it returns."""
    S, found = len(rows), {}
    for s, a in np.argwhere(rows).tolist():
        answer = declared(s, a)
        try:
            row = np.unique(np.array(list(answer)))
        except (TypeError, ValueError) as error:
            raise ModelError(f"support({s}, {a}) must return the next states, [0, 1]; got {answer!r:.80}") from error
        if not (row.size and np.issubdtype(row.dtype, np.integer) and row.min() >= 0 and row.max() < S):
            raise ModelError(
                f"support({s}, {a}) must return numbers of next states, at least one, from 0 to {S - 1}; "
                f"got {answer!r:.80}"
            )
        found[s, a] = row
    lists = np.full((*rows.shape, max(map(len, found.values()), default=1)), NOBODY)
    for place, row in found.items():
        lists[place][: len(row)] = row
    return lists


def _list_array(declared: ArrayLike, S: int, A: int) -> Int[np.ndarray, "S A K"]:
    """Return the declared lists as an array over states and actions; raise `ModelError` for others."""
    try:
        lists = np.asarray(declared)
    except ValueError as error:
        raise ModelError(f"support must be a rectangular array, short lists padded with -1: {error}") from error
    if not np.issubdtype(lists.dtype, np.integer) or lists.ndim not in (2, 3):
        raise ModelError(
            "support must be an integer array of next states, (S, A, K) or for all actions of a state (S, K), padded "
            f"with -1; got dtype {lists.dtype} and shape {lists.shape}"
        )
    lists = np.repeat(lists[:, None], A, axis=1) if lists.ndim == 2 else lists
    if lists.shape[:2] != (S, A):
        raise ModelError(f"support must be over (S, A) = {(S, A)}; got {lists.shape[:2]}")
    if lists.size and not (lists.min() >= NOBODY and lists.max() < S):
        s, a, k = np.argwhere((lists < NOBODY) | (lists >= S))[0].tolist()
        raise ModelError(f"support[{s}, {a}, {k}] is {lists[s, a, k]}: states are numbered 0 to {S - 1}, padding is -1")
    return _sort_lists(lists)


def _sort_lists(lists: Int[np.ndarray, "S A n"]) -> Int[np.ndarray, "S A K"]:
    """Sort lists and remove repetitions, with padding at the end, no longer than necessary."""
    last = np.iinfo(np.int64).max
    ordered = np.sort(np.where(lists == NOBODY, last, lists.astype(np.int64)), axis=-1)
    ordered[..., 1:][ordered[..., 1:] == ordered[..., :-1]] = last
    ordered = np.sort(ordered, axis=-1)
    width = max(1, int(np.sum(ordered != last, axis=-1).max()))
    return np.where(ordered == last, NOBODY, ordered)[..., :width]
