"""The dual player that follows the leader: the slopes are gradients at the average of all plans so far.

    x <- the mean image of the plans,   alpha = grad f(x),   beta_i = gamma_i grad g_i(x)
    gamma_i <- clip( gamma_i + eta (g_i(x) + grad g_i(x) . (y - x)), 0, Gamma )

It needs values and gradients only, no conjugates and no Lipschitz constants, so entropies are allowed. The bound at
x and any gamma >= 0 is f(x) + gamma . g(x) + min theta . (y - x).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float

from bidual.dual._averages import (
    Averages,
    count_plan,
    mix_plans,
    outgrows_Gamma,
    raise_bound,
    record_bound,
    restart_with_double_Gamma,
    start_averaging,
)
from bidual.dual._base import AbstractDual, Bound, Duals, Reply
from bidual.dual._gradient_ascent import check_settings, require_Gamma
from bidual.planners import Plan
from bidual.problem.convex import VariationalProgram


class Place(NamedTuple):
    """A point, multipliers, and the value and slope of f + gamma . g there."""

    q: Float[np.ndarray, "n"]
    gamma: Float[np.ndarray, "m"]
    level: float
    slope: Float[np.ndarray, "n"]


class Leader(NamedTuple):
    """The multipliers, their average, and the place of the next plan."""

    gamma: Float[np.ndarray, "m"]
    mean: Float[np.ndarray, "m"]
    asked: Place | None = None  # None: the uniform policy, which comes first


@final
@dataclass(frozen=True)
class FollowTheLeader(AbstractDual[VariationalProgram, Averages[Leader]]):
    """Gradients at the running average, and multipliers with steps of order 1 / sqrt t.

    Args:
        Gamma: no optimal multiplier is larger; at least twice the largest is best. By default `solve` starts from an
            eighth of the Gamma that `bd.slater` finds, with `doubling`.
        doubling: start again with twice the Gamma when an average multiplier exceeds half of it.
        growth: growth factor of the time from one bound at the averages to the next.
    """

    Gamma: float | None = None
    doubling: bool = False
    growth: float = 1.25

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self.Gamma, self.growth)

    def init(self, program: VariationalProgram) -> Duals[Averages[Leader]]:
        """Return the state whose first plan is the uniform policy: it visits every state that can be visited."""
        return self.restart(program, ())

    def restart(self, program: VariationalProgram, known: Sequence[Reply]) -> Duals[Averages[Leader]]:
        """Return the same state; known plans serve only for the Slater point."""
        images = np.array([program.image(reply.plan.embedding) for reply in known])
        nothing = np.zeros(len(program.g))
        known_images = images.reshape(len(known), program.image.size)
        return replace(
            start_averaging(program, Leader(nothing, nothing), known_images, require_Gamma(self.Gamma)), soft=True
        )

    def step(self, program: VariationalProgram, duals: Duals[Averages[Leader]], plan: Plan) -> Duals[Averages[Leader]]:
        """Update the average and the multipliers, or record the bound that the plan proves."""
        y, leader = program.image(plan.embedding), duals.memory.state
        if duals.memory.bounding:
            assert leader.asked is not None  # a bound has a place
            duals = record_bound(duals, _bound(leader.asked, y), self.growth)
            if self.doubling and outgrows_Gamma(duals.memory, leader.mean):
                nothing, theta = np.zeros_like(leader.mean), np.zeros_like(duals.theta)
                return replace(restart_with_double_Gamma(duals, Leader(nothing, nothing)), theta=theta, soft=True)
            return self._ask_next(program, duals, leader.gamma)
        if leader.asked is not None:
            duals = raise_bound(duals, _bound(leader.asked, y))
            leader = _step_multipliers(program, leader, y, duals.memory.t, duals.memory.Gamma)
        duals = count_plan(duals, y)
        duals = replace(duals, soft=False, memory=replace(duals.memory, state=leader))
        if duals.memory.t < duals.memory.next_bound:
            return self._ask_next(program, duals, leader.gamma)
        duals = mix_plans(program, duals)
        return self._ask_next(program, replace(duals, memory=replace(duals.memory, bounding=True)), leader.mean)

    def _ask_next(
        self, program: VariationalProgram, duals: Duals[Averages[Leader]], gamma: Float[np.ndarray, "m"]
    ) -> Duals[Averages[Leader]]:
        place = _place(program, duals.memory.y, gamma)
        memory = replace(duals.memory, state=duals.memory.state._replace(asked=place))
        return replace(duals, theta=program.image.adjoint(place.slope), memory=memory)


def _step_multipliers(
    program: VariationalProgram, leader: Leader, y: Float[np.ndarray, "n"], t: int, Gamma: float
) -> Leader:
    """Step the multipliers by the linearised constraints at the new plan."""
    assert leader.asked is not None  # the caller checks
    gamma, x = leader.gamma.copy(), leader.asked.q
    for i, (term, equal) in enumerate(zip(program.g, program.equality, strict=True)):
        g, at, to = term.function, term.part(x), term.part(y)
        eta = Gamma / (term.size * math.sqrt(t))
        rise = g.value(at) + float(g.gradient(at) @ (to - at))
        gamma[i] = np.clip(gamma[i] + eta * rise, -Gamma if equal else 0.0, Gamma)
    return leader._replace(gamma=gamma, mean=leader.mean + (gamma - leader.mean) / t)


def _place(program: VariationalProgram, x: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"]) -> Place:
    f, g = program.values(x)
    gradients = [term.function.gradient(term.part(x)) for term in program.g]
    slope = program.slope(
        program.f.function.gradient(program.f.part(x)), [c * d for c, d in zip(gamma, gradients, strict=True)]
    )
    return Place(x, gamma, f + float(gamma @ g), slope)


def _bound(place: Place, y: Float[np.ndarray, "n"]) -> Bound:
    """Compute the bound that the cheapest policy for the slope, with image y, proves."""
    value = place.level + float(place.slope @ (y - place.q))
    return Bound(value, place.gamma, place.q, slope=place.slope)
