"""What the proximal player carries from plan to plan, and the points, places and mixtures that are made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

import numpy as np
from jaxtyping import Float

from bidual.dual._base import Bound, Duals
from bidual.dual._columns import Mix, NewtonColumns
from bidual.dual._conic_corrective import ConicColumns
from bidual.dual._newton_master import NewtonMaster
from bidual.problem.convex import AbstractSmooth, ConvexProgram


class Phase(Enum):
    """The purposes of the next plan."""

    ANCHOR = "the uniform policy"
    SLATER = "a point that keeps the constraints with room"
    HARD = "a corrective step"
    SOFT = "a proximal step"
    BOUND = "a lower bound"
    CONIC = "a step of the conic player, to which a search that stalled is handed over"


@final
@dataclass(frozen=True, eq=False)
class ProximalPoint:
    """A point and multipliers of a bound, and the slope there."""

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
    trial: ProximalPoint | None = None  # v, with the slope G there
    step: Float[np.ndarray, "n"] | None = None
    plain: bool = False  # bounds are better at the latest point than at the averages


@final
@dataclass(frozen=True, eq=False)
class ProximalState:
    """The state between plans."""

    phase: Phase
    count: int = 0  # plans so far
    shift: Float[np.ndarray, "n"] | None = None  # keeps images that are always 0 inside the domain
    room: Duals[ConicColumns] | None = None  # of the player that searches a Slater point
    columns: NewtonColumns | None = None
    asked: tuple[ProximalPoint, ...] = ()  # places of the bounds to come, the next one first
    found: tuple[float, ...] = ()  # the bounds of this round
    momentum: Momentum | None = None
    least_gap: float = np.inf  # when it last shrank
    idle: int = 0  # bounds since then
    conic: Duals[ConicColumns] | None = None  # of the player that has taken over
    mixes: tuple[Mix, ...] = ()  # its columns, in plans


def drop_objective(program: ConvexProgram) -> ConvexProgram:
    """The search for a feasible point alone: what comes after it is not the corrective player's business."""
    assert program.violation is not None  # there are constraints
    return replace(program, main=program.violation)


def mix_single_plan(index: int) -> Mix:
    """Return the mixture of one plan."""
    return Mix(np.array([index]), np.ones(1))


def place_at(smooth: AbstractSmooth, q: Float[np.ndarray, "n"], gamma: Float[np.ndarray, "m"]) -> ProximalPoint:
    """Return the place of a bound: f + gamma . g at a point, and its slope there."""
    values, gradients = smooth.gradients(q)
    return ProximalPoint(q, gamma, float(values[0] + gamma @ values[1:]), gradients[0] + gamma @ gradients[1:])


def collect_used_plans(duals: Duals[ProximalState]) -> frozenset[int] | None:
    """The plans that a column or the best mixture is made of; all of them while there is no master yet."""
    memory = duals.memory
    mixes = memory.mixes if memory.conic is not None or memory.columns is None else memory.columns.mixes
    if memory.room is not None or not mixes:
        return None
    in_columns = {int(i) for mix in mixes for i in mix.plans}
    return frozenset(in_columns.union(np.flatnonzero(duals.weights).tolist()))


def blend(columns: NewtonColumns, weights: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n"]:
    """Return the point of a mixture of columns."""
    used = np.flatnonzero(weights)
    return np.sum([weights[i] * columns.points[i] for i in used], axis=0)


def compute_plan_weights(
    mixes: Sequence[Mix], weights: Float[np.ndarray, "k"], count: int
) -> Float[np.ndarray, "plans"]:
    """Return the weights of all plans in a mixture of columns, each of them a mixture of plans."""
    total = np.zeros(count)
    for i in np.flatnonzero(weights).tolist():
        np.add.at(total, mixes[i].plans, weights[i] * mixes[i].weights)
    return total / total.sum()


def with_values(
    duals: Duals[ProximalState], values: Float[np.ndarray, "r"], weights: Float[np.ndarray, "plans"], *, feasible: bool
) -> Duals[ProximalState]:
    """Return the duals with this mixture as their best."""
    return replace(duals, f=float(values[0]), g=values[1:], weights=weights, feasible=feasible)


def repair(smooth: AbstractSmooth, columns: NewtonColumns) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "r"]]:
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
        values = smooth.values(blend(columns, mixed))
        if np.max(values[1:]) <= 0.0:
            break
    return mixed, values


def with_bound(duals: Duals[ProximalState], y: np.ndarray) -> Duals[ProximalState]:
    """The bound that an exact plan proves at the place it was asked for."""
    memory = duals.memory
    place, *rest = memory.asked
    value = place.level + float(place.slope @ (y - place.q))
    if value > duals.optimum.value:
        duals = replace(duals, optimum=Bound(value, place.gamma, place.q))
    memory = replace(memory, asked=tuple(rest), found=(*memory.found, value))
    return replace(duals, memory=memory)


def request_plan(program: ConvexProgram, duals: Duals[ProximalState]) -> Duals[ProximalState]:
    """Ask for the exact plan of the first place."""
    return replace(duals, theta=program.image.adjoint(duals.memory.asked[0].slope), soft=False)


def compute_origin(program: ConvexProgram, memory: ProximalState) -> Float[np.ndarray, "n"]:
    """Images are affine, y = B Psi + b; a cost pays for B Psi alone."""
    return program.image.offset + (0.0 if memory.shift is None else memory.shift)


def start_momentum(duals: Duals[ProximalState], share: float) -> Momentum:
    """The sequence at the uniform policy; L starts at this share of |f|."""
    columns = duals.memory.columns
    assert columns is not None  # from the first plan on
    anchor, n = columns.points[0], columns.x.size
    size = abs(duals.f) if duals.feasible else 1.0
    gap = duals.f - duals.optimum.value if duals.feasible and np.isfinite(duals.optimum.value) else size
    return Momentum(
        Theta=np.zeros(n),
        z=anchor,
        value=0.0,
        x=anchor,
        smoothness=max(share * size, 1e-3 * gap, 1e-12),
        mean=columns.x,
        mean_gamma=columns.gamma,
        far=columns.x,
        far_gamma=columns.gamma,
    )


def with_slater(
    master: NewtonMaster, smooth: AbstractSmooth, columns: NewtonColumns, mix: Mix, Y: Float[np.ndarray, "k n"]
) -> NewtonColumns:
    """The Slater point as a column, all weight on it, and the plans that led to it."""
    shift = columns.points[0] - Y[0]
    if mix.plans.tolist() == [0]:  # the uniform policy itself
        return columns._replace(slater=0)
    point, least = mix.weights @ Y[mix.plans] + shift, master.anchor_weight
    columns = master.add(smooth, columns, point, mix)
    if len(columns.points) == 1:  # next to nothing but the uniform policy
        return columns._replace(slater=0)
    weights = np.array([least, 1 - least])
    columns = columns._replace(slater=1, weights=weights, x=blend(columns, weights))
    for i in range(1, len(Y)):
        columns = master.add(smooth, columns, Y[i] + shift, mix_single_plan(i))
    return master.solve(smooth, columns, 1e-9)


def take_improvement(smooth: AbstractSmooth, duals: Duals[ProximalState]) -> Duals[ProximalState]:
    """Keep the master's point, repaired with the Slater column, if it is feasible and the best so far."""
    columns = duals.memory.columns
    assert columns is not None  # from the first plan on
    weights, values = repair(smooth, columns)
    better = values[0] < duals.f or not duals.feasible
    if not better or np.max(values[1:], initial=0.0) > 0.0:
        return duals
    return with_values(duals, values, compute_plan_weights(columns.mixes, weights, duals.memory.count), feasible=True)


def compute_master_accuracy(duals: Duals[ProximalState], gap: float, *, relative: bool) -> float:
    """Compute the accuracy required of the master now, in units of f."""
    size = abs(duals.f) if duals.feasible else 1.0
    aim = 0.05 * gap * (size if relative else 1.0)
    present = 1e-3 * (duals.f - duals.optimum.value) if duals.feasible else np.inf
    if not np.isfinite(present):
        return 1e-9 * max(size, 1e-3)
    # Where f* is 0 the bound errs like the root of the master's error.
    factor = 1e-4 if size < 1e-3 else 1.0
    return factor * max(aim, present)
