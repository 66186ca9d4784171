"""Planning by descending: control-limited differential programming from a sequence (iLQG; Tassa et al. 2014).

Dynamics are linearised along the path and the Hessian of every step's cost, in state and control together, is projected
onto the positive semidefinite ones; controls that a step would take beyond a limit stay there. A step that does not
lower the cost is not taken, so the result never costs more than the start. Extras are controls as well, so the
descent also runs over the laws that an optimistic model allows.
"""

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bidual._base.errors import ProblemError
from bidual.planners.control._feedback import descend_path
from bidual.planners.control._sampling import clip_controls
from bidual.planners.control._search import AbstractSearch, Gains, Searched, Subproblem


@final
@dataclass(frozen=True)
class Descent(AbstractSearch):
    """Descent from a given sequence: the rest of the last plan, or the result of another search (`Chain`).

    Args:
        steps: largest number of descents, each with a line search.
    """

    steps: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or isinstance(self.steps, bool) or self.steps < 1:
            raise ProblemError(f"steps must be a whole number of at least 1; got {self.steps!r}")

    @property
    def continued(self) -> bool:
        """Always true: there is no other start."""
        return True

    def __call__(self, problem: Subproblem, key: Key[Array, ""], nominal: Float[Array, "T q"]) -> Searched:
        """Descend, without randomness. Steps beyond the horizon cost nothing, so nothing is changed there."""
        del key
        start = clip_controls(problem.dynamics, nominal)
        path = descend_path(problem, start, self.steps, nominal.shape[1])
        gains = Gains(path.states, path.gains)
        return Searched(clip_controls(problem.dynamics, path.controls), path.cost, jnp.zeros_like(nominal), gains)
