"""Counts: numbers of transitions and of first states, and sums of observed signals.

Counts are shared over the steps of an episode, or kept for each step. A law that does not
change with the step is an assumption worth a great deal (the same episodes give H times as many samples of a row).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.types import Episode
from bidual.models.counts._support import NOBODY, Support

_SAME = 1e-9  # observed values closer than this, relative to 1, are one value


@final
@dataclass(frozen=True, eq=False)
class Counts:
    """Numbers of transitions on the lists of a support, and sums of observed signals."""

    support: Support
    transitions: Float[np.ndarray, "law S A K"]
    pairs: Float[np.ndarray, "law S A"]  # number of times each action was taken in each state
    starts: Float[np.ndarray, "S"]
    episodes: int
    sums: Float[np.ndarray, "S A K o"]
    steady: Bool[np.ndarray, "o"]  # whether a signal was always the same for the same transition
    noisy: Bool[np.ndarray, "o"]  # whether it was declared noisy

    @cached_property
    def pooled(self) -> Float[np.ndarray, "S A K"]:
        """The numbers of transitions over all steps."""
        return self.transitions[0] if len(self.transitions) == 1 else self.transitions.sum(axis=0)

    @property
    def signals_consistent(self) -> bool:
        """Whether every signal was declared noisy, or a function of the transition so far."""
        return bool(np.all(self.steady | self.noisy))

    def count_met(self) -> int:
        """Return how many states before the last have been met, where they are numbered as they are met."""
        seen = self.starts > 0
        seen[self.support.states[self.support.states != NOBODY]] = True
        return int(np.max(np.flatnonzero(seen[:-1]), initial=-1)) + 1

    def update(self, *episodes: Episode) -> "Counts":
        """Count more episodes; raise where one has a transition that was declared impossible."""
        if not episodes:
            return self
        steps, states, actions, arrivals, observed = _flatten_steps(episodes)
        rows = states * self.pairs.shape[2] + actions  # flat indices, because this runs once per episode
        places = self.support.find(rows, arrivals)
        if places.min() == NOBODY:
            grown = self._add_successors(states, actions, arrivals, places)
            return grown.update(*episodes)
        transitions, pairs, starts = self.transitions.copy(), self.pairs.copy(), self.starts.copy()
        if len(pairs) > 1:
            rows = rows + steps * pairs[0].size
        np.add.at(pairs.reshape(-1), rows, 1.0)
        np.add.at(transitions.reshape(-1), rows * transitions.shape[3] + places, 1.0)
        for episode in episodes:
            starts[episode.states[0]] += 1
        total = self.episodes + len(episodes)
        counted = Counts(self.support, transitions, pairs, starts, total, self.sums, self.steady, self.noisy)
        if not self.steady.size:
            return counted
        where, sums = (states, actions, places), self.sums.copy()
        np.add.at(sums, where, observed)
        spread = np.abs(sums[where] - counted.pooled[where][:, None] * observed).max(axis=0)
        steady = self.steady & (spread <= _SAME * np.maximum(1.0, np.abs(sums[where]).max(axis=0)))
        return replace(counted, sums=sums, steady=steady)

    def _add_successors(
        self,
        states: Int[np.ndarray, "n"],
        actions: Int[np.ndarray, "n"],
        arrivals: Int[np.ndarray, "n"],
        places: Int[np.ndarray, "n"],
    ) -> "Counts":
        """Return the same counts on lists that hold the new transitions."""
        new = np.flatnonzero(places == NOBODY)
        impossible = new[self.support.absorbing[states[new]]] if self.support.open else new
        if impossible.size:
            i = impossible[0]
            raise self.support.refuse(int(states[i]), int(actions[i]), int(arrivals[i]))
        support = self.support.with_pairs(states[new], arrivals[new])
        wider = support.states.shape[2] - self.transitions.shape[3]
        return replace(
            self,
            support=support,
            transitions=np.pad(self.transitions, ((0, 0), (0, 0), (0, 0), (0, wider))),
            sums=np.pad(self.sums, ((0, 0), (0, 0), (0, wider), (0, 0))),
        )


class _Steps(NamedTuple):
    """The steps to learn from, of all episodes, one after the other."""

    steps: Int[np.ndarray, "n"]
    states: Int[np.ndarray, "n"]
    actions: Int[np.ndarray, "n"]
    arrivals: Int[np.ndarray, "n"]
    observed: Float[np.ndarray, "n o"]


def _flatten_steps(episodes: Sequence[Episode]) -> _Steps:
    """List the transitions of all episodes that count, step by step."""
    H = len(episodes[0].actions)
    if len(episodes) == 1 and episodes[0].only is None:
        (one,) = episodes
        return _Steps(np.arange(H), one.states[:-1], one.actions, one.states[1:], one.observed)
    states, actions = np.stack([one.states for one in episodes]), np.stack([one.actions for one in episodes])
    only = np.array([-1 if one.only is None else one.only for one in episodes])[:, None]
    kept = (only < 0) | (only == np.arange(H))
    observed = np.stack([one.observed for one in episodes])
    return _Steps(np.nonzero(kept)[1], states[:, :-1][kept], actions[kept], states[:, 1:][kept], observed[kept])


def start_counts(support: Support, noisy: Bool[np.ndarray, "o"], laws: int = 1) -> Counts:
    """Return empty counts; `laws` is 1 where all steps share one law, and else the number of steps."""
    lists = support.states.shape
    return Counts(
        support=support,
        transitions=np.zeros((laws, *lists)),
        pairs=np.zeros((laws, *lists[:2])),
        starts=np.zeros(len(support.states)),
        episodes=0,
        sums=np.zeros((*lists, noisy.size)),
        steady=np.ones_like(noisy),
        noisy=noisy,
    )
