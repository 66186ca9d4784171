"""The interface of explorers: the choice of the next policy from the learned model."""

import abc
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import numpy as np
from jaxtyping import Float

from bidual._base.keys import Draw
from bidual.problem.convex import AbstractProgram
from bidual.world.policies import Played

Memory = TypeVar("Memory")


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """The policy of the next episode, the number of plans for it, and its embedding in the planning model.

    `expected` is the embedding of the policy in the dynamics that it was planned in, not in the true ones; None without
    a plan, or where plans stay in use and only their policies are kept.
    """

    policy: Played
    plans: int
    expected: Float[np.ndarray, "H d"] | None = None


class AbstractExplorer(abc.ABC, Generic[Memory]):
    """Dual player and planner together: the choice of the next policy."""

    @property
    @abc.abstractmethod
    def guarantee(self) -> str:
        """The guarantee that theory gives for this explorer, as a short text."""

    @abc.abstractmethod
    def init(self, program: AbstractProgram, knowledge: Any) -> Memory:  # noqa: ANN401 - depends on the kind of model
        """Return the memory before the first episode."""

    @abc.abstractmethod
    def __call__(
        self,
        program: AbstractProgram,
        memory: Memory,
        knowledge: Any,  # noqa: ANN401
        draw: Draw,
    ) -> tuple[Choice, Memory]:
        """Choose the policy of one episode; `draw` is the only source of randomness."""
