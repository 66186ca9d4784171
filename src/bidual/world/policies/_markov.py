"""Markov policies: the action depends on the step and the state only."""

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.brief import describe_briefly
from bidual._base.names import UNNAMED, Names
from bidual.world.observations import Numbering
from bidual.world.policies._base import AbstractPolicy, Actor
from bidual.world.policies._choices import Choices
from bidual.world.policies._frames import build_policy_frame, format_policy

if TYPE_CHECKING:
    from pandas import DataFrame


@final
@dataclass(frozen=True, eq=False)
class MarkovPolicy(AbstractPolicy):
    """A randomised, time-dependent policy: ``table[h, s, a]`` is the probability of action a.

    Learned where observations are numbered, it has their `numbering` and acts on observations. A stationary policy has
    one step in its table, and acts by it for as long as it is asked to. With few `choices` per state, as a solve
    returns it, the table is built when it is first read.
    """

    table: Float[np.ndarray, "H S A"]
    names: Names = UNNAMED
    numbering: Numbering | None = None
    stationary: bool = False
    choices: Choices | None = field(default=None, init=False, repr=False)

    @classmethod
    def from_choices(cls, choices: Choices, names: Names = UNNAMED) -> "MarkovPolicy":
        """Return the policy that takes these actions."""
        policy = object.__new__(cls)
        for name, value in (("choices", choices), ("names", names), ("numbering", None), ("stationary", False)):
            object.__setattr__(policy, name, value)
        return policy

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> np.ndarray:
            """Build the table of a policy of few choices, and keep it."""
            if name != "table" or self.__dict__.get("choices") is None:
                raise AttributeError(f"MarkovPolicy has no attribute {name!r}")
            table = np.stack([self.choices.at(h) for h in range(len(self.choices.actions))])
            object.__setattr__(self, "table", table)
            return table

    def at(self, h: int) -> Float[np.ndarray, "S A"]:
        """Return the probabilities at one step."""
        return self.table[0 if self.stationary else h] if self.choices is None else self.choices.at(h)

    def expect(self, h: int, values: Float[np.ndarray, "S A *n"]) -> Float[np.ndarray, "S *n"]:
        """Compute the expectation over actions of ``values[s, a]`` at one step."""
        if self.choices is not None:
            return self.choices.expect(h, values)
        return np.einsum("sa,sa...->s...", self.table[h], values)

    def spread(self, h: int, law: Float[np.ndarray, "S"]) -> Float[np.ndarray, "S A"]:
        """Compute the occupancies of one step from the law of its state."""
        return law[:, None] * self.table[h] if self.choices is None else self.choices.spread(h, law)

    def over(self, states: Int[np.ndarray, "R"]) -> "MarkovPolicy":
        """Return the policy in some of the states, which are numbered in this order and have no names."""
        if self.choices is not None:
            return MarkovPolicy.from_choices(self.choices.over(states))
        return MarkovPolicy(self.table[:, states])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        if self.choices is not None:
            return self.choices.shape
        H, S, A = self.table.shape
        return H, S, A

    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode; every step draws its action from `rng`."""
        generator = np.random.default_rng(rng)
        H, S, _ = self.shape

        def choose(h: int, s: int, rng: np.random.Generator) -> tuple[int, np.random.Generator]:
            # The first action whose cumulative probability exceeds a uniform draw; never one of probability 0.
            law = self.table[0 if self.stationary else h, s] if self.choices is None else self.choices.in_state(h, s)
            cumulative = np.cumsum(law)
            return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")), rng

        actor = Actor(choose, generator, sys.maxsize if self.stationary else H, S, names=self.names)
        return actor if self.numbering is None else actor.with_decoder(self.numbering.read)

    @property
    def observation_size(self) -> int | None:
        """The number of entries of an observation that is an array; None where it is a state, or no array."""
        return None if self.numbering is None else self.numbering.entries

    def most_likely(self) -> "DeterministicPolicy | MarkovPolicy":
        """Return the table of the most likely actions, the first of equally likely ones."""
        H, _, A = self.shape
        likeliest = DeterministicPolicy(np.stack([self.at(h).argmax(axis=1) for h in range(H)]), A, self.stationary)
        return likeliest if self.numbering is None else replace(self, table=likeliest.table)

    def with_numbering(self, numbering: Numbering | None) -> "MarkovPolicy":
        """Return the policy for observations that are numbered like this, and named by what they are."""
        if numbering is None or numbering.is_identity:
            return self
        return replace(self, numbering=numbering, names=numbering.names)

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for every action that is taken with some probability."""
        return build_policy_frame(self.table, self.names)

    def _repr_html_(self) -> str:
        return format_policy(repr(self), self.table, self.names)

    def __repr__(self) -> str:
        H, S, A = self.shape
        return f"MarkovPolicy({'stationary' if self.stationary else f'{H} steps'}, {S} states, {A} actions, randomised)"


@final
@dataclass(frozen=True, eq=False)
class DeterministicPolicy(AbstractPolicy):
    """One action per step and state, as in a plan; of a stationary one the same at every step."""

    __repr__ = describe_briefly

    actions: Int[np.ndarray, "H S"]
    num_actions: int
    stationary: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""
        H, S = self.actions.shape
        return H, S, self.num_actions

    def at(self, h: int) -> Float[np.ndarray, "S A"]:
        """Return the policy as probabilities, at one step."""
        chosen = self.actions[0 if self.stationary else h]
        return np.asarray(chosen[:, None] == np.arange(self.num_actions), dtype=np.float64)

    @property
    def table(self) -> Float[np.ndarray, "H S A"]:
        """The same policy as probabilities."""
        return np.asarray(self.actions[..., None] == np.arange(self.num_actions), dtype=np.float64)

    def reset(self, rng: np.random.Generator | int | None = None) -> Actor:
        """Start an episode; nothing is random."""
        del rng
        H, S, _ = self.shape
        if self.stationary:
            return Actor(lambda h, s, memory: (int(self.actions[0, s]), memory), None, sys.maxsize, S)
        return Actor(lambda h, s, memory: (int(self.actions[h, s]), memory), None, H, S)

    def most_likely(self) -> "DeterministicPolicy":
        """Return the policy itself."""
        return self

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with a row for every action that is taken with some probability."""
        return build_policy_frame(self.table)

    def _repr_html_(self) -> str:
        return format_policy(repr(self), self.table)
