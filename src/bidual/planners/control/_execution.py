"""Execution of a plan: its controls open-loop, with feedback gains, or replanned after the first few steps."""

import abc
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from bidual._base.errors import PolicyError, ProblemError
from bidual._base.types import float64
from bidual.models import AbstractDynamics, Stage
from bidual.planners.control._feedback import regulate
from bidual.planners.control._receding import Receding
from bidual.planners.control._rollouts import AbstractLaw
from bidual.planners.control._search import AbstractSearch
from bidual.world.policies import AffineFeedback, ControlPolicy


@final
@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True, eq=False)
class AffineLaw(AbstractLaw):
    """An affine feedback law in compiled code, with the extras of the plan."""

    controls: Float[Any, "H m"]
    states: Float[Any, "H n"]
    gains: Float[Any, "H m n"]
    extras: Float[Any, "H e"]

    def begin(self, key: Key[Array, ""]) -> None:
        """Return no memory: none is needed."""
        del key

    def control(
        self, memory: None, h: Int[Array, ""], s: Float[Array, "n"]
    ) -> tuple[Float[Array, "m"], Float[Array, "e"], None]:
        """Return the affine control of the step, and the extras of the plan."""
        controls, states, gains, extras = (
            jnp.asarray(part)[h] for part in (self.controls, self.states, self.gains, self.extras)
        )
        return controls + gains @ (s - states), extras, memory


class PlannedControls(NamedTuple):
    """A sequence of controls and extras, and the problem that it was planned for."""

    dynamics: AbstractDynamics
    psi: Stage  # the features and the start states
    theta: Float[np.ndarray, "H p"]  # the cost that the sequence minimises
    nominal: Float[np.ndarray, "T q"]  # from the central start state
    sampler: AbstractSearch  # for replanning


class ExecutedControls(NamedTuple):
    """A policy, and the same as a law for rollouts in the model, where it chooses the extras too."""

    policy: ControlPolicy
    law: AbstractLaw


class AbstractExecution(abc.ABC):
    """A rule that turns a sequence of controls and extras into a policy."""

    @abc.abstractmethod
    def ahead(self, horizon: int) -> int:
        """Return the number of steps of a plan at the start of an episode."""

    @abc.abstractmethod
    def __call__(self, planned: PlannedControls) -> ExecutedControls:
        """Turn a planned sequence into a policy."""


@final
@dataclass(frozen=True)
class OpenLoop(AbstractExecution):
    """The controls of the plan, independent of the observed states."""

    def ahead(self, horizon: int) -> int:
        """Return the horizon: all steps are planned."""
        return horizon

    def __call__(self, planned: PlannedControls) -> ExecutedControls:
        """Return the policy of the planned controls, with gains of 0."""
        H, (n, m, _) = planned.psi.horizon, planned.dynamics.sizes
        return _make_affine(planned, planned.nominal[:, :m], np.zeros((H, n)), np.zeros((H, m, n)))


@final
@dataclass(frozen=True)
class Feedback(AbstractExecution):
    """The controls of the plan, with gains against deviations from its path: an explicit affine law.

    Args:
        steps: descents from the sampled plan (differential programming) before gains are computed. Controls that do
            not lower the cost are rejected. One step is exact for linear dynamics and a convex quadratic cost.
    """

    steps: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or isinstance(self.steps, bool) or self.steps < 0:
            raise ProblemError(f"steps must be a whole number of at least 0; got {self.steps!r}")

    def ahead(self, horizon: int) -> int:
        """Return the horizon: all steps are planned."""
        return horizon

    @float64
    def __call__(self, planned: PlannedControls) -> ExecutedControls:
        """Compute gains in double precision: second derivatives lose digits."""
        dynamics, psi, theta, nominal, _ = planned
        wide = jax.tree.map(_to_double, (dynamics, theta, choose_central_start(psi), nominal))
        along = regulate(wide[0], psi.features, *wide[1:], self.steps)
        return _make_affine(planned, *(np.asarray(part) for part in along[:3]))


@final
@dataclass(frozen=True)
class Mpc(AbstractExecution):
    """Replanning from the present state: model predictive control.

    Args:
        every: number of steps between plans.
        horizon: the planning horizon: "shrinking" to the end of the episode, or a number of steps.
    """

    every: int = 1
    horizon: int | str = "shrinking"

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or isinstance(self.every, bool) or self.every < 1:
            raise ProblemError(f"every must be a whole number of at least 1; got {self.every!r}")
        if self.horizon == "shrinking":
            return
        if not isinstance(self.horizon, int) or isinstance(self.horizon, bool) or self.horizon < self.every:
            raise ProblemError(
                f'horizon must be "shrinking" or a whole number of at least every={self.every}: '
                f"a plan must last until the next one; got {self.horizon!r}"
            )

    def ahead(self, horizon: int) -> int:
        """Return the planning horizon, cut at the end of the episode."""
        return min(self.horizon, horizon) if isinstance(self.horizon, int) else horizon

    def __call__(self, planned: PlannedControls) -> ExecutedControls:
        """Return a receding-horizon controller, whose first replanning starts from the plan."""
        dynamics, psi, theta, nominal, sampler = planned
        controller = Receding(dynamics, theta, nominal, psi.features, sampler, min(self.every, len(nominal)))
        low, high = (np.asarray(end, dtype=np.float64) for end in dynamics.limits)
        return ExecutedControls(dynamics.policy(ControlPolicy(controller, low, high)), controller)


def law_of(policy: ControlPolicy) -> AbstractLaw:
    """Convert a policy to a law for rollouts in dynamics without extras."""
    controller = policy.controller
    if isinstance(controller, AffineFeedback):
        without = np.zeros((len(controller.controls), 0))
        return AffineLaw(controller.controls, controller.states, controller.gains, without)
    if isinstance(controller, AbstractLaw):
        return controller
    raise PolicyError(f"a {type(controller).__name__} cannot be followed in compiled code: roll out a plan's policy")


def choose_central_start(psi: Stage) -> Float[np.ndarray, "n"]:
    """Return the start state nearest to the mean of all of them, which itself may be no state at all."""
    apart = psi.starts - psi.starts.mean(axis=0)
    return psi.starts[int(np.argmin(np.einsum("kn,kn->k", apart, apart)))]


def _to_double(leaf: Any) -> Any:  # noqa: ANN401 - an array of anything
    return np.asarray(leaf, dtype=np.float64) if np.issubdtype(np.asarray(leaf).dtype, np.floating) else leaf


def _make_affine(
    planned: PlannedControls,
    controls: Float[np.ndarray, "H m"],
    states: Float[np.ndarray, "H n"],
    gains: Float[np.ndarray, "H m n"],
) -> ExecutedControls:
    """Build the policy of an affine law along the planned path."""
    dynamics = planned.dynamics
    low, high = (np.asarray(end, dtype=np.float64) for end in dynamics.limits)
    law = AffineFeedback(controls.astype(np.float64), states, gains)
    extras = planned.nominal[:, dynamics.sizes[1] :].astype(np.float64)
    policy = dynamics.policy(ControlPolicy(law, low, high))
    return ExecutedControls(policy, AffineLaw(law.controls, law.states, law.gains, extras))
