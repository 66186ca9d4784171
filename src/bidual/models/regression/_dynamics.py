"""Dynamics: step functions of a state vector under controls, for planners of controls.

Optimism about an unknown law gives the planner further controls ("extras"), which choose among the laws that may be
true. So every kind of optimism has the same interface for a planner: a step function.
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

from bidual._base.brief import describe_briefly
from bidual.models._base import AbstractModel
from bidual.problem.features import Computed
from bidual.world.policies import ControlPolicy


@final
@dataclass(frozen=True, eq=False)
class Stage:
    """The features, the horizon and the start states of a control problem."""

    __repr__ = describe_briefly

    features: Computed
    horizon: int
    starts: Float[np.ndarray, "k n"]  # first states of episodes, equally likely


class AbstractDynamics(AbstractModel):
    """s' = step(s, u, e, noise): n numbers, m controls, and extras that choose among the laws that may be true.

    A dynamics is a pytree: its arrays are arguments of compiled code, everything else is part of that code.
    """

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """The dimensions n, m, e of state, control and extras."""

    @property
    @abc.abstractmethod
    def limits(self) -> tuple[Float[Any, "m"], Float[Any, "m"]]:
        """The least and the largest value of every control. Extras lie in the unit ball."""

    @abc.abstractmethod
    def step(
        self, s: Float[Array, "n"], u: Float[Array, "m"], e: Float[Array, "e"], noise: Float[Array, "n"]
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """Compute the next state for a draw of standard normal noise (zeros: the mean), and an exploration bonus."""

    def project_control(self, u: Float[Array, "m"]) -> Float[Array, "m"]:
        """Return the control as executed and as signals observe it: clipped to its limits."""
        low, high = (jnp.asarray(end, dtype=u.dtype) for end in self.limits)
        return jnp.clip(u, low, high)

    def restrict(self, psi: Stage) -> Stage:
        """Return `psi` itself: features are computed along the path."""
        return psi

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """Return the plan itself, which is a policy already."""
        return actions


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Simulated(AbstractDynamics):
    """A known law as a function of state and control, to test planners on.

    With `extras` the function has them as a third argument: a family of laws to choose from.
    """

    __repr__ = describe_briefly

    low: Float[Any, "m"]
    high: Float[Any, "m"]
    deviation: Float[Any, "n"]  # of the noise on every number
    function: Callable[..., Array] = field(metadata={"static": True})
    extras: int = field(default=0, metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The dimensions n, m, e of state, control and extras."""
        return self.deviation.shape[0], self.low.shape[0], self.extras

    @property
    def limits(self) -> tuple[Float[Any, "m"], Float[Any, "m"]]:
        """The declared limits."""
        return self.low, self.high

    def step(
        self, s: Float[Array, "n"], u: Float[Array, "m"], e: Float[Array, "e"], noise: Float[Array, "n"]
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """Evaluate the function, and add noise."""
        mean = self.function(s, u, scale_into_ball(e)) if self.extras else self.function(s, u)
        return mean + self.deviation * noise, jnp.zeros(())


def scale_into_ball(e: Float[Array, "e"]) -> Float[Array, "e"]:
    """Scale e into the unit ball; e / max(|e|, 1) would have no derivative at 0."""
    return e * jax.lax.rsqrt(jnp.maximum(e @ e, 1.0))
