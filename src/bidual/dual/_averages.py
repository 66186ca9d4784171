"""Parts shared by dual players that average: the uniform mixture of plans, its repair, and the times of bounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float

from bidual.dual._base import Bound, Duals
from bidual.problem.convex import VariationalProgram

State = TypeVar("State")

_ENOUGH = 16  # least number of multipliers in an average that counts, in the first round
_HALVINGS = 60  # of the interval for the share of the Slater point: to the last digit


@final
@dataclass(frozen=True, eq=False)
class Averages(Generic[State]):
    """The plans of the iterations so far, and the player's own state."""

    state: State
    known: int  # plans from before, the members of the Slater point
    slater: Float[np.ndarray, "n"] | None  # its image
    y: Float[np.ndarray, "n"]  # the mean image of the iterations' plans
    Gamma: float  # the multipliers' bound of this round
    enough: int = _ENOUGH  # iterations before it may be doubled
    since: int = 0  # the first plan of this round
    t: int = 0  # its iterations so far
    bounding: bool = False  # the next plan is for a bound, not for an iteration
    bound_plans: tuple[int, ...] = ()  # the plans for bounds so far
    next_bound: int = 1


def start_averaging(
    program: VariationalProgram, state: State, known: Float[np.ndarray, "k n"], Gamma: float
) -> Duals[Averages[State]]:
    """Return the state before the first iteration; `known` are the images of plans from before."""
    m, n = program.units.size, program.image.size
    weights, slater = np.zeros(len(known)), None
    if program.slater is not None:
        weights, slater = program.slater.weights, program.slater.weights @ known
    duals = Duals(
        theta=program.image.adjoint(np.zeros(n)),
        soft=False,
        weights=weights,
        feasible=False,
        f=np.inf,
        g=np.full(m, np.inf),
        auxiliary=np.zeros(0),
        optimum=Bound(-np.inf, np.zeros(m), slope=np.zeros(n)),
        conflict=Bound(0.0, np.zeros(m)),
        stalled=False,
        memory=Averages(state, len(known), slater, np.zeros(n), Gamma),
    )
    if slater is None:
        return duals
    f, g = program.values(slater)
    return replace(duals, f=f, g=g, feasible=bool(np.all(program.violations(g) <= program.tolerances)))


def count_plan(duals: Duals[Averages[State]], y: Float[np.ndarray, "n"]) -> Duals[Averages[State]]:
    """Count one more iteration, whose plan has the image y."""
    memory = duals.memory
    t = memory.t + 1
    memory = replace(memory, t=t, y=memory.y + (y - memory.y) / t)
    return replace(duals, memory=memory, weights=np.append(duals.weights, 0.0))


def record_bound(duals: Duals[Averages[State]], bound: Bound, growth: float) -> Duals[Averages[State]]:
    """Record the bound of a plan that was computed for one: the plan is part of no mixture."""
    memory = duals.memory
    bound_plans = (*memory.bound_plans, duals.weights.size)
    memory = replace(
        memory, bounding=False, bound_plans=bound_plans, next_bound=max(memory.t + 1, math.ceil(growth * memory.t))
    )
    return replace(raise_bound(duals, bound), memory=memory, weights=np.append(duals.weights, 0.0))


def outgrows_Gamma(memory: Averages[State], gamma: Sequence[float] | Float[np.ndarray, "m"]) -> bool:
    """Check whether the averages of enough multipliers exceed half of Gamma."""
    return memory.t >= memory.enough and float(np.max(np.abs(gamma), initial=0.0)) > memory.Gamma / 2


def restart_with_double_Gamma(duals: Duals[Averages[State]], state: State) -> Duals[Averages[State]]:
    """Start a new round with twice the bound on multipliers, at least twice as long; proved bounds stay.

    Steps are proportional to the bound. Without the longer minimum a round that began with too long ones would be
    taken for one whose bound is too small, and so would the next, without end.
    """
    memory = duals.memory
    anew = Averages(state, memory.known, memory.slater, np.zeros_like(memory.y), 2 * memory.Gamma, 2 * memory.enough)
    return replace(duals, memory=replace(anew, since=duals.weights.size, bound_plans=memory.bound_plans))


def raise_bound(duals: Duals[Averages[State]], bound: Bound) -> Duals[Averages[State]]:
    """Keep the higher of two bounds."""
    return replace(duals, optimum=bound) if bound.value > duals.optimum.value else duals


def mix_plans(program: VariationalProgram, duals: Duals[Averages[State]]) -> Duals[Averages[State]]:
    """Mix the iterations' plans uniformly, with as little of the Slater point as satisfies the constraints.

    The paper's mixture violates a constraint by O(1 / sqrt t). A share of that size of a policy that keeps it with
    room repairs it, and costs no more than that in the objective.
    """
    memory = duals.memory
    share = _share(program, memory)
    y = memory.y if memory.slater is None else (1 - share) * memory.y + share * memory.slater
    f, g = program.values(y)
    feasible = bool(np.all(program.violations(g) <= program.tolerances))
    if not _improves(program, duals, f, g, feasible=feasible):
        return duals
    weights = np.zeros_like(duals.weights)
    mine = np.ones(weights.size, dtype=bool)
    mine[: max(memory.known, memory.since)] = False
    mine[list(memory.bound_plans)] = False
    weights[mine] = (1 - share) / mine.sum()
    if program.slater is not None:
        weights[: memory.known] += share * program.slater.weights
    return replace(duals, weights=weights / weights.sum(), f=f, g=g, feasible=feasible)


def _improves(
    program: VariationalProgram, duals: Duals[Averages[State]], f: float, g: Float[np.ndarray, "m"], *, feasible: bool
) -> bool:
    """Check whether a mixture improves: feasible before infeasible, then by the objective or the violation."""
    if feasible or duals.feasible:
        return feasible and not (duals.feasible and f >= duals.f)
    now, before = (float(np.max(program.violations(v) / program.units)) for v in (g, duals.g))
    return duals.memory.since == 0 or now < before


def _share(program: VariationalProgram, memory: Averages[State]) -> float:
    """Compute the least share of the Slater point with which every inequality holds that has room there, by bisection.

    Where constraints over auxiliary variables leave no room, as membership in a flat set, there is nothing to mix in.
    """
    if memory.slater is None:
        return 0.0
    roomy = ~program.equality & (np.array([term.value(memory.slater) for term in program.g]) < 0)
    if _find_worst(program, roomy, memory.y) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        over = _find_worst(program, roomy, (1 - middle) * memory.y + middle * memory.slater) > 0
        low, high = (middle, high) if over else (low, middle)
    return high


def _find_worst(program: VariationalProgram, roomy: Bool[np.ndarray, "m"], y: Float[np.ndarray, "n"]) -> float:
    g = np.array([term.value(y) for term in program.g])
    return float(np.max(g[roomy], initial=-np.inf))
