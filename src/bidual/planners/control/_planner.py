"""The planner over vector states: a sequence of controls, found by sampling, executed and rolled out."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from bidual._base.errors import ModelError, ProblemError
from bidual._base.keys import Draw, Purpose, derive_key
from bidual._base.types import float32
from bidual.models import AbstractDynamics, AbstractModel, Stage
from bidual.planners import AbstractPlanner, Plan
from bidual.planners.control._execution import AbstractExecution, Feedback, PlannedControls, choose_central_start
from bidual.planners.control._rollouts import embedding
from bidual.planners.control._sampling import find_middle, icem
from bidual.planners.control._search import AbstractSearch, Searched, Subproblem
from bidual.problem.features import Computed
from bidual.world.policies import ControlPolicy


class ControlSequence(NamedTuple):
    """The result of a search: controls and extras, and their cost under the mean dynamics, bonus included."""

    nominal: Float[np.ndarray, "T q"]
    cost: float
    variance: Float[np.ndarray, "T q"]


@final
@dataclass(frozen=True, eq=False)
class Regulator(AbstractPlanner[AbstractDynamics]):
    """The planner of controls for vector states. A heuristic: its plans are good, and no bound comes with them.

    Args:
        sampler: the search for sequences of controls.
        execution: the rule that turns a sequence into a policy.
        rollouts: number of paths in the average that estimates the embedding.
        draw: the only source of randomness. Calls with the same draw use the same noise.
        known: plans in the same model for other costs. The search starts from the cheapest of them for this cost,
            which is also the answer if nothing cheaper is found: otherwise the dual player would take a failure of
            the search for a bound. Without any the search starts from the middle of the ranges.
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
        """Search, execute and roll out; return a known plan instead if it is cheaper."""
        return self.cheapest(theta, self.execute(model, psi, theta, self.search(model, psi, theta)))

    def after(self, plan: Plan) -> "Regulator":
        """Return the planner with one more plan to start from."""
        return replace(self, known=(*self.known, plan))

    def cheapest(self, theta: Float[np.ndarray, "H d"], *plans: Plan) -> Plan:
        """Return the plan of least expected cost, among these and the known ones."""
        best = min((*plans, *self.known), key=lambda plan: float(np.vdot(theta, plan.embedding)))
        return replace(best, value=float(np.vdot(theta, best.embedding)))

    @float32
    def search(self, model: AbstractDynamics, psi: Stage, theta: Float[np.ndarray, "H d"]) -> ControlSequence:
        """Search for a sequence alone: to choose among several models, and to start later searches from."""
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
        found = _search(
            self.sampler, model, psi.features, theta, choose_central_start(psi), T, start, self.draw.seed_words()
        )
        nominal, variance = (np.asarray(part, dtype=np.float64) for part in (found.nominal, found.variance))
        return ControlSequence(nominal, float(found.cost), variance)

    def execute(
        self, model: AbstractDynamics, psi: Stage, theta: Float[np.ndarray, "H d"], sequence: ControlSequence
    ) -> Plan:
        """Turn a sequence into a plan: its policy, and the policy's embedding in the model."""
        policy, law = self.execution(PlannedControls(model, psi, theta, sequence.nominal, self.sampler))
        seen = embedding(law, model, psi, self.rollouts, self.draw.seed_words())
        if not np.isfinite(seen).all():
            h = int(np.argmin(np.isfinite(seen).all(axis=1)))
            raise ModelError(
                f"rollouts of the model pass all bounds at step {h + 1} of {psi.horizon}: "
                "declare a box that states are held to, or bounds of the signals"
            )
        return Plan(policy, seen, float(np.vdot(theta, seen)), lower=-np.inf, nominal=sequence.nominal)


@partial(jax.jit, static_argnums=(0, 2, 5))
def _search(
    sampler: AbstractSearch,
    dynamics: AbstractDynamics,
    features: Computed,
    theta: Float[Array, "H p"],
    s: Float[Array, "n"],
    ahead: int,
    nominal: Float[Array, "T q"] | None,
    seed_words: UInt[Array, "3"],
) -> Searched:
    """Search the controls of the next steps from a state, beginning with `nominal` or the middle of the limits."""
    if nominal is None:
        centre, _ = find_middle(dynamics)
        nominal = jnp.broadcast_to(centre[None], (ahead, centre.size))
    first: Int[Array, ""] = jnp.asarray(0)
    problem = Subproblem.ahead(dynamics, features, theta, first, s, len(nominal))
    return sampler(problem, jr.fold_in(derive_key(seed_words), 3), nominal)


@final
@dataclass(frozen=True, eq=False)
class Among(AbstractModel):
    """A finite set of dynamics that may be true."""

    members: tuple[AbstractDynamics, ...]

    def restrict(self, psi: Stage) -> Stage:
        """Return the features unchanged: there is nothing to lay out."""
        return psi

    def policy(self, actions: ControlPolicy) -> ControlPolicy:
        """Return the plan unchanged: a plan of controls is a policy already."""
        return actions


@final
@dataclass(frozen=True, eq=False)
class CheapestAmong(AbstractPlanner[Among]):
    """The planner that searches a sequence for every member, and executes and rolls out only the cheapest."""

    regulator: Regulator

    def __call__(self, model: Among, psi: Stage, theta: Float[np.ndarray, "H d"]) -> Plan:
        """Search in all members, and execute the cheapest sequence."""
        found = [self.regulator.search(member, psi, theta) for member in model.members]
        best = min(range(len(found)), key=lambda i: found[i].cost)
        best_plan = self.regulator.execute(model.members[best], psi, theta, found[best])
        return self.regulator.cheapest(theta, best_plan)

    def after(self, plan: Plan) -> "CheapestAmong":
        """Return the planner with one more plan to start from."""
        return CheapestAmong(self.regulator.after(plan))
