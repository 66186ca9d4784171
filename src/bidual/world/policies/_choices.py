"""The actions that a policy takes with some probability: a few per state, where a table would hold all A."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.brief import describe_briefly


@final
@dataclass(frozen=True, eq=False)
class Choices:
    """At most w actions per step and state, of R states, and one action in each of the others at every step.

    A mixture of w plans is such a policy: with m constraint rows w is at most m + 1. An action may be listed twice.
    """

    __repr__ = describe_briefly

    actions: Int[np.ndarray, "H w R"]
    shares: Float[np.ndarray, "H w R"]
    kept: Int[np.ndarray, "R"]
    elsewhere: Int[np.ndarray, "S"]
    num_actions: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        return len(self.actions), self.elsewhere.size, self.num_actions

    def at(self, h: int) -> Float[np.ndarray, "S A"]:
        """Return the probabilities of all actions at one step."""
        _, S, A = self.shape
        table = np.zeros((S, A))
        if self.kept.size < S:
            table[np.arange(S), self.elsewhere] = 1.0
            table[self.kept] = 0.0
        for action, share in zip(self.actions[h], self.shares[h], strict=True):
            table[self.kept, action] += share
        return table

    def in_state(self, h: int, s: int) -> Float[np.ndarray, "A"]:
        """Return the probabilities of all actions at one step in one state."""
        law = np.zeros(self.num_actions)
        place = int(np.searchsorted(self.kept, s))
        if place < self.kept.size and self.kept[place] == s:
            np.add.at(law, self.actions[h, :, place], self.shares[h, :, place])
        else:
            law[self.elsewhere[s]] = 1.0
        return law

    def expect(self, h: int, values: Float[np.ndarray, "S A *n"]) -> Float[np.ndarray, "S *n"]:
        """Compute the expectation over actions of ``values[s, a]`` at one step."""
        _, S, _ = self.shape
        expected = values[np.arange(S), self.elsewhere] if self.kept.size < S else np.zeros((S, *values.shape[2:]))
        shape = (-1,) + (1,) * (values.ndim - 2)
        terms = [
            values[self.kept, action] * share.reshape(shape)
            for action, share in zip(self.actions[h], self.shares[h], strict=True)
        ]
        expected[self.kept] = sum(terms[1:], terms[0])
        return expected

    def spread(self, h: int, law: Float[np.ndarray, "S"]) -> Float[np.ndarray, "S A"]:
        """Compute the occupancies of one step from the law of its state."""
        _, S, A = self.shape
        occupancy = np.zeros((S, A))
        if self.kept.size < S:
            occupancy[np.arange(S), self.elsewhere] = law
            occupancy[self.kept] = 0.0
        here = law[self.kept]
        for action, share in zip(self.actions[h], self.shares[h], strict=True):
            occupancy[self.kept, action] += share * here
        return occupancy

    def over(self, states: Int[np.ndarray, "R2"]) -> "Choices":
        """Return the choices in some of the states, which are numbered in this order."""
        if np.array_equal(states, self.kept):
            actions, shares = self.actions, self.shares
        else:
            actions = np.repeat(
                self.elsewhere.astype(self.actions.dtype)[None, None, states], len(self.actions), axis=0
            )
            actions = np.repeat(actions, self.actions.shape[1], axis=1)
            shares = np.zeros(actions.shape)
            shares[:, 0] = 1.0
            _, old, new = np.intersect1d(self.kept, states, assume_unique=True, return_indices=True)
            actions[:, :, new], shares[:, :, new] = self.actions[:, :, old], self.shares[:, :, old]
        return Choices(actions, shares, np.arange(states.size), self.elsewhere[states], self.num_actions)
