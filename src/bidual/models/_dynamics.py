"""How a vector of numbers moves under controls: what controls are planned in.

A law that is not known is planned in optimistically by giving the planner further controls ("extras"), which choose
among the laws that may be true. So every kind of optimism is the same to a planner: a step function.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual.features import Computed
from bidual.models._base import AbstractModel
from bidual.policies import ControlPolicy


@final
@dataclass(frozen=True, eq=False)
class Stage:
    """What is paid for, for how long, and from where."""

    features: Computed
    horizon: int
    starts: Float[np.ndarray, "k n"]  # states that episodes began in, each as likely as the others


class AbstractDynamics(AbstractModel):
    """s' = step(s, u, e, noise): n numbers, m controls, and extras that choose among the laws that may be true.

    A dynamics is a pytree: its arrays are arguments of compiled code, everything else is part of that code.
    """

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """How many numbers a state, a control and the extras have: n, m, e."""

    @property
    @abc.abstractmethod
    def limits(self) -> tuple[Float[Any, "m"], Float[Any, "m"]]:
        """The least and the largest value of every control. Extras lie in the unit ball."""

    @abc.abstractmethod
    def step(
        self, s: Float[Array, "n"], u: Float[Array, "m"], e: Float[Array, "e"], noise: Float[Array, "n"]
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """The next state for a draw of standard normal noise (zeros: the mean), and a bonus that is worth its size."""

    def taken(self, u: Float[Array, "m"]) -> Float[Array, "m"]:
        """The control as it is carried out, and as signals see it: held to its limits."""
        low, high = (jnp.asarray(end, dtype=u.dtype) for end in self.limits)
        return jnp.clip(u, low, high)

    def restrict(self, psi: Stage) -> Stage:
        """Nothing to lay out: features are computed along the way."""
        return psi

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """A plan of controls is a policy already."""
        return actions


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Simulated(AbstractDynamics):
    """A law that is known, as a function of state and control: to try planners on.

    With `extras` the function has them as a third argument: a family of laws to choose from.
    """

    low: Float[Any, "m"]
    high: Float[Any, "m"]
    deviation: Float[Any, "n"]  # of the noise on every number
    function: Callable[..., Array] = field(metadata={"static": True})
    extras: int = field(default=0, metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Without extras there is nothing to choose."""
        return self.deviation.shape[0], self.low.shape[0], self.extras

    @property
    def limits(self) -> tuple[Float[Any, "m"], Float[Any, "m"]]:
        """As declared."""
        return self.low, self.high

    def step(
        self, s: Float[Array, "n"], u: Float[Array, "m"], e: Float[Array, "e"], noise: Float[Array, "n"]
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """The function, and noise."""
        mean = self.function(s, u, into_ball(e)) if self.extras else self.function(s, u)
        return mean + self.deviation * noise, jnp.zeros(())


def into_ball(e: Float[Array, "e"]) -> Float[Array, "e"]:
    """The direction of e, at most as long as 1; e / max(|e|, 1) would have no derivative at 0."""
    return e * jax.lax.rsqrt(jnp.maximum(e @ e, 1.0))
