"""A regression as dynamics to plan in: the estimate or a posterior sample, with a term for optimism.

    s' = clip(s + W phi(s, u) + beta sigma(s, u) e + noise),     |e| <= 1,

sigma(s, u) the norm of phi in Lambda^-1. Extras e move the mean anywhere within the ball that laws of the ellipsoid
|(W' - W) Lambda^1/2| <= beta can move it to: planning over e is planning over these laws, one for each step and state
("hallucinated control", Curi et al. 2020). A bonus of kappa sigma(s, u) rewards visits of uncertain states instead.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bidual._base.brief import describe_briefly
from bidual.models.regression._dynamics import AbstractDynamics, scale_into_ball
from bidual.models.regression._ellipsoid import Ellipsoid
from bidual.models.regression._regression import Posterior
from bidual.problem.features import AbstractMap
from bidual.world.policies import ControlPolicy


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class Regressed(AbstractDynamics):
    """The dynamics above. Where `beta` is None there are no extras, and without kappa either no sigma is computed.

    Several of one kind can be stacked (`jax.tree.map`) and planned in at once (`jax.vmap`).
    """

    __repr__ = describe_briefly

    phi: AbstractMap
    W: Float[Any, "... n d"]
    deviation: Float[Any, "... n"]  # of the noise
    low: Float[Any, "... n"]  # states are clipped to [low, high], which may be infinite
    high: Float[Any, "... n"]
    least: Float[Any, "... m"]  # of the controls
    most: Float[Any, "... m"]
    ellipsoid: Ellipsoid | None = None
    beta: Float[Any, "..."] | None = None
    kappa: Float[Any, "..."] | None = None
    discrete: bool = field(default=False, metadata={"static": True})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The dimensions n, m, e: as many extras as state variables, or none."""
        n = self.W.shape[-2]
        return n, self.least.shape[-1], 0 if self.beta is None else n

    @property
    def limits(self) -> tuple[Float[Any, "... m"], Float[Any, "... m"]]:
        """The declared limits of controls."""
        return self.least, self.most

    def step(
        self, s: Float[Array, "n"], u: Float[Array, "m"], e: Float[Array, "e"], noise: Float[Array, "n"]
    ) -> tuple[Float[Array, "n"], Float[Array, ""]]:
        """Compute the next state: the estimate, the displacement chosen by the extras, and noise."""
        W, deviation, low, high = (jnp.asarray(part, s.dtype) for part in (self.W, self.deviation, self.low, self.high))
        phi = self.phi(s, self.project_control(u))
        moved, bonus = s + phi @ W.T + deviation * noise, jnp.zeros((), s.dtype)
        if self.ellipsoid is not None:
            sigma = self.ellipsoid.sigma(phi)
            if self.beta is not None:
                moved = moved + jnp.asarray(self.beta, s.dtype) * sigma * scale_into_ball(e)
            if self.kappa is not None:
                bonus = jnp.asarray(self.kappa, s.dtype) * sigma
        return jnp.clip(moved, low, high), bonus

    def project_control(self, u: Float[Array, "m"]) -> Float[Array, "m"]:
        """Return the indicator of the largest control if `discrete`, as policies do; else clip to the limits."""
        return jax.nn.one_hot(jnp.argmax(u), len(u), dtype=u.dtype) if self.discrete else super().project_control(u)

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """Return the plan; where controls stand for numbered actions, its policy returns the number."""
        return replace(actions, discrete=self.discrete)


@final
@dataclass(frozen=True, eq=False)
class LearnedDynamics:
    """The posterior of the dynamics with its box and limits: every kind of optimism builds dynamics from it."""

    posterior: Posterior
    phi: AbstractMap
    box: tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]  # limits that states of the model are clipped to
    limits: tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]  # of the controls
    discrete: bool = False
    delta: float = 0.05  # that the certified set may miss the truth with

    def dynamics(
        self,
        W: Float[np.ndarray, "n d"] | None = None,
        *,
        ellipsoid: Ellipsoid | None = None,
        beta: float | None = None,
        kappa: float | None = None,
    ) -> Regressed:
        """Build the dynamics with W, by default the estimate, and an ellipsoid for optimism."""
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
