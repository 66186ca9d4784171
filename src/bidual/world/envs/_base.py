"""The interface of environments: sources of episodes, with what is known about them beforehand."""

import abc
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.errors import PolicyError
from bidual._base.keys import Draw
from bidual._base.names import UNNAMED, Names
from bidual._base.types import Episode
from bidual.world.observations import Numbering
from bidual.world.policies import AbstractPolicy, MarkovPolicy

if TYPE_CHECKING:
    from typing import Self


class AbstractEnvironment(abc.ABC):
    """S states and A actions with transitions that are observed only by acting, for H steps at a time."""

    names: Names = UNNAMED
    numbering: Numbering | None = None  # of observations so far; None where states are numbers themselves

    def with_numbering(self, numbering: Numbering) -> "Self":
        """Return the same environment with a numbering of its own that begins as another does."""
        del numbering
        return self

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(H, S, A)."""

    @property
    def absorbing(self) -> Bool[np.ndarray, "S"]:
        """A mask of the states known to be absorbing, with signals as in the features: nothing to learn there."""
        return np.zeros(self.shape[1], dtype=bool)

    @property
    def initial(self) -> Float[np.ndarray, "S"] | None:
        """The law of the first state, where it is known."""
        return None

    @property
    def allowed(self) -> Bool[np.ndarray, "S A"]:
        """A mask of the actions that each state allows."""
        return np.ones(self.shape[1:], dtype=bool)

    @abc.abstractmethod
    def collect(self, policy: AbstractPolicy, draw: Draw) -> Episode:
        """Run one episode of a policy. All randomness, the policy's too, comes from `draw`: same draw, same episode."""

    @property
    def simultaneous(self) -> int:
        """The number of episodes that `collect_many` runs in hardly more time than one."""
        return 1

    def collect_many(self, policy: AbstractPolicy, draws: Sequence[Draw]) -> list[Episode]:
        """Run several episodes, the same as one by one; environments that batch them are faster here."""
        return [self.collect(policy, draw) for draw in draws]


def check_policy(policy: AbstractPolicy, shape: tuple[int, int, int]) -> None:
    """Check that a policy has the shape of the environment."""
    if policy.shape != shape:
        H, S, A = policy.shape
        raise PolicyError(
            f"the policy is for {H} steps, {S} states and {A} actions, but the environment has {shape[0]}, {shape[1]} "
            f"and {shape[2]}: run it where it was made for, or make one of shape (H, S, A) = {shape}"
        )


def check_numbering(policy: AbstractPolicy, present: Numbering) -> None:
    """Check that a policy numbers observations as the environment does."""
    own = policy.numbering if isinstance(policy, MarkovPolicy) else None
    if own is None:
        return
    if not own.matches(present) or own.keys != present.keys[: len(own.keys)]:
        raise PolicyError(
            "the policy numbers observations otherwise than the environment: run it with bd.evaluate, or act yourself, "
            "policy.reset(rng).act(observation)"
        )


def continue_numbering(present: Numbering, other: Numbering) -> Numbering:
    """Return another numbering, of the same kind as that of an environment, with the environment's function."""
    if not other.matches(present):
        raise PolicyError(
            f"observations were numbered by {other.describe()} then, and are by {present.describe()} here: open the "
            "environment as it was, with the same states=, num_states= and states_limit="
        )
    return replace(other, function=present.function)
