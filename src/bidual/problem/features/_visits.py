"""Visits and occupancies: the probabilities themselves as features, and concatenated feature maps."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ModelError
from bidual._base.types import Successors
from bidual.problem.features._base import AbstractFeatures, FeaturePart, Observed, Pieces, Psi


@final
@dataclass(frozen=True)
class Visits(AbstractFeatures):
    """One feature per state: the probability of visiting it."""

    num_states: int

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """The part ``visits``, of shape (S,)."""
        return (FeaturePart("visits", 0, (self.num_states,)),)

    def stage(self, successors: Successors) -> Psi:
        """Return psi after checking the number of states; there is nothing to compute."""
        return self.pieces(successors.shape).psi

    def pieces(self, shape: tuple[int, int, int]) -> Pieces:
        """Return psi after the same check."""
        _check_states("visits", (self.num_states,), shape[1:2])
        return Pieces(_make_no_signals(shape), visits=True)


@final
@dataclass(frozen=True)
class Occupancy(AbstractFeatures):
    """One feature per state and action: the probability of visiting the state and taking the action."""

    num_states: int
    num_actions: int

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """The part ``occupancy``, of shape (S, A)."""
        return (FeaturePart("occupancy", 0, (self.num_states, self.num_actions)),)

    def stage(self, successors: Successors) -> Psi:
        """Return psi after checking the numbers of states and actions; there is nothing to compute."""
        return self.pieces(successors.shape).psi

    def pieces(self, shape: tuple[int, int, int]) -> Pieces:
        """Return psi after the same check."""
        _check_states("occupancy", (self.num_states, self.num_actions), shape[1:])
        return Pieces(_make_no_signals(shape), occupancy=True)


@final
@dataclass(frozen=True, eq=False)
class Concat(AbstractFeatures):
    """Concatenated feature maps: all signals first, then visits, then occupancies."""

    members: tuple[AbstractFeatures, ...]

    @property
    def parts(self) -> tuple[FeaturePart, ...]:
        """The parts of all members."""
        ordered = sorted((p for member in self.members for p in member.parts), key=lambda p: len(p.shape))
        placed, position = [], 0
        for part in ordered:
            placed.append(part._replace(position=position))
            position += part.size
        return tuple(placed)

    @property
    def observed(self) -> tuple[tuple[str, Observed], ...]:
        """The observed signals of all members."""
        return tuple(one for member in self.members for one in member.observed)

    def stage(self, successors: Successors) -> Psi:
        """Stack the signals of all members; include visits and occupancies if any member does."""
        staged = [member.stage(successors) for member in self.members]
        return Psi(
            _stack_signals([psi.signals for psi in staged]),
            visits=any(psi.visits for psi in staged),
            occupancy=any(psi.occupancy for psi in staged),
        )

    def pieces(self, shape: tuple[int, int, int]) -> Pieces:
        """Combine the pieces of all members, with the positions of their signals shifted."""
        members = [member.pieces(shape) for member in self.members]
        firsts = np.cumsum([0, *(member.stage.shape[1] for member in members)])
        return Pieces(
            _stack_signals([member.stage for member in members]),
            tuple((int(first) + i, one) for first, m in zip(firsts, members, strict=False) for i, one in m.arrivals),
            tuple((int(first) + i, one) for first, m in zip(firsts, members, strict=False) for i, one in m.observed),
            visits=any(member.visits for member in members),
            occupancy=any(member.occupancy for member in members),
        )

    def with_end(self, shape: tuple[int, int, int]) -> "Concat":
        """Return the members over states of which the last was added."""
        return Concat(tuple(member.with_end(shape) for member in self.members))


def visits(num_states: int) -> Visits:
    """Declare the state visits as features: ``x.visits`` has shape (H, S), or (S,) summed over time."""
    return Visits(_count("num_states", num_states))


def occupancy(num_states: int, num_actions: int) -> Occupancy:
    """Declare the occupancies as features: ``x.occupancy`` has shape (H, S, A), or (S, A) summed over time."""
    return Occupancy(_count("num_states", num_states), _count("num_actions", num_actions))


def concat(*members: AbstractFeatures) -> AbstractFeatures:
    """Concatenate feature maps; every part keeps its name."""
    if not members:
        raise ModelError("concat() needs at least one feature map, for example concat(signals(cost=c), visits(S))")
    names = [part.name for member in members for part in member.parts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ModelError(f"two features are called {twice[0]!r}: give each its own name")
    return members[0] if len(members) == 1 else Concat(members)


def _make_no_signals(shape: tuple[int, int, int]) -> Float[np.ndarray, "1 0 S A"]:
    return np.zeros((1, 0, *shape[1:]))


def _stack_signals(signals: list[Float[np.ndarray, "_ _ S A"]]) -> Float[np.ndarray, "steps d S A"]:
    """Concatenate signals; stationary ones are repeated over the steps of the others."""
    steps = max(part.shape[0] for part in signals)
    return np.concatenate([np.broadcast_to(part, (steps, *part.shape[1:])) for part in signals], axis=1)


def _count(what: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
        raise ModelError(f"{what} must be a whole number, at least 1; got {number!r}")
    return int(number)


def _check_states(what: str, declared: tuple[int, ...], actual: tuple[int, ...]) -> None:
    if declared != actual:
        nouns = "states" if len(declared) == 1 else "states and actions"
        raise ModelError(f"{what} was declared for {declared} {nouns}, but the model has {actual}")
