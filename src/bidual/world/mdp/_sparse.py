"""Transitions as one sparse matrix (S, S) per action: checked row by row, turned into successor lists.

Nothing here is ever as large as (S, A, S).
"""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from bidual._base.errors import ModelError
from bidual._base.names import UNNAMED, Names

Matrix = sp.sparray | sp.spmatrix

ROW_TOLERANCE = 1e-9
PADDING = 64  # lists may be this many times longer than the matrices ...
ENTRIES = 2**27  # ... or hold this many entries (1.6 GB), whichever is more


def are_matrices(transitions: object) -> TypeGuard[Sequence[Matrix]]:
    """Return whether transitions are meant as one sparse matrix per action."""
    if sp.issparse(transitions):
        raise ModelError(
            "transitions is a single sparse matrix; a model needs one sparse matrix (S, S) per action: "
            "write [P] if there is only one action"
        )
    return isinstance(transitions, Sequence) and any(sp.issparse(matrix) for matrix in transitions)


def check_matrices(transitions: Sequence[object]) -> tuple[sp.csr_array, ...]:
    """Return copies in double precision with every successor listed once, all of the same shape (S, S)."""
    matrices = tuple(_check_kind(a, matrix) for a, matrix in enumerate(transitions))
    for a, matrix in enumerate(matrices):
        if matrix.shape != matrices[0].shape:
            raise ModelError(
                f"transitions[{a}] has shape {matrix.shape}, but transitions[0] has {matrices[0].shape}: "
                "every action needs a matrix over the same states"
            )
    return matrices


def list_matrices(
    matrices: tuple[sp.csr_array, ...], allowed: Bool[np.ndarray, "S A"], names: Names = UNNAMED
) -> tuple[Int[np.ndarray, "1 S A K"], Float[np.ndarray, "1 S A K"]]:
    """Build successor lists as long as the longest row; rows of actions that are not allowed are left out."""
    matrices = tuple(_drop_rows(matrix, ~allowed[:, a]) for a, matrix in enumerate(matrices))
    for a, matrix in enumerate(matrices):
        _check_entries(a, matrix)
    _check_sums(matrices, allowed, names)
    counts = np.stack([np.diff(matrix.indptr) for matrix in matrices], axis=1)
    width = _check_width(counts)
    states = np.zeros((1, *allowed.shape, width), dtype=np.int32)
    probabilities = np.zeros(states.shape)
    for a, matrix in enumerate(matrices):
        rows = _index_rows(matrix)
        place = np.arange(matrix.nnz) - matrix.indptr[rows]
        states[0, rows, a, place] = matrix.indices
        probabilities[0, rows, a, place] = matrix.data
    return states, probabilities


def _check_kind(action: int, matrix: object) -> sp.csr_array:
    """Return the matrix of an action in rows; raise `ModelError` where it is not sparse and square."""
    what = f"transitions[{action}]"
    if not sp.issparse(matrix):
        raise ModelError(
            f"{what} is a {type(matrix).__name__}, but others are sparse: give every action a sparse matrix (S, S), "
            f"for example scipy.sparse.csr_array({what})"
        )
    rows = sp.csr_array(matrix)
    shape = tuple(rows.shape or ())
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ModelError(f"{what} has shape {shape}; the matrix of an action must be square, (S, S)")
    if shape[0] == 0:
        raise ModelError(f"{what} has shape {shape}: at least one state is needed")
    if rows.dtype.kind not in "biuf":
        raise ModelError(f"{what} must hold real numbers; got dtype {rows.dtype}")
    copy = sp.csr_array(rows, dtype=np.float64, copy=True)
    copy.sum_duplicates()
    copy.eliminate_zeros()
    return copy


def _drop_rows(matrix: sp.csr_array, masked: Bool[np.ndarray, "S"]) -> sp.csr_array:
    if not masked.any():
        return matrix
    keep = np.where(masked[_index_rows(matrix)], 0.0, matrix.data)
    matrix = sp.csr_array((keep, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
    matrix.eliminate_zeros()
    return matrix


def _check_entries(action: int, matrix: sp.csr_array) -> None:
    wrong = np.flatnonzero(~np.isfinite(matrix.data) | (matrix.data < 0))
    if wrong.size:
        value = matrix.data[wrong[0]]
        rule = "probabilities cannot be negative" if value < 0 else "every entry must be a finite number"
        raise ModelError(
            f"transitions[{action}][{_index_rows(matrix)[wrong[0]]}, {matrix.indices[wrong[0]]}] is {value:g}: {rule}"
        )


def _check_sums(matrices: tuple[sp.csr_array, ...], allowed: Bool[np.ndarray, "S A"], names: Names) -> None:
    """Raise `ModelError` for a row that does not sum to 1."""
    sums = np.where(allowed, np.stack([matrix.sum(axis=1) for matrix in matrices], axis=1), 1.0)
    s, a = (int(i) for i in np.unravel_index(np.argmax(np.abs(sums - 1)), sums.shape))
    which = "" if names is UNNAMED else f" ({names.row(s, a)})"
    if sums[s, a] == 0:
        raise ModelError(
            f"row {s} of transitions[{a}]{which} is empty: state {s} needs a successor under action {a}, "
            "or a mask of actions=... that rules the action out there"
        )
    if abs(sums[s, a] - 1) > ROW_TOLERANCE:
        raise ModelError(
            f"row {s} of transitions[{a}]{which} sums to {sums[s, a]:.12g}, not 1 (the worst row). Rows are states, "
            "columns next states; use float64 and divide every row by its sum: "
            "scipy.sparse.diags_array(1 / np.ravel(P.sum(1))) @ P"
        )


def _check_width(counts: Int[np.ndarray, "S A"]) -> int:
    """Return the length of the longest row; raise where a few long rows would make all lists too long."""
    width = max(1, int(counts.max()))
    if counts.size * width > max(ENTRIES, PADDING * int(counts.sum())):
        s, a = (int(i) for i in np.unravel_index(np.argmax(counts), counts.shape))
        raise ModelError(
            f"row {s} of transitions[{a}] has {width} successors, and the lists of all {counts.size} rows are as long "
            f"as the longest: {12e-9 * counts.size * width:.0f} GB. Reach them in two steps through added states, "
            "or merge rare successors"
        )
    return width


def _index_rows(matrix: sp.csr_array) -> Int[np.ndarray, "entries"]:
    counts = np.diff(matrix.indptr)
    return np.repeat(np.arange(counts.size), counts)
