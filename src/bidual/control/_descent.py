"""Planning by descending: control-limited differential programming from a sequence (iLQG; Tassa et al. 2014).

Dynamics are linearised along the path and the Hessian of every step's cost, in state and control together, is projected
onto the positive semidefinite ones; controls that a step would take beyond a limit stay there. A step that does not pay
less is not taken, so that the answer is never dearer than where it began. Extras are controls as well, so that among
the laws that an optimistic model allows the cheapest is descended to.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from bidual._errors import ProblemError
from bidual.control._feedback import descended
from bidual.control._sampling import held
from bidual.control._search import AbstractSearch, Gains, Searched
from bidual.features import Computed
from bidual.models import AbstractDynamics


@final
@dataclass(frozen=True)
class Descent(AbstractSearch):
    """Descend from the sequence that is there: the rest of the plan before, or what another search found (`Chain`).

    Args:
        steps: how many descents at most, each with a line search.
    """

    steps: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or isinstance(self.steps, bool) or self.steps < 1:
            raise ProblemError(f"steps must be a whole number of at least 1; got {self.steps!r}")

    @property
    def continued(self) -> bool:
        """Always: it has nowhere else to begin."""
        return True

    def __call__(
        self,
        dynamics: AbstractDynamics,
        features: Computed,
        theta: Float[Array, "H p"],
        h: Int[Array, ""],
        s: Float[Array, "n"],
        key: Key[Array, ""],
        nominal: Float[Array, "T q"],
    ) -> Searched:
        """Nothing is random. Steps beyond the horizon cost nothing, so that nothing is changed there."""
        del key
        T, q = nominal.shape
        ahead = jax.lax.dynamic_slice_in_dim(jnp.pad(theta, ((0, T), (0, 0))), h, T)
        start = held(dynamics, nominal)
        path = descended(dynamics, features, ahead, s, start, self.steps, q)
        gains = Gains(path.states, path.gains)
        return Searched(held(dynamics, path.controls), path.cost, jnp.zeros_like(nominal), gains)
