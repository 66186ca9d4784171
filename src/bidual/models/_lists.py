"""Successor lists in the planner's order, as wide as pays, and what is beyond that width one by one.

Lists that are as long as the longest row make one row of 49 successors cost as much as 49 in every row. So the lists
are cut at the width K that minimises ``K * pairs + 3 * (entries beyond K)``: an entry by itself is read out of order,
which takes two to three times as long as one of a list.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from bidual._base.types import DeviceArray, select_step

_ALONE = 3.0  # the time for an entry by itself, in those of lists
_GAIN = 0.75  # cut lists are used where they take at most this share of the time


class Tail(NamedTuple):
    """The successors beyond the width of the lists, in the order of their cells, action * R + state."""

    cells: Int[DeviceArray, "n"]
    states: Int[DeviceArray, "n"]
    probabilities: Float[DeviceArray, "n"]


class Law(NamedTuple):
    """A law as lists of successors, and those that are beyond their width."""

    states: Int[DeviceArray, "next K A R"]
    probabilities: Float[DeviceArray, "law K A R"]
    tail: Tail | None


def cut_lists(
    states: Int[np.ndarray, "next K A R"],
    probabilities: Float[np.ndarray, "law K A R"],
    allowed: Bool[np.ndarray, "A R"],
) -> Law:
    """Cut lists of one law for all steps at the best width; others, and those with little padding, stay as they are."""
    whole = _as_law(states, probabilities)
    if len(states) > 1 or len(probabilities) > 1:
        return whole
    K = states.shape[1]
    present = (probabilities[0] > 0) & allowed
    times = _compute_times(present.sum(axis=0), K)
    width = int(np.argmin(times))
    if times[width] > _GAIN * times[K]:
        return whole
    # Successors first, in their order, and what pads them after those; the sort is stable.
    order = np.argsort(~present, axis=0, kind="stable")
    listed = np.take_along_axis(np.where(present, probabilities[0], 0.0), order, axis=0)
    targets = np.take_along_axis(states[0], order, axis=0)
    width = max(width, 1)
    rest = listed[width:].reshape(K - width, -1)
    cells, place = np.nonzero(rest.T)
    beyond = targets[width:].reshape(K - width, -1)
    tail = _as_tail(cells.astype(np.int32), beyond[place, cells], rest[place, cells]) if cells.size else None
    lists = [np.ascontiguousarray(part[None, :width]) for part in (targets, listed)]
    return _as_law(lists[0], lists[1], tail)


# NumPy's arrays, or JAX's: as the type checker sees them, laws have the latter.
def _as_law(states: Any, probabilities: Any, tail: Tail | None = None) -> Law:  # noqa: ANN401
    return Law(states, probabilities, tail)


def _as_tail(cells: Any, states: Any, probabilities: Any) -> Tail:  # noqa: ANN401
    return Tail(cells, states, probabilities)


def build_kernels(law: Law) -> tuple[sp.csr_array, ...]:
    """Build the law of every step, or the one law of all steps, as sparse (A R, R) matrices."""
    states, probabilities = np.asarray(law.states), np.asarray(law.probabilities)
    K, A, R = states.shape[1:]
    rows = np.arange(A * R + 1) * K
    # Copied, for the lists of a row are K apart in the planner's layout and side by side here.
    kernels: list[Any] = [
        sp.csr_array(
            (
                select_step(probabilities, h).reshape(K, A * R).T.ravel(),
                select_step(states, h).reshape(K, A * R).T.ravel(),
                rows,
            ),
            shape=(A * R, R),
        )
        for h in range(max(len(states), len(probabilities)))
    ]
    if law.tail is not None:
        places = (np.asarray(law.tail.cells), np.asarray(law.tail.states))
        beyond = sp.csr_array((np.asarray(law.tail.probabilities), places), shape=(A * R, R))
        kernels = [kernel + beyond for kernel in kernels]
    return tuple(_without_padding(kernel) for kernel in kernels)


def _without_padding(kernel: sp.csr_array) -> sp.csr_array:
    """Return a matrix without entries of 0 if they are many. It is copied: SciPy removes them in place."""
    if np.count_nonzero(kernel.data) >= _GAIN * kernel.nnz:
        return kernel
    kernel = kernel.copy()
    kernel.eliminate_zeros()
    return kernel


def _compute_times(counts: Int[np.ndarray, "A R"], K: int) -> Float[np.ndarray, "widths"]:
    """Compute the time of a pass for lists of every width from 0 to K; infinite for 0."""
    rows = np.bincount(counts.ravel(), minlength=K + 1)
    longer = rows.sum() - np.cumsum(rows)  # rows of more than k successors
    beyond = np.cumsum(longer[::-1])[::-1]  # their successors beyond k
    times = np.arange(K + 1) * float(counts.size) + _ALONE * beyond
    times[0] = np.inf
    return times
