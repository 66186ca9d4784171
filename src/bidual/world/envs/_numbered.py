"""Environments whose observations are numbered: the states they have, and the one added where episodes end."""

import numpy as np
from jaxtyping import Bool

from bidual._base.names import Names
from bidual.world.envs._base import AbstractEnvironment
from bidual.world.observations import Book, Numbering


class AbstractNumberedEnvironment(AbstractEnvironment):
    """Numbered observations keep their order, and one state is added at the end, where terminated episodes stay."""

    horizon: int
    num_actions: int
    book: Book

    @property
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A), with the added state."""
        return self.horizon, self.book.numbering.size + 1, self.num_actions

    @property
    def absorbing(self) -> Bool[np.ndarray, "S"]:
        """A mask of the added state, and no other: the environment declares no absorbing states."""
        return np.arange(self.book.numbering.size + 1) == self.book.numbering.size

    @property
    def allowed(self) -> Bool[np.ndarray, "S A"]:
        """All actions, but only action 0 in the added state: it is recorded there, others are never observed."""
        return ~self.absorbing[:, None] | (np.arange(self.num_actions) == 0)

    @property
    def numbering(self) -> Numbering:  # pyright: ignore[reportIncompatibleVariableOverride]: it grows
        """The numbering of observations so far."""
        return self.book.numbering

    @property
    def names(self) -> Names:  # pyright: ignore[reportIncompatibleVariableOverride]: it grows
        """The observations as names of their states."""
        return self.numbering.names
