"""The planner over vectors: a sequence of controls found by sampling, executed, and rolled out."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from bidual._errors import ModelError, ProblemError
from bidual._keys import Draw, Purpose, key_of
from bidual._types import float32
from bidual.control._execution import AbstractExecution, Feedback, central
from bidual.control._rollouts import embedding
from bidual.control._sampling import icem, middle
from bidual.control._search import AbstractSearch, Searched
from bidual.features import Computed
from bidual.models import AbstractDynamics, Stage
from bidual.planners import AbstractPlanner, Plan


class Sought(NamedTuple):
    """What a search found: controls and extras, and what they cost under the mean dynamics, bonus included."""

    nominal: Float[np.ndarray, "T q"]
    cost: float
    variance: Float[np.ndarray, "T q"]


@final
@dataclass(frozen=True, eq=False)
class Regulator(AbstractPlanner[AbstractDynamics]):
    """Plans controls of a vector. A heuristic: its plans are good, and no bound is claimed with them.

    Args:
        sampler: how sequences of controls are searched.
        execution: how a sequence becomes a policy.
        rollouts: how many paths the embedding is an average of.
        draw: where all randomness comes from. Calls with the same draw try the same noise.
        known: plans that were made in the same model for other costs. The cheapest of them for the present cost is
            where the search starts, and the answer if nothing cheaper is found: otherwise the dual player would take a
            failure of the search for a bound. Without any the search starts from the middle of the ranges.
    """

    sampler: AbstractSearch = field(default_factory=lambda: icem(512, 40))
    execution: AbstractExecution = field(default_factory=Feedback)
    rollouts: int = 64
    draw: Draw = Draw(0, Purpose.PLAN, 0)  # noqa: RUF009 - immutable
    known: tuple[Plan, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.rollouts, int) or isinstance(self.rollouts, bool) or self.rollouts < 1:
            raise ProblemError(f"rollouts must be a whole number of at least 1; got {self.rollouts!r}")

    def __call__(self, model: AbstractDynamics, psi: Stage, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Search, execute and roll out; what is known already may be cheaper."""
        return self.cheapest(theta, self.executed(model, psi, theta, self.search(model, psi, theta)))

    def after(self, plan: Plan) -> "Regulator":
        """With one more plan to start from."""
        return replace(self, known=(*self.known, plan))

    def cheapest(self, theta: Float[np.ndarray, "H d"], *plans: Plan) -> Plan:
        """Of these and of the known ones, by what they are expected to pay."""
        best = min((*plans, *self.known), key=lambda plan: float(np.vdot(theta, plan.embedding)))
        return replace(best, value=float(np.vdot(theta, best.embedding)))

    @float32
    def search(self, model: AbstractDynamics, psi: Stage, theta: Float[np.ndarray, "H d"]) -> Sought:
        """The sequence alone: to choose among several models, and to start later searches from."""
        n, m, extras = model.sizes
        T, q = self.execution.ahead(psi.horizon), m + extras
        if psi.starts.shape[1] != n:
            raise ModelError(f"start states have {psi.starts.shape[1]} numbers, the dynamics {n}")
        start = self.cheapest(theta).nominal if self.known else None
        if start is not None and start.shape != (T, q):
            raise ProblemError(
                f"the sequence to start from has shape {start.shape}; the execution plans {T} steps and the "
                f"dynamics have {m} controls and {extras} extras, so it must have shape {(T, q)}"
            )
        found = _search(self.sampler, model, psi.features, theta, central(psi), T, start, self.draw.words())
        nominal, variance = (np.asarray(part, dtype=np.float64) for part in (found.nominal, found.variance))
        return Sought(nominal, float(found.cost), variance)

    def executed(self, model: AbstractDynamics, psi: Stage, theta: Float[np.ndarray, "H d"], sought: Sought) -> Plan:
        """A sequence as a plan: its policy, and what that is expected to see in the model."""
        policy, law = self.execution(model, psi, theta, sought.nominal, self.sampler)
        seen = embedding(law, model, psi, self.rollouts, self.draw.words())
        if not np.isfinite(seen).all():
            h = int(np.argmin(np.isfinite(seen).all(axis=1)))
            raise ModelError(
                f"rollouts of the model pass all bounds at step {h + 1} of {psi.horizon}: "
                "declare a box that states are held to, or bounds of the signals"
            )
        return Plan(policy, seen, float(np.vdot(theta, seen)), lower=-np.inf, nominal=sought.nominal)


@partial(jax.jit, static_argnums=(0, 2, 5))
def _search(
    sampler: AbstractSearch,
    dynamics: AbstractDynamics,
    features: Computed,
    theta: Float[Array, "H p"],
    s: Float[Array, "n"],
    ahead: int,
    nominal: Float[Array, "T q"] | None,
    words: UInt[Array, "3"],
) -> Searched:
    if nominal is None:
        centre, _ = middle(dynamics)
        nominal = jnp.broadcast_to(centre[None], (ahead, centre.size))
    first: Int[Array, ""] = jnp.asarray(0)
    return sampler(dynamics, features, theta, first, s, jr.fold_in(key_of(words), 3), nominal)
