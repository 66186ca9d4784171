"""What a law makes possible at all: states that are reached, that end, and that every policy passes.

All of it is a matter of which successors have a positive probability, so it is exact. Each search removes or adds
states one frontier at a time, in time proportional to the number of successors.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int
from scipy.sparse.csgraph import connected_components

from bidual._base.types import Successors

States = Bool[np.ndarray, "S"]
Pairs = Bool[np.ndarray, "S A"]


def find_successors(lists: Successors) -> sp.csr_array:
    """Return the successors of every pair as a matrix (S A, S) with entries where the probability is positive."""
    S, A, K = lists.states.shape[1:]
    possible = lists.probabilities[0] > 0
    starts = np.concatenate([[0], np.cumsum(possible.reshape(S * A, K).sum(axis=1))])
    columns = lists.states[0][possible]
    matrix = sp.csr_array((np.ones(columns.size), columns, starts), shape=(S * A, S))
    matrix.sum_duplicates()  # lists may name a state twice, and SciPy's search for components does not end then
    return matrix


def reach(possible: sp.csr_array, pairs: Pairs, start: States) -> States:
    """Return the states that some of these pairs lead to from the start, which is among them."""
    S, A = pairs.shape
    seen, frontier = start.copy(), np.flatnonzero(start)
    while frontier.size:
        rows = (frontier[:, None] * A + np.arange(A))[pairs[frontier]]
        arrived = np.zeros(S, dtype=bool)
        arrived[possible[rows].indices] = True
        frontier = np.flatnonzero(arrived & ~seen)
        seen[frontier] = True
    return seen


def find_avoiders(possible: sp.csr_array, pairs: Pairs, ends: States) -> States:
    """Return the states from which some policy never arrives in the ends: the largest set that can keep to itself."""
    S, A = pairs.shape
    into = sp.csr_array(possible.T)
    kept, choices, open_pairs = ~ends, pairs.sum(axis=1), pairs.ravel().copy()
    frontier = np.flatnonzero(ends)
    while frontier.size:
        closed = np.unique(into[frontier].indices)
        closed = closed[open_pairs[closed]]
        open_pairs[closed] = False
        choices = choices - np.bincount(closed // A, minlength=S)
        frontier = np.flatnonzero(kept & (choices == 0))
        kept[frontier] = False
    return kept


def find_proper(possible: sp.csr_array, pairs: Pairs, ends: States) -> tuple[States, Pairs, Int[np.ndarray, "S"]]:
    """Return the states from which some policy arrives in the ends for certain, the pairs that it may take, and one."""
    S, A = pairs.shape
    into, safe = sp.csr_array(possible.T), np.ones(S, dtype=bool)
    while True:
        leaving = np.asarray(possible @ (~safe).astype(float)).reshape(S, A) > 0
        usable = pairs & ~leaving
        found, actions, frontier = ends & safe, np.argmax(usable, axis=1), np.flatnonzero(ends & safe)
        while frontier.size:
            rows = np.unique(into[frontier].indices)
            rows = rows[usable.ravel()[rows] & ~found[rows // A]]
            frontier, first = np.unique(rows // A, return_index=True)
            actions[frontier] = rows[first] % A
            found[frontier] = True
        if np.array_equal(found, safe):
            return safe, usable, actions
        safe = found


def find_recurrent(possible: sp.csr_array, pairs: Pairs, states: States) -> int | None:
    """Return one of these states that every policy passes again and again from everywhere; None where there is none.

    Such a state lies in every closed set that a policy can keep to. Candidates that can be avoided are dropped together
    with everything outside of a set in which they are avoided.
    """
    candidates = states.copy()
    while candidates.any():
        target = int(np.argmax(candidates))
        avoiding = find_avoiders(possible, pairs, np.arange(states.size) == target)
        if not avoiding.any():
            return target
        candidates &= _find_closed_class(possible, pairs, avoiding)
        candidates[target] = False
    return None


def _find_closed_class(possible: sp.csr_array, pairs: Pairs, kept: States) -> States:
    """Return a closed class of a policy that keeps to these states."""
    S, A = pairs.shape
    leaving = np.asarray(possible @ (~kept).astype(float)).reshape(S, A) > 0
    actions = np.argmax(pairs & ~leaving, axis=1)
    inside = np.flatnonzero(kept)
    chain = sp.csr_array(possible[inside * A + actions[inside]][:, inside])
    count, labels = connected_components(chain, directed=True, connection="strong")
    crossing = chain.tocoo()
    open_classes = np.zeros(count, dtype=bool)
    open_classes[labels[crossing.row[labels[crossing.row] != labels[crossing.col]]]] = True
    closed = np.flatnonzero(~open_classes)
    smallest = closed[np.argmin(np.bincount(labels, minlength=count)[closed])]
    found = np.zeros(S, dtype=bool)
    found[inside[labels == smallest]] = True
    return found
