"""The dual player for smooth problems over many-dimensional images: accelerated KL-proximal columns.

Every soft policy is a vector Theta (see `planners._soft`), and each becomes a column of a fully corrective master,
which supplies the point x and the multipliers gamma:

    theta_k = m / (k + m),   v = (1 - theta_k) x + theta_k z,   G = grad f(v) + sum_i gamma_i grad g_i(v)
    Theta += G / (theta_k L),   z = image of soft(Theta);   L doubles until the descent test holds, then shrinks
    x, gamma = the master over all columns, z included

The steps grow, and the master corrects overshoots. Every few steps an exact plan gives the bound

    f(q) + gamma . g(q) + min over policies of theta . (y - q),     theta = grad f(q) + sum_i gamma_i grad g_i(q),

which holds for every q and gamma >= 0. It is taken at averages of the points and of the multipliers: at the latest
ones it errs to first order, and there is far more noise in it. Plans of bounds are columns too. Where bounds stop
rising, as they do at kinks, the columns are handed over to the conic player (`_hand_over`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from bidual.dual._base import AbstractDual, Bound, Duals
from bidual.dual._columns import Mix
from bidual.dual._conic_corrective import ConicCorrective, ConicStage
from bidual.dual._hand_over import count_idle, hand_over, step_conic, with_floor
from bidual.dual._newton_master import NewtonMaster
from bidual.dual._sequence import (
    Phase,
    ProximalState,
    collect_used_plans,
    compute_master_accuracy,
    compute_origin,
    drop_objective,
    mix_single_plan,
    place_at,
    request_plan,
    start_momentum,
    take_improvement,
    with_bound,
    with_slater,
)
from bidual.planners import Plan
from bidual.problem.convex import TOLERANCE, AbstractSmooth, ConvexProgram

_TRIES = 60  # doublings of the smoothness L in one step
_FLOOR_AFTER = 4  # bounds without progress: the optimum may be at a kink, where only the floor is a good bound


@final
@dataclass(frozen=True)
class Proximal(AbstractDual[ConvexProgram, ProximalState]):
    """Settings of the method; found by trial on grids and random graphs (docs/performance.md).

    Args:
        gap: the requested gap, which sets the accuracy of the master.
        relative: whether the gap is relative to the objective.
        patience: bounds without progress after which the search is handed over to the conic player.
        handed_over: the largest image that a cone master is made for; beyond, such a search ends.
    """

    gap: float = 1e-4
    relative: bool = False
    hard_steps: int = 5
    check_every: int = 6  # soft steps per bound
    compare_every: int = 18  # soft steps per comparison of the two places for bounds
    momentum: float = 0.8  # m in theta_k = m / (k + m)
    first_smoothness: float = 0.02  # L starts at this share of |f|
    grow: float = 2.0
    shrink: float = 0.97
    average: float = 3.0  # points of the master enter their mean with weight a / (k + a)
    bound_power: float = 1.5  # extrapolated points enter theirs with weight (1 / (theta_k L)) ** power
    patience: int = 15
    handed_over: int = 5000
    master: NewtonMaster = field(default_factory=NewtonMaster)

    def init(self, program: ConvexProgram) -> Duals[ProximalState]:
        """Return the state whose first plan is the uniform policy, the soft one at no cost."""
        m, n = program.units.size, program.image.size
        return Duals(
            theta=program.image.adjoint(np.zeros(n)),
            soft=True,
            weights=np.zeros(0),
            feasible=False,
            f=np.inf,
            g=np.full(m, np.inf),
            auxiliary=np.zeros(0),
            optimum=Bound(-np.inf, np.zeros(m)),
            conflict=Bound(0.0, np.zeros(m)),
            stalled=False,
            memory=ProximalState(Phase.ANCHOR),
        )

    def step(self, program: ConvexProgram, duals: Duals[ProximalState], plan: Plan) -> Duals[ProximalState]:
        """Process the plan according to its phase, and set the phase and cost of the next one."""
        smooth = program.smooth
        assert smooth is not None  # the caller checks
        memory = replace(duals.memory, count=duals.memory.count + 1)
        duals = replace(duals, memory=memory, weights=np.append(duals.weights, 0.0))
        y = program.image(plan.embedding)
        if memory.shift is not None:
            y = y + memory.shift
        turn: dict[Phase, Callable[..., Duals[ProximalState]]] = {
            Phase.ANCHOR: self._step_after_anchor,
            Phase.SLATER: self._step_after_slater,
            Phase.HARD: self._step_after_hard,
            Phase.SOFT: self._step_after_soft,
            Phase.BOUND: self._step_after_bound,
            Phase.CONIC: self._step_after_conic,
        }
        duals = turn[memory.phase](program, smooth, duals, y, plan)
        return replace(duals, kept=collect_used_plans(duals))

    # The processing of a plan, by phase.

    def _step_after_anchor(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState], y: np.ndarray, plan: Plan
    ) -> Duals[ProximalState]:
        # A state that no policy reaches has visits 0, where an entropy has no derivative; a number this small has one.
        shift = np.where(y == 0, 1e-30, 0.0)
        columns = self.master.start(y + shift, 0, program.units.size)
        duals = replace(duals, memory=replace(duals.memory, shift=shift, columns=columns))
        if program.violation is None:
            return self._request_corrective(program, smooth, duals)
        room = ConicCorrective().init(drop_objective(program))
        duals = replace(duals, memory=replace(duals.memory, phase=Phase.SLATER, room=room))
        return self._step_after_slater(program, smooth, duals, y + shift, plan)

    def _step_after_slater(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState], y: np.ndarray, plan: Plan
    ) -> Duals[ProximalState]:
        """Step the corrective player towards a Slater point; start the master from the mixture that it finds."""
        del y
        assert duals.memory.room is not None  # this phase has it
        room = ConicCorrective().step(drop_objective(program), duals.memory.room, plan)
        slater = room.memory.slater
        duals = replace(duals, memory=replace(duals.memory, room=room), conflict=room.conflict)
        if slater is None:
            duals = replace(duals, weights=room.weights, g=room.g, f=room.f)
            clash = room.conflict.value > TOLERANCE
            # A face has no Slater point, and columns that all lie in it no Newton step.
            if not clash and (room.stalled or room.memory.stage is ConicStage.OPTIMUM):
                return hand_over(program, duals)
            return replace(duals, theta=room.theta, soft=room.soft, stalled=room.stalled)
        used = np.flatnonzero(slater.weights)
        columns = duals.memory.columns
        assert columns is not None  # from the first plan on
        columns = with_slater(self.master, smooth, columns, Mix(used, slater.weights[used]), room.memory.Y)
        memory = replace(duals.memory, columns=columns, room=None)
        return self._request_corrective(program, smooth, take_improvement(smooth, replace(duals, memory=memory)))

    def _step_after_hard(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState], y: np.ndarray, plan: Plan
    ) -> Duals[ProximalState]:
        del plan
        duals = with_bound(duals, y)
        duals = self._add_column(program, smooth, duals, y)
        if len(duals.memory.found) < self.hard_steps:
            return self._request_corrective(program, smooth, duals)
        return self._start_soft(program, smooth, duals)

    def _step_after_soft(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState], y: np.ndarray, plan: Plan
    ) -> Duals[ProximalState]:
        """Check the step against the soft plan's value: take it and go on, or halve it."""
        memory, momentum = duals.memory, duals.memory.momentum
        assert momentum is not None and momentum.trial is not None and momentum.step is not None  # noqa: PT018
        share, v, G = self._share(momentum.k), momentum.trial.q, momentum.trial.slope
        gain = float(momentum.step @ (y - compute_origin(program, memory)))
        divergence = max(plan.value - momentum.value - gain, 0.0)
        ahead = (1 - share) * momentum.x + share * y
        values = smooth.values(ahead)
        rise = float(values[0] + momentum.trial.gamma @ values[1:]) - momentum.trial.level - float(G @ (ahead - v))
        allowed = share * share * momentum.smoothness * divergence + 1e-14 * abs(momentum.trial.level)
        if not rise <= allowed and momentum.tries < _TRIES:
            momentum = replace(momentum, smoothness=self.grow * momentum.smoothness, tries=momentum.tries + 1)
            return self._try(program, replace(duals, memory=replace(memory, momentum=momentum)))
        weight = (1 / (share * momentum.smoothness)) ** self.bound_power
        far_weight = momentum.far_weight + weight
        share = weight / far_weight if far_weight > 0 else 1.0  # steps vanish beside a slope of 1e150
        momentum = replace(
            momentum,
            Theta=momentum.Theta + momentum.step,
            z=y,
            value=plan.value,
            smoothness=self.shrink * momentum.smoothness,
            far=momentum.far + share * (v - momentum.far),
            far_gamma=momentum.far_gamma + share * (momentum.trial.gamma - momentum.far_gamma),
            far_weight=far_weight,
            k=momentum.k + 1,
            tries=0,
        )
        duals = self._add_column(program, smooth, replace(duals, memory=replace(memory, momentum=momentum)), y)
        return self._update_means(program, smooth, duals)

    def _step_after_bound(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState], y: np.ndarray, plan: Plan
    ) -> Duals[ProximalState]:
        del plan
        duals = with_bound(duals, y)
        memory, momentum = duals.memory, duals.memory.momentum
        assert memory.columns is not None and momentum is not None  # noqa: PT018 - this phase has both
        columns = self.master.add(smooth, memory.columns, y, mix_single_plan(memory.count - 1))
        memory = replace(memory, columns=columns)
        if memory.asked:
            return request_plan(program, replace(duals, memory=memory))
        if len(memory.found) == 2:
            momentum = replace(momentum, plain=memory.found[1] > memory.found[0])
        memory = replace(memory, found=(), momentum=momentum)
        duals = count_idle(replace(duals, memory=memory))
        if duals.memory.idle == _FLOOR_AFTER:
            duals = with_floor(program, duals)
        if duals.memory.idle <= self.patience:
            return self._continue_soft(program, smooth, duals)
        if program.image.size > self.handed_over:
            return replace(duals, stalled=True)
        return hand_over(program, duals)

    def _step_after_conic(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState], y: np.ndarray, plan: Plan
    ) -> Duals[ProximalState]:
        del smooth, y
        return step_conic(program, duals, plan)

    # Parts that the phases share.

    def _request_corrective(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState]
    ) -> Duals[ProximalState]:
        """Request the plan of a plain corrective step."""
        memory = duals.memory
        assert memory.columns is not None  # from the first plan on
        if not duals.feasible:
            duals = take_improvement(smooth, duals)
        place = place_at(smooth, memory.columns.x, memory.columns.gamma)
        return request_plan(program, replace(duals, memory=replace(memory, phase=Phase.HARD, asked=(place,))))

    def _add_column(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState], y: np.ndarray
    ) -> Duals[ProximalState]:
        """Add the plan to the master, solve it, and keep its point if it is better."""
        memory = duals.memory
        assert memory.columns is not None  # from the first plan on
        columns = self.master.add(smooth, memory.columns, y, mix_single_plan(memory.count - 1))
        columns = self.master.solve(smooth, columns, compute_master_accuracy(duals, self.gap, relative=self.relative))
        return take_improvement(smooth, replace(duals, memory=replace(memory, columns=columns)))

    def _start_soft(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState]
    ) -> Duals[ProximalState]:
        memory = duals.memory
        momentum = start_momentum(duals, self.first_smoothness)
        return self._continue_soft(program, smooth, replace(duals, memory=replace(memory, momentum=momentum, found=())))

    def _continue_soft(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState]
    ) -> Duals[ProximalState]:
        """Extrapolate, and try a proximal step from there."""
        memory, momentum = duals.memory, duals.memory.momentum
        assert memory.columns is not None and momentum is not None  # noqa: PT018 - this phase has both
        share = self._share(momentum.k)
        v = (1 - share) * momentum.x + share * momentum.z
        momentum = replace(momentum, trial=place_at(smooth, v, memory.columns.gamma))
        return self._try(program, replace(duals, memory=replace(memory, momentum=momentum)))

    def _try(self, program: ConvexProgram, duals: Duals[ProximalState]) -> Duals[ProximalState]:
        memory, momentum = duals.memory, duals.memory.momentum
        assert momentum is not None and momentum.trial is not None  # noqa: PT018 - this phase has both
        step = momentum.trial.slope / (self._share(momentum.k) * momentum.smoothness)
        memory = replace(memory, phase=Phase.SOFT, momentum=replace(momentum, step=step))
        return replace(duals, theta=program.image.adjoint(momentum.Theta + step), soft=True, memory=memory)

    def _update_means(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[ProximalState]
    ) -> Duals[ProximalState]:
        """Update the means; every few steps request a bound there, else the next soft step."""
        memory, momentum = duals.memory, duals.memory.momentum
        assert memory.columns is not None and momentum is not None  # noqa: PT018 - this phase has both
        x, gamma = memory.columns.x, memory.columns.gamma
        part = self.average / (momentum.k + self.average)
        momentum = replace(
            momentum,
            x=x,
            mean=momentum.mean + part * (x - momentum.mean),
            mean_gamma=momentum.mean_gamma + part * (gamma - momentum.mean_gamma),
        )
        duals = replace(duals, memory=replace(memory, momentum=momentum))
        if momentum.k % self.check_every:
            return self._continue_soft(program, smooth, duals)
        middle = 0.5 * (momentum.mean + momentum.far), 0.5 * (momentum.mean_gamma + momentum.far_gamma)
        compare = momentum.k % self.compare_every == 0
        pairs = [middle, (x, gamma)] if compare else [(x, gamma) if momentum.plain else middle]
        asked = tuple(place_at(smooth, *pair) for pair in pairs)
        memory = replace(duals.memory, phase=Phase.BOUND, asked=asked, found=())
        return request_plan(program, replace(duals, memory=memory))

    def _share(self, k: int) -> float:
        return self.momentum / (k + self.momentum)
