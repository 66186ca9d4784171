"""A regression as dynamics to plan in: the estimate or a draw, and what optimism adds to it.

    s' = clip(s + W phi(s, u) + beta sigma(s, u) e + noise),     |e| <= 1,

sigma(s, u) the norm of phi in Lambda^-1. Extras e move the mean anywhere within the ball that laws of the ellipsoid
|(W' - W) Lambda^1/2| <= beta can move it to: planning over e is planning over these laws, one for each step and state
("hallucinated control", Curi et al. 2020). A bonus of kappa sigma(s, u) pays for going where little is known instead.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual.features import AbstractMap
from bidual.models._dynamics import AbstractDynamics, into_ball
from bidual.models._ellipsoid import Ellipsoid
from bidual.models._regression import Posterior
from bidual.policies import ControlPolicy


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Regressed(AbstractDynamics):
    """The dynamics above. Where `beta` is None there are no extras, and without kappa either no sigma is computed.

    Several of one kind can be stacked (`jax.tree.map`) and planned in at once (`jax.vmap`).
    """

    phi: AbstractMap
    W: Float[Any, "... n d"]
    deviation: Float[Any, "... n"]  # of the noise
    low: Float[Any, "... n"]  # states are held to [low, high], which may be infinite
    high: Float[Any, "... n"]
    least: Float[Any, "... m"]  # of the controls
    most: Float[Any, "... m"]
    ellipsoid: Ellipsoid | None = None
    beta: Float[Any, "..."] | None = None
    kappa: Float[Any, "..."] | None = None
    discrete: bool = field(default=False, metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """As many extras as state variables, or none."""
        n = self.W.shape[-2]
        return n, self.least.shape[-1], 0 if self.beta is None else n

    @property
    def limits(self) -> tuple[Float[Any, "... m"], Float[Any, "... m"]]:
        """As declared."""
        return self.least, self.most

    def step(
        self, s: Float[Array, "n"], u: Float[Array, "m"], e: Float[Array, "e"], noise: Float[Array, "n"]
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """The estimate, the displacement that the extras choose, and noise."""
        W, deviation, low, high = (jnp.asarray(part, s.dtype) for part in (self.W, self.deviation, self.low, self.high))
        phi = self.phi(s, self.taken(u))
        moved, bonus = s + phi @ W.T + deviation * noise, jnp.zeros((), s.dtype)
        if self.ellipsoid is not None:
            sigma = self.ellipsoid.sigma(phi)
            if self.beta is not None:
                moved = moved + jnp.asarray(self.beta, s.dtype) * sigma * into_ball(e)
            if self.kappa is not None:
                bonus = jnp.asarray(self.kappa, s.dtype) * sigma
        return jnp.clip(moved, low, high), bonus

    def taken(self, u: Float[Array, "m"]) -> Float[Array, "m"]:
        """With `discrete` which control is the largest, as policies do; else held to the limits."""
        return jax.nn.one_hot(jnp.argmax(u), len(u), dtype=u.dtype) if self.discrete else super().taken(u)

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """Where controls stand for numbered actions, policies answer with the number."""
        return replace(actions, discrete=self.discrete)


@final
@dataclass(frozen=True, eq=False)
class World:
    """All that is known of how states move: from it every kind of optimism makes dynamics."""

    posterior: Posterior
    phi: AbstractMap
    box: tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]  # where states of the model are held
    limits: tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]  # of the controls
    discrete: bool = False

    def dynamics(
        self,
        W: Float[np.ndarray, "n d"] | None = None,
        *,
        ellipsoid: Ellipsoid | None = None,
        beta: float | None = None,
        kappa: float | None = None,
    ) -> Regressed:
        """The dynamics with W, by default the estimate, and an ellipsoid to be optimistic in."""
        return Regressed(
            self.phi,
            self.posterior.mean if W is None else W,
            self.posterior.deviation,
            *self.box,
            *self.limits,
            ellipsoid,
            None if beta is None else np.asarray(float(beta)),
            None if kappa is None else np.asarray(float(kappa)),
            self.discrete,
        )
