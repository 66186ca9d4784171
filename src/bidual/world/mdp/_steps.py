"""The steps that count under a criterion: what is left of a law once the steps that do not count are taken away.

Discounted, a step is followed by another that counts with probability `discount`. Until absorption, steps count in the
states before the end, and only pairs that a policy can take which is absorbed with probability 1. Averages are taken
between two visits of a state that every policy passes again and again. In all three cases a kernel with rows that sum
to at most 1 is left, whose powers vanish under the policies in question.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from bidual._base.errors import ModelError
from bidual._base.names import Names
from bidual._base.resolvent import EPS, Resolvent
from bidual._base.types import Successors
from bidual.problem.features import FeaturePart
from bidual.world.mdp._graphs import find_avoiders, find_proper, find_recurrent, find_successors, reach

_MOST = 1000  # improvements of a policy
_ROOM = 1e-6  # by which a number of steps is rounded up, to be proved row by row


class Steps(NamedTuple):
    """The steps that count; everything else about an unbounded time is derived from them."""

    kernel: sp.csr_array  # (S A, S)
    pairs: Bool[np.ndarray, "S A"]  # that the policies in question take in states that some of them reach
    start: Float[np.ndarray, "S"]  # where counting begins
    proper: Int[np.ndarray, "S"] | None = None  # actions of a policy that ends, where some policies do not
    anchor: int | None = None  # the state between whose visits averages are taken

    @property
    def live(self) -> Bool[np.ndarray, "S"]:
        """The states in which steps count."""
        return np.asarray(self.pairs.any(axis=1))


def discount_steps(lists: Successors, initial: Float[np.ndarray, "S"], discount: float) -> Steps:
    """Return the steps that count where each is followed by another one with probability `discount`."""
    return Steps(_build_kernel(lists, discount, lists.allowed), lists.allowed, initial)


def absorb_steps(lists: Successors, initial: Float[np.ndarray, "S"], ends: Bool[np.ndarray, "S"]) -> Steps:
    """Return the steps before the ends, of policies that arrive there with probability 1."""
    possible = find_successors(lists)
    proper, usable, actions = find_proper(possible, lists.allowed, ends)
    wrong = np.flatnonzero((initial > 0) & ~proper)
    if wrong.size:
        raise ModelError(
            f"from state {wrong[0]}, in which episodes begin, no policy is absorbed with probability 1"
            f"{'' if ends.any() else ': every state is left by some action'}. Name the states at which an episode "
            "ends, until=mask of shape (S,), or give a discount or a horizon"
        )
    usable = usable & ~ends[:, None]
    pairs = usable & reach(possible, usable, initial > 0)[:, None]
    endless = bool((find_avoiders(possible, pairs, ~np.asarray(pairs.any(axis=1)))).any())
    return Steps(_build_kernel(lists, 1.0, pairs), pairs, initial, proper=actions if endless else None)


def average_steps(lists: Successors, initial: Float[np.ndarray, "S"]) -> Steps:
    """Return the steps between two visits of a state that every policy passes again and again."""
    possible = find_successors(lists)
    reached = reach(possible, lists.allowed, initial > 0)
    pairs = lists.allowed & reached[:, None]
    anchor = find_recurrent(possible, pairs, reached)
    if anchor is None:
        raise ModelError(
            "no state is passed again and again by every policy, so that policies may end up in different places and "
            "their averages depend on chance (the model is not shown to be unichain). For such models no stationary "
            "policy need be optimal under limits: give a discount near 1, as discount=0.999, or a horizon"
        )
    kernel = _build_kernel(lists, 1.0, pairs).tocoo()
    away = kernel.col != anchor
    kernel = sp.csr_array((kernel.data[away], (kernel.row[away], kernel.col[away])), shape=kernel.shape)
    return Steps(kernel, pairs, np.eye(1, initial.size, anchor)[0], anchor=anchor)


def end_signals(
    signals: Float[np.ndarray, "1 d S A"],
    allowed: Bool[np.ndarray, "S A"],
    over: Bool[np.ndarray, "S"],
    ended: Bool[np.ndarray, "S"] | None,
    parts: tuple[FeaturePart, ...],
    names: Names,
) -> Float[np.ndarray, "1 d S A"]:
    """Return the signals with 0 in the states where an episode is over.

    Raise `ModelError` for a signal that goes on there, unless the state is one of those at which it ends as declared.
    """
    kept = over if ended is None else over & ~ended
    wrong = np.argwhere(np.any((signals[0] != 0) & allowed, axis=2) & kept)
    if wrong.size:
        number, state = (int(i) for i in wrong[0])
        signal_names = [part.name for part in parts if part.shape == ()]
        raise ModelError(
            f"signal {signal_names[number]!r} goes on for ever in {names.describe_state(state)}, which no action "
            "leaves: its total is infinite. Make it 0 there, and pay what is paid once on arrival "
            "(bd.features.on_arrival); or end the episode there, until=mask of shape (S,)"
        )
    return np.where(over[:, None], 0.0, signals)


def bound_steps(steps: Steps) -> float:
    """Bound the expected number of steps that count, whatever is done; infinite where some policies do not end.

    w(s) >= 1 + sum_k M_k(s, a) w(s'_k) for every pair proves it; the rows are checked with room for rounding.
    """
    if steps.proper is not None:
        return np.inf
    (S, A), live = steps.pairs.shape, steps.live
    first, w = np.arange(S) * A, np.zeros(S)
    chosen = np.argmax(steps.pairs, axis=1)
    for _ in range(_MOST):
        w = Resolvent(sp.csr_array(steps.kernel[first + chosen]))(live.astype(float), w)
        Q = np.where(steps.pairs, 1 + (steps.kernel @ w).reshape(S, A), -np.inf)
        better = Q.max(axis=1) > (w + 1e-9 * (1 + np.abs(w)))
        if not np.any(better & live):
            break
        chosen = np.where(better & live, Q.argmax(axis=1), chosen)
    w = np.where(live, w, 0.0) * (1 + _ROOM)
    rows = np.where(steps.pairs, w[:, None] - (steps.kernel @ w).reshape(S, A), np.inf)
    terms = int(np.diff(steps.kernel.indptr).max(initial=0)) + 4
    proved = w.min() >= 0 and rows.min() - 2 * terms * EPS * w.max() >= 1
    return float(steps.start @ w) * (1 + S * EPS) if proved else np.inf


def count_typical_steps(steps: Steps) -> float:
    """Return the expected number of steps under a policy that ends: a size for tolerances, and no bound."""
    S, A = steps.pairs.shape
    actions = np.argmax(steps.pairs, axis=1) if steps.proper is None else steps.proper
    chain = sp.csr_array(steps.kernel[np.arange(S) * A + actions])
    return max(1.0, float(steps.start @ Resolvent(chain)(steps.live.astype(float))))


def _build_kernel(lists: Successors, factor: float, pairs: Bool[np.ndarray, "S A"]) -> sp.csr_array:
    """Return `factor` times the law from these pairs into states that have some of them."""
    S, A, K = lists.states.shape[1:]
    live = np.asarray(pairs.any(axis=1))
    chances = factor * lists.probabilities[0]
    used = (chances > 0) & pairs[:, :, None] & live[lists.states[0]]
    starts = np.concatenate([[0], np.cumsum(used.reshape(S * A, K).sum(axis=1))])
    return sp.csr_array((chances[used], lists.states[0][used], starts), shape=(S * A, S))
