"""The hand-over of a proximal search that stalls to the conic player, with all that was found so far.

Gradients prove nothing near a kink: where a norm is least at 0 the multiplier that is needed is 0, and every gradient
has length 1. The multipliers of the cone form know kinks. The proximal player's columns become the conic player's,
each of them a mixture of plans; the best mixture and the best bound of either player are kept.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bidual.dual._base import Bound, Duals
from bidual.dual._columns import Mix
from bidual.dual._conic_corrective import ConicColumns, ConicCorrective
from bidual.dual._sequence import Phase, ProximalState, compute_plan_weights, mix_single_plan
from bidual.planners import Plan
from bidual.problem.convex import ConvexProgram, find_floor_multipliers

_SHRINKS = 0.9  # a gap that is below this share of the last one shrinks


def count_idle(duals: Duals[ProximalState]) -> Duals[ProximalState]:
    """Count the bounds since the gap last shrank."""
    memory = duals.memory
    gap = duals.f - duals.optimum.value if duals.feasible else np.inf
    shrunk = gap < _SHRINKS * memory.least_gap
    memory = replace(memory, least_gap=gap if shrunk else memory.least_gap, idle=0 if shrunk else memory.idle + 1)
    return replace(duals, memory=memory)


def with_floor(program: ConvexProgram, duals: Duals[ProximalState]) -> Duals[ProximalState]:
    """Return the duals with the floor of the problem as their bound, where that is better."""
    lam, columns = find_floor_multipliers(program.main), duals.memory.columns
    if lam is None or columns is None:
        return duals
    floor = program.main.constant(lam) + float(program.main.slope(lam) @ columns.x)
    return replace(duals, optimum=Bound(floor, lam)) if floor > duals.optimum.value else duals


def hand_over(program: ConvexProgram, duals: Duals[ProximalState]) -> Duals[ProximalState]:
    """Start the conic player with the columns of the master, or with all plans of the search for a Slater point."""
    memory, Y = duals.memory, np.zeros((0, program.image.size))
    mixes: tuple[Mix, ...] = ()
    if memory.room is not None:
        Y = memory.room.memory.Y
        mixes = tuple(mix_single_plan(i) for i in range(len(Y)))
    elif memory.columns is not None:
        Y = np.array(memory.columns.points) - (0.0 if memory.shift is None else memory.shift)
        mixes = memory.columns.mixes
    player = ConicCorrective()
    conic = player.resume(program, Y)
    if conic is None:
        conic, mixes = player.init(program), ()
    memory = replace(memory, phase=Phase.CONIC, room=None, columns=None)
    return _take_over(replace(duals, memory=memory), conic, mixes)


def step_conic(program: ConvexProgram, duals: Duals[ProximalState], plan: Plan) -> Duals[ProximalState]:
    """Step the conic player with the plan."""
    memory = duals.memory
    assert memory.conic is not None  # this phase has it
    conic = ConicCorrective().step(program, memory.conic, plan)
    return _take_over(duals, conic, (*memory.mixes, mix_single_plan(memory.count - 1)))


def _take_over(duals: Duals[ProximalState], conic: Duals[ConicColumns], mixes: Sequence[Mix]) -> Duals[ProximalState]:
    """Return the conic player's state as this player's, with the better mixture and the better bound."""
    memory = replace(duals.memory, conic=conic, mixes=tuple(mixes))
    better = conic.feasible >= duals.feasible and (conic.f < duals.f or not duals.feasible)
    if conic.weights.size and better:
        weights = compute_plan_weights(mixes, conic.weights, memory.count)
        duals = replace(duals, weights=weights, f=conic.f, g=conic.g, feasible=conic.feasible)
    return replace(
        duals,
        theta=conic.theta,
        soft=conic.soft,
        gamma=conic.gamma,
        optimum=max(duals.optimum, conic.optimum, key=lambda bound: bound.value),
        conflict=max(duals.conflict, conic.conflict, key=lambda bound: bound.value),
        stalled=conic.stalled,
        memory=memory,
    )
