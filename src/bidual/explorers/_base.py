"""The interface of explorers: which policy to run next, from what is known."""

import abc
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import numpy as np
from jaxtyping import Float

from bidual._keys import Draw
from bidual.convex import AffineProgram, ConvexProgram
from bidual.policies import Played

Memory = TypeVar("Memory")


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """The policy of the next episode, how many plans it took to find it, and what the plan said that it would see.

    `expected` is the embedding of the policy in the dynamics that it was planned in, not in the true ones; None where
    nothing was planned, or where plans stay in use and only their policies are kept.
    """

    policy: Played
    plans: int
    expected: Float[np.ndarray, "H d"] | None = None


class AbstractExplorer(abc.ABC, Generic[Memory]):
    """Dual player and planner together: which policy next?"""

    @property
    @abc.abstractmethod
    def guarantee(self) -> str:
        """What theory says about this way of exploring, in a few words."""

    @abc.abstractmethod
    def init(self, program: AffineProgram | ConvexProgram, knowledge: Any) -> Memory:  # noqa: ANN401 - what its kind of model knows
        """The memory before the first episode."""

    @abc.abstractmethod
    def __call__(
        self,
        program: AffineProgram | ConvexProgram,
        memory: Memory,
        knowledge: Any,  # noqa: ANN401
        draw: Draw,
    ) -> tuple[Choice, Memory]:
        """Choose the policy of one episode; `draw` is the only source of randomness."""
