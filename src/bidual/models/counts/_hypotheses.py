"""Declarations that the counts suggest, and the knowledge there would be were they declared.

Nothing here is certain: a successor that was never seen may exist, a signal may be more than it looked like. The user
knows; the counts only tell what is worth declaring.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from bidual.models.counts._counted import AbstractCounted
from bidual.models.counts._counts import Counts
from bidual.problem.features import Pieces

_MOST_ENTRIES = 10**6  # of an array over (S, A, S)
_ENOUGH = 10  # samples of a row whose frequencies are compared with a signal
_UNEXPLAINED = 0.1  # share of a signal's variation over the rows that values on arrival may leave
_RIDGE = 0.1  # against values of states that hardly follow any other


class Hypothesis(NamedTuple):
    """A declaration that agrees with all episodes so far, and the knowledge with it."""

    condition: str
    declaration: str  # the line of code
    knowledge: AbstractCounted


def suggest_declarations(knowledge: AbstractCounted, names: Sequence[str]) -> Iterator[Hypothesis]:
    """Yield the declarations that the counts suggest; `names` are those of the signals."""
    yield from _suggest_successors(knowledge)
    yield from _suggest_ends(knowledge, names)
    yield from _suggest_arrivals(knowledge, names)


def _suggest_successors(knowledge: AbstractCounted) -> Iterator[Hypothesis]:
    """Suggest to declare successors, as they were seen; a state that was never left follows itself."""
    support = knowledge.counts.support
    if not (support.open and knowledge.numbers_known):
        return
    states = support.states.copy()
    states[..., 0] = np.where(support.sizes == 0, np.arange(len(states))[:, None], states[..., 0])
    closed = replace(support, states=states, open=False)
    largest = int(closed.sizes[support.allowed].max())
    yield Hypothesis(
        f"states are followed by those seen to follow, at most {largest} of {len(states)}",
        "bd.models.Tabular(support=...)",
        knowledge.at(replace(knowledge.counts, support=closed)),
    )


def _suggest_ends(knowledge: AbstractCounted, names: Sequence[str]) -> Iterator[Hypothesis]:
    """Suggest `at_end` for observed signals that were 0 but in steps that ended an episode."""
    counts, pieces = knowledge.counts, knowledge.pieces
    ending = _find_ending(counts)
    for number, (position, one) in enumerate(pieces.observed):
        paying = counts.sums[..., number] != 0
        if one.at_end or not one.low <= 0 <= one.high or not paying.any() or np.any(paying & ~ending):
            continue
        observed = tuple(
            (place, replace(other, at_end=True) if place == position else other) for place, other in pieces.observed
        )
        name = names[position]
        yield Hypothesis(
            f"{name!r} is 0 but for steps that end an episode",
            f"{name}=bd.features.observed(f, {one.low:g}, {one.high:g}, at_end=True)",
            replace(knowledge, pieces=replace(pieces, observed=observed)),
        )


def _find_ending(counts: Counts) -> Bool[np.ndarray, "S A K"]:
    """Return which transitions of the lists end an episode."""
    absorbing = counts.support.absorbing
    return absorbing[counts.support.filled] & ~absorbing[:, None, None]


def _suggest_arrivals(knowledge: AbstractCounted, names: Sequence[str]) -> Iterator[Hypothesis]:
    """Suggest values on arrival for all arrays r(s, a) that look like their expectations."""
    counts, pieces, (_, S, A) = knowledge.counts, knowledge.pieces, knowledge.shape
    if len(pieces.stage) > 1 or S * A * S > _MOST_ENTRIES:
        return
    moving, found, suggested = ~_find_ends(counts), [], pieces
    for position, name in enumerate(names[: pieces.stage.shape[1]]):
        values = _fit_arrivals(counts, pieces.stage[0, position], moving)
        if values is not None:
            found.append(name)
            suggested = _move_to_arrivals(suggested, position, np.where(moving[:, None, None], values, 0.0))
    if found:
        yield Hypothesis(
            f"{' and '.join(map(repr, found))} are means of what the next state pays",
            ", ".join(f"{name}=r of shape (S, A, S)" for name in found),
            replace(knowledge, pieces=suggested),
        )


def _find_ends(counts: Counts) -> Bool[np.ndarray, "S"]:
    """Return the states that were entered and never left: nothing arrives any more where an episode stays for good."""
    here = np.arange(len(counts.starts))[:, None, None]
    away = np.where(counts.support.filled == here, 0.0, counts.pooled)
    return (counts.pooled.sum(axis=(1, 2)) > 0) & (away.sum(axis=(1, 2)) == 0)


def _move_to_arrivals(pieces: Pieces, position: int, values: Float[np.ndarray, "S #A S"]) -> Pieces:
    """Replace the array of one signal by values on arrival, but keep it where nothing arrives."""
    stage = pieces.stage.copy()
    _, _, S, A = stage.shape
    stage[:, position] = np.where(np.abs(values).sum(axis=(1, 2))[:, None] > 0, 0.0, stage[:, position])
    return replace(pieces, stage=stage, arrivals=(*pieces.arrivals, (position, np.broadcast_to(values, (1, S, A, S)))))


def _fit_arrivals(
    counts: Counts, signal: Float[np.ndarray, "S A"], moving: Bool[np.ndarray, "S"]
) -> Float[np.ndarray, "S"] | None:
    """Fit v with r(s, a) = sum over s' of P(s' | s, a) v(s') to the frequencies; None where a few explain too little.

    Frequencies are noisy and r is not, so that least squares would be attenuated: the covariance of the noise, known to
    be (diag p - p p') / n, is subtracted from the normal equations (Fuller 1987, section 2.2). A signal of the state
    alone needs no such reading.
    """
    n = counts.pooled.sum(axis=-1)
    rows = (n >= _ENOUGH) & moving[:, None]
    if np.all(signal == signal[:, :1]) or not rows.any():
        return None
    r, weight, S = signal[rows], n[rows], len(signal)
    p = np.zeros((len(r), S))
    np.add.at(p, (np.arange(len(r))[:, None], counts.support.filled[rows]), counts.pooled[rows] / weight[:, None])
    unbiased = (weight / (weight - 1))[:, None]
    noise = np.diag(np.sum(unbiased * p, axis=0)) - p.T @ (unbiased * p)
    if r.max() <= 0:
        values = _fit_arrivals(counts, -signal, moving) if r.min() < 0 else None
        return None if values is None else -values
    normal, sums, total = p.T @ (weight[:, None] * p) - noise, p.T @ (weight * r), float(weight @ r**2)
    return _select_arrivals(normal, sums, total, len(r), nonnegative=bool(r.min() >= 0))


def _select_arrivals(
    normal: Float[np.ndarray, "S S"], sums: Float[np.ndarray, "S"], total: float, rows: int, *, nonnegative: bool
) -> Float[np.ndarray, "S"] | None:
    """Choose arrivals one by one, the one that explains most first, until nearly all is explained."""
    values, chosen = np.zeros(len(sums)), list[int]()
    diagonal = np.maximum(np.diag(normal), 0.0) + 1.0  # at least one sample
    while len(chosen) < min(rows // 4, len(sums)):
        left = sums - normal @ values
        gains = np.where(left > 0 if nonnegative else True, left**2 / diagonal, 0.0)
        gains[chosen] = -1.0
        chosen.append(int(np.argmax(gains)))
        part = normal[np.ix_(chosen, chosen)] + _RIDGE * np.eye(len(chosen))
        values[chosen] = np.linalg.lstsq(part, sums[chosen], rcond=None)[0]
        values = np.maximum(values, 0.0) if nonnegative else values
        if abs(total - 2 * values @ sums + values @ normal @ values) <= _UNEXPLAINED * total:
            return values
    return None
