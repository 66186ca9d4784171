"""The dual player for smooth problems over many-dimensional images: accelerated KL-proximal columns.

Every soft policy is a vector Theta (see `planners._soft`), and each becomes a column of a fully corrective master,
which supplies the point x and the multipliers gamma:

    theta_k = m / (k + m),   v = (1 - theta_k) x + theta_k z,   G = grad f(v) + sum_i gamma_i grad g_i(v)
    Theta += G / (theta_k L),   z = image of soft(Theta);   L doubles until the descent test holds, then shrinks
    x, gamma = the master over all columns, z included

The steps grow while the master undoes what overshoots. Every few steps an exact plan gives the bound

    f(q) + gamma . g(q) + min over policies of theta . (y - q),     theta = grad f(q) + sum_i gamma_i grad g_i(q),

which holds for every q and gamma >= 0. It is taken at averages of the points and of the multipliers: at the latest
ones it errs to first order, and there is far more noise in it. Plans of bounds are columns too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.convex import AbstractSmooth, ConvexProgram
from bidual.dual._base import AbstractDual, Bound, Duals
from bidual.dual._conic_corrective import Columns as ConicColumns
from bidual.dual._conic_corrective import ConicCorrective
from bidual.dual._newton_master import Columns, Mix, NewtonMaster
from bidual.planners import Plan

_TRIES = 60  # doublings of the smoothness L in one step


class Phase(Enum):
    """What the plan being made is for."""

    ANCHOR = "the uniform policy"
    SLATER = "a point that keeps the constraints with room"
    HARD = "a corrective step"
    SOFT = "a proximal step"
    BOUND = "a lower bound"


@final
@dataclass(frozen=True, eq=False)
class Place:
    """A point and multipliers at which a bound is taken, and the slope there."""

    q: Float[np.ndarray, "n"]
    gamma: Float[np.ndarray, "m"]
    level: float  # f(q) + gamma . g(q)
    slope: Float[np.ndarray, "n"]


@final
@dataclass(frozen=True, eq=False)
class Momentum:
    """The proximal sequence: the last soft policy, the step being tried, and the averages for bounds."""

    Theta: Float[np.ndarray, "n"]
    z: Float[np.ndarray, "n"]
    value: float  # V_0(Theta)
    x: Float[np.ndarray, "n"]
    smoothness: float
    mean: Float[np.ndarray, "n"]
    mean_gamma: Float[np.ndarray, "m"]
    far: Float[np.ndarray, "n"]
    far_gamma: Float[np.ndarray, "m"]
    far_weight: float = 0.0
    k: int = 0
    tries: int = 0
    trial: Place | None = None  # v, with the slope G there
    step: Float[np.ndarray, "n"] | None = None
    plain: bool = False  # bounds are better at the latest point than at the averages


@final
@dataclass(frozen=True, eq=False)
class Sequence:
    """All that is carried from plan to plan."""

    phase: Phase
    count: int = 0  # plans so far
    shift: Float[np.ndarray, "n"] | None = None  # keeps images that are always 0 inside the domain
    room: Duals[ConicColumns] | None = None  # of the player that looks for a Slater point
    columns: Columns | None = None
    asked: tuple[Place, ...] = ()  # places of the bounds to be taken, the next one first
    found: tuple[float, ...] = ()  # those taken in this round
    momentum: Momentum | None = None


@final
@dataclass(frozen=True)
class Proximal(AbstractDual[ConvexProgram, Sequence]):
    """Settings of the method; found by trial on grids and random graphs (docs/performance.md).

    Args:
        gap: the gap that is wanted, which says how exactly the master must be solved.
        relative: whether it is relative to the objective.
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
    master: NewtonMaster = field(default_factory=NewtonMaster)

    def init(self, program: ConvexProgram) -> Duals[Sequence]:
        """Ask for the uniform policy: the soft one at no cost."""
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
            memory=Sequence(Phase.ANCHOR),
        )

    def step(self, program: ConvexProgram, duals: Duals[Sequence], plan: Plan) -> Duals[Sequence]:
        """Use the plan for what it was made for, and say what the next one is for."""
        smooth = program.smooth
        assert smooth is not None  # the caller checks
        memory = replace(duals.memory, count=duals.memory.count + 1)
        duals = replace(duals, memory=memory, weights=np.append(duals.weights, 0.0))
        y = program.image(plan.embedding)
        if memory.shift is not None:
            y = y + memory.shift
        turn: dict[Phase, Callable[..., Duals[Sequence]]] = {
            Phase.ANCHOR: self._after_anchor,
            Phase.SLATER: self._after_slater,
            Phase.HARD: self._after_hard,
            Phase.SOFT: self._after_soft,
            Phase.BOUND: self._after_bound,
        }
        duals = turn[memory.phase](program, smooth, duals, y, plan)
        return replace(duals, kept=_kept(duals))

    # What every phase does with its plan.

    def _after_anchor(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence], y: np.ndarray, plan: Plan
    ) -> Duals[Sequence]:
        # A state that no policy reaches has visits 0, where an entropy has no derivative; a number this small has one.
        shift = np.where(y == 0, 1e-30, 0.0)
        columns = self.master.start(y + shift, 0, program.units.size)
        duals = replace(duals, memory=replace(duals.memory, shift=shift, columns=columns))
        if program.violation is None:
            return self._corrected(program, smooth, duals)
        room = ConicCorrective().init(_only_violation(program))
        duals = replace(duals, memory=replace(duals.memory, phase=Phase.SLATER, room=room))
        return self._after_slater(program, smooth, duals, y + shift, plan)

    def _after_slater(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence], y: np.ndarray, plan: Plan
    ) -> Duals[Sequence]:
        """Let the corrective player look for room; start the master from the mixture that it finds."""
        del y
        assert duals.memory.room is not None  # this phase has it
        room = ConicCorrective().step(_only_violation(program), duals.memory.room, plan)
        slater = room.memory.slater
        duals = replace(duals, memory=replace(duals.memory, room=room), conflict=room.conflict)
        if slater is None:
            duals = replace(duals, weights=room.weights, g=room.g, f=room.f, stalled=room.stalled)
            return replace(duals, theta=room.theta, soft=False)
        used = np.flatnonzero(slater.weights)
        columns = duals.memory.columns
        assert columns is not None  # from the first plan on
        columns = self._with_slater(smooth, columns, Mix(used, slater.weights[used]), room.memory.Y)
        memory = replace(duals.memory, columns=columns, room=None)
        return self._corrected(program, smooth, self._improved(smooth, replace(duals, memory=memory)))

    def _with_slater(self, smooth: AbstractSmooth, columns: Columns, mix: Mix, Y: Float[np.ndarray, "k n"]) -> Columns:
        """The Slater point as a column, all weight on it, and the plans that led to it."""
        shift = columns.points[0] - Y[0]
        if mix.plans.tolist() == [0]:  # the uniform policy itself
            return columns._replace(slater=0)
        point, least = mix.weights @ Y[mix.plans] + shift, self.master.anchor_weight
        columns = self.master.add(smooth, columns, point, mix)
        if len(columns.points) == 1:  # next to nothing but the uniform policy
            return columns._replace(slater=0)
        weights = np.array([least, 1 - least])
        columns = columns._replace(slater=1, weights=weights, x=_blend(columns, weights))
        for i in range(1, len(Y)):
            columns = self.master.add(smooth, columns, Y[i] + shift, _plan(i))
        return self.master.solve(smooth, columns, 1e-9)

    def _after_hard(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence], y: np.ndarray, plan: Plan
    ) -> Duals[Sequence]:
        del plan
        duals = self._bounded(duals, y)
        duals = self._with_column(program, smooth, duals, y)
        if len(duals.memory.found) < self.hard_steps:
            return self._corrected(program, smooth, duals)
        return self._first_soft(program, smooth, duals)

    def _after_soft(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence], y: np.ndarray, plan: Plan
    ) -> Duals[Sequence]:
        memory, momentum = duals.memory, duals.memory.momentum
        assert momentum is not None and momentum.trial is not None and momentum.step is not None  # noqa: PT018
        share, v, G = self._share(momentum.k), momentum.trial.q, momentum.trial.slope
        divergence = max(plan.value - momentum.value - float(momentum.step @ (y - self._origin(program, memory))), 0.0)
        ahead = (1 - share) * momentum.x + share * y
        values = smooth.values(ahead)
        rise = float(values[0] + momentum.trial.gamma @ values[1:]) - momentum.trial.level - float(G @ (ahead - v))
        allowed = share * share * momentum.smoothness * divergence + 1e-14 * abs(momentum.trial.level)
        if not rise <= allowed and momentum.tries < _TRIES:
            momentum = replace(momentum, smoothness=self.grow * momentum.smoothness, tries=momentum.tries + 1)
            return self._try(program, replace(duals, memory=replace(memory, momentum=momentum)))
        weight = (1 / (share * momentum.smoothness)) ** self.bound_power
        far_weight = momentum.far_weight + weight
        momentum = replace(
            momentum,
            Theta=momentum.Theta + momentum.step,
            z=y,
            value=plan.value,
            smoothness=self.shrink * momentum.smoothness,
            far=momentum.far + weight / far_weight * (v - momentum.far),
            far_gamma=momentum.far_gamma + weight / far_weight * (momentum.trial.gamma - momentum.far_gamma),
            far_weight=far_weight,
            k=momentum.k + 1,
            tries=0,
        )
        duals = self._with_column(program, smooth, replace(duals, memory=replace(memory, momentum=momentum)), y)
        return self._averaged(program, smooth, duals)

    def _after_bound(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence], y: np.ndarray, plan: Plan
    ) -> Duals[Sequence]:
        del plan
        duals = self._bounded(duals, y)
        memory, momentum = duals.memory, duals.memory.momentum
        assert memory.columns is not None and momentum is not None  # noqa: PT018 - this phase has both
        columns = self.master.add(smooth, memory.columns, y, _plan(memory.count - 1))
        memory = replace(memory, columns=columns)
        if memory.asked:
            return self._ask(program, replace(duals, memory=memory))
        if len(memory.found) == 2:
            momentum = replace(momentum, plain=memory.found[1] > memory.found[0])
        memory = replace(memory, found=(), momentum=momentum)
        return self._next_soft(program, smooth, replace(duals, memory=memory))

    # What they have in common.

    def _corrected(self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence]) -> Duals[Sequence]:
        """Ask for the plan of a plain corrective step."""
        memory = duals.memory
        assert memory.columns is not None  # from the first plan on
        if not duals.feasible:
            duals = self._improved(smooth, duals)
        place = _place(smooth, memory.columns.x, memory.columns.gamma)
        return self._ask(program, replace(duals, memory=replace(memory, phase=Phase.HARD, asked=(place,))))

    def _with_column(
        self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence], y: np.ndarray
    ) -> Duals[Sequence]:
        """Add the plan to the master, solve it, and take its point where that is better."""
        memory = duals.memory
        assert memory.columns is not None  # from the first plan on
        columns = self.master.add(smooth, memory.columns, y, _plan(memory.count - 1))
        columns = self.master.solve(smooth, columns, self._accuracy(duals))
        return self._improved(smooth, replace(duals, memory=replace(memory, columns=columns)))

    def _improved(self, smooth: AbstractSmooth, duals: Duals[Sequence]) -> Duals[Sequence]:
        """The master's point, repaired with the Slater column, if it is feasible and the best so far."""
        columns = duals.memory.columns
        assert columns is not None  # from the first plan on
        weights, values = _repaired(smooth, columns)
        better = values[0] < duals.f or not duals.feasible
        if not better or np.max(values[1:], initial=0.0) > 0.0:
            return duals
        return _at(duals, values, _over_plans(columns, weights, duals.memory.count), feasible=True)

    def _bounded(self, duals: Duals[Sequence], y: np.ndarray) -> Duals[Sequence]:
        """The bound that an exact plan proves at the place it was asked for."""
        memory = duals.memory
        place, *rest = memory.asked
        value = place.level + float(place.slope @ (y - place.q))
        if value > duals.optimum.value:
            duals = replace(duals, optimum=Bound(value, place.gamma, place.q))
        memory = replace(memory, asked=tuple(rest), found=(*memory.found, value))
        return replace(duals, memory=memory)

    def _first_soft(self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence]) -> Duals[Sequence]:
        memory = duals.memory
        columns = memory.columns
        assert columns is not None  # from the first plan on
        anchor, n = columns.points[0], columns.x.size
        size = abs(duals.f) if duals.feasible else 1.0
        gap = duals.f - duals.optimum.value if duals.feasible and np.isfinite(duals.optimum.value) else size
        momentum = Momentum(
            Theta=np.zeros(n),
            z=anchor,
            value=0.0,
            x=anchor,
            smoothness=max(self.first_smoothness * size, 1e-3 * gap, 1e-12),
            mean=columns.x,
            mean_gamma=columns.gamma,
            far=columns.x,
            far_gamma=columns.gamma,
        )
        return self._next_soft(program, smooth, replace(duals, memory=replace(memory, momentum=momentum, found=())))

    def _next_soft(self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence]) -> Duals[Sequence]:
        """Extrapolate, and try a proximal step from there."""
        memory, momentum = duals.memory, duals.memory.momentum
        assert memory.columns is not None and momentum is not None  # noqa: PT018 - this phase has both
        share = self._share(momentum.k)
        v = (1 - share) * momentum.x + share * momentum.z
        momentum = replace(momentum, trial=_place(smooth, v, memory.columns.gamma))
        return self._try(program, replace(duals, memory=replace(memory, momentum=momentum)))

    def _try(self, program: ConvexProgram, duals: Duals[Sequence]) -> Duals[Sequence]:
        memory, momentum = duals.memory, duals.memory.momentum
        assert momentum is not None and momentum.trial is not None  # noqa: PT018 - this phase has both
        step = momentum.trial.slope / (self._share(momentum.k) * momentum.smoothness)
        memory = replace(memory, phase=Phase.SOFT, momentum=replace(momentum, step=step))
        return replace(duals, theta=program.image.adjoint(momentum.Theta + step), soft=True, memory=memory)

    def _averaged(self, program: ConvexProgram, smooth: AbstractSmooth, duals: Duals[Sequence]) -> Duals[Sequence]:
        """Update the means; every few steps ask for a bound there, else go on."""
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
            return self._next_soft(program, smooth, duals)
        middle = 0.5 * (momentum.mean + momentum.far), 0.5 * (momentum.mean_gamma + momentum.far_gamma)
        compare = momentum.k % self.compare_every == 0
        pairs = [middle, (x, gamma)] if compare else [(x, gamma) if momentum.plain else middle]
        asked = tuple(_place(smooth, *pair) for pair in pairs)
        memory = replace(duals.memory, phase=Phase.BOUND, asked=asked, found=())
        return self._ask(program, replace(duals, memory=memory))

    def _ask(self, program: ConvexProgram, duals: Duals[Sequence]) -> Duals[Sequence]:
        """Ask for the exact plan of the first place."""
        return replace(duals, theta=program.image.adjoint(duals.memory.asked[0].slope), soft=False)

    def _share(self, k: int) -> float:
        return self.momentum / (k + self.momentum)

    def _origin(self, program: ConvexProgram, memory: Sequence) -> Float[np.ndarray, "n"]:
        """Images are affine, y = B Psi + b; a cost pays for B Psi alone."""
        return program.image.offset + (0.0 if memory.shift is None else memory.shift)

    def _accuracy(self, duals: Duals[Sequence]) -> float:
        """How well the master should be solved now, in units of f."""
        size = abs(duals.f) if duals.feasible else 1.0
        aim = 0.05 * self.gap * (size if self.relative else 1.0)
        present = 1e-3 * (duals.f - duals.optimum.value) if duals.feasible else np.inf
        if not np.isfinite(present):
            return 1e-9 * max(size, 1e-3)
        # Where f* is 0 the bound errs like the root of the master's error.
        factor = 1e-4 if size < 1e-3 else 1.0
        return factor * max(aim, present)


def _only_violation(program: ConvexProgram) -> ConvexProgram:
    """The search for a feasible point alone: what comes after it is not the corrective player's business."""
    assert program.violation is not None  # there are constraints
    return replace(program, main=program.violation)


def _plan(index: int) -> Mix:
    return Mix(np.array([index]), np.ones(1))


def _place(smooth: AbstractSmooth, q: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"]) -> Place:
    values, gradients = smooth.gradients(q)
    return Place(q, gamma, float(values[0] + gamma @ values[1:]), gradients[0] + gamma @ gradients[1:])


def _kept(duals: Duals[Sequence]) -> frozenset[int] | None:
    """The plans that a column or the best mixture is made of; all of them while there is no master yet."""
    columns = duals.memory.columns
    if columns is None or duals.memory.room is not None:
        return None
    in_columns = {int(i) for mix in columns.mixes for i in mix.plans}
    return frozenset(in_columns.union(np.flatnonzero(duals.weights).tolist()))


def _blend(columns: Columns, weights: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n"]:
    used = np.flatnonzero(weights)
    return np.sum([weights[i] * columns.points[i] for i in used], axis=0)


def _mix(columns: Columns, weights: Float[np.ndarray, "k"]) -> Mix:
    """The plans of a mixture of columns."""
    used = np.flatnonzero(weights)
    plans = np.concatenate([columns.mixes[i].plans for i in used])
    return Mix(plans, np.concatenate([weights[i] * columns.mixes[i].weights for i in used]))


def _over_plans(columns: Columns, weights: Float[np.ndarray, "k"], count: int) -> Float[np.ndarray, "plans"]:
    mix, total = _mix(columns, weights), np.zeros(count)
    np.add.at(total, mix.plans, mix.weights)
    return total / total.sum()


def _at(
    duals: Duals[Sequence], values: Float[np.ndarray, "r"], weights: Float[np.ndarray, "plans"], *, feasible: bool
) -> Duals[Sequence]:
    return replace(duals, f=float(values[0]), g=values[1:], weights=weights, feasible=feasible)


def _repaired(smooth: AbstractSmooth, columns: Columns) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "r"]]:
    """The master's weights with as little of the Slater column as keeps every constraint, and f and g there."""
    weights, values = columns.weights, smooth.values(columns.x)
    if np.max(values[1:], initial=0.0) <= 0.0 or columns.slater is None:
        return weights, values
    room = -smooth.values(columns.points[columns.slater])[1:]
    share = max(over / (over + r) for over, r in zip(values[1:], room, strict=True) if over > 0)
    mixed = weights
    for _ in range(30):
        share = min(1.0, share * (1 + 1e-3) + 1e-15)
        mixed = (1 - share) * weights
        mixed[columns.slater] += share
        values = smooth.values(_blend(columns, mixed))
        if np.max(values[1:]) <= 0.0:
            break
    return mixed, values
