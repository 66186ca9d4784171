"""The result of a search: an output policy, its certificate, and both as a `Solution`."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from bidual._base.status import Status
from bidual.certificate import (
    Certificate,
    Evidence,
    Record,
    bound_floor,
    certify,
    read_multipliers,
    with_potential,
)
from bidual.certificate.constraints import Goal, derive_status, find_conflict, list_constraint_results
from bidual.dual import Bound, Duals
from bidual.planners import AbstractSoftPlanner, Plan, choose_exact_planner
from bidual.problem.convex import (
    AbstractProgram,
    ConvexProgram,
    VariationalProgram,
    find_floor_multipliers,
    find_interior,
    find_multipliers_of_slope,
    repair_multipliers,
)
from bidual.problem.modelling import Line
from bidual.solving.infeasibility import find_smallest_clash
from bidual.solving.search import CompiledProblem, Instance, Search
from bidual.solving.solution import Solution
from bidual.solving.stopping import is_in_conflict
from bidual.world.policies import MarkovPolicy, Mixture, collapse, from_occupancy

_CARRIED = 1e-6  # of a slope, which the multipliers of a box may carry


def build_solution(
    compiled: CompiledProblem,
    world: Instance,
    found: Search,
    goal: Goal,
    planner: AbstractSoftPlanner[Any] | None = None,
) -> Solution:
    """Compute the output policy of a search and its certificate, and return both as a `Solution`."""
    program, lines, maximises, total, variational = compiled
    planner = planner or choose_exact_planner(world.model)
    plans = [None if reply is None else reply.plan for reply in found.replies]
    mixture, duals = build_mixture(world, planner, plans, found.duals.weights), found.duals
    clashes = _find_clashes(program, world, planner, duals, lines) if is_in_conflict(duals) else []
    bounds = record_of(program, _convert_bound(program, world, variational, duals.optimum), 1.0)
    policy = collapse(mixture, world.mdp)
    evidence, certificate = _certify_policy(program, world, policy, duals.auxiliary, [*clashes, bounds])
    if _may_be_below_its_floor(program, certificate, goal):
        evidence, certificate = _certify_with_floor(evidence, certificate)
    evidence = _without_useless_multipliers(evidence, certificate)
    # Where a default goal is below what arithmetic can tell of the value, that will do.
    goal = goal._replace(floor=max(goal.floor, 8 * (certificate.upper - certificate.value))) if goal.floor else goal
    # By the bounds as they are: where limits hold to a rounding, the policy may undercut what is proved of exact ones.
    goal = goal.settled(certificate.lower, certificate.upper if certificate.feasible(program) else None)
    status = derive_status(program, certificate, goal)
    lower, upper = certificate.bounds(program, maximises=maximises)
    gamma = read_multipliers(program, evidence.record) if status is Status.OPTIMAL else None
    return Solution(
        status=status,
        sense="maximize" if maximises else "minimize",
        value=(-certificate.value if maximises else certificate.value) + 0.0,  # no -0.0
        lower=lower,
        upper=upper,
        constraints=list_constraint_results(lines, certificate, gamma, program.tolerances),
        conflict=find_conflict(lines, program, certificate, evidence.record),
        policy=evidence.policy,
        mixture=mixture,
        embedding=certificate.embedding.sum(axis=0) if total else certificate.embedding,
        visits=certificate.visits,
        history=found.history,
        plans=found.plans,
        seconds=time.perf_counter() - found.started,
        evidence=evidence,
        lines=lines,
        goal=goal,
    )


def build_mixture(
    world: Instance, planner: AbstractSoftPlanner[Any], plans: Sequence[Plan | None], weights: Float[np.ndarray, "k"]
) -> Mixture:
    """Build the mixture of the plans; with soft policies among them, the one Markov policy that it equals."""
    model, mdp = world.model, world.mdp
    used = _merge_equal([(float(weights[i]), plans[i]) for i in np.flatnonzero(weights).tolist()])
    actions = [plan.actions for _, plan in used if plan is not None and plan.actions is not None]
    if len(actions) == len(used):
        weights = np.array([weight for weight, _ in used])
        return Mixture(weights, tuple(model.policy(one) for one in actions), mdp.names)
    table = np.zeros((mdp.horizon, mdp.num_actions, model.kept.size))
    for weight, plan in used:
        assert plan is not None  # a plan with weight is kept
        table += weight * planner.occupancy(model, world.layout, plan)
    return Mixture(np.ones(1), (from_occupancy(model.spread(table), mdp),), mdp.names)


def _merge_equal(used: Sequence[tuple[float, Plan | None]]) -> list[tuple[float, Plan | None]]:
    """Merge equal plans and add their weights: thousands of gradient steps lead to a few hundred plans."""
    found: dict[bytes | int, tuple[float, Plan | None]] = {}
    for weight, plan in used:
        key = id(plan) if plan is None or plan.actions is None else np.asarray(plan.actions).tobytes()
        found[key] = (weight + found[key][0] if key in found else weight, plan)
    return list(found.values())


def _certify_policy(
    program: AbstractProgram,
    world: Instance,
    policy: MarkovPolicy,
    auxiliary: Float[np.ndarray, "a"],
    proofs: Sequence[Record],
) -> tuple[Evidence, Certificate]:
    """Certify the first clash that passes the check, else the bounds of the policy, the last of the proofs."""
    every = (Evidence(program, world.psi, world.mdp, policy, record, auxiliary) for record in proofs)
    *clashes, last = (with_potential(evidence) for evidence in every)
    for evidence in clashes:
        certificate = certify(evidence)
        if certificate.conflict is not None and certificate.conflict > 0:
            return evidence, certificate
    return last, certify(last)


def _may_be_below_its_floor(program: AbstractProgram, certificate: Certificate, goal: Goal) -> bool:
    """Check whether the floor may be the better bound: the gap is open, or the bounds have 0 between them."""
    if program.curved is None or certificate.conflict is not None:
        return False
    lower = certificate.lower
    return (
        derive_status(program, certificate, goal) is not Status.OPTIMAL
        or lower is None
        or lower < 0 <= certificate.upper
    )


def _certify_with_floor(evidence: Evidence, certificate: Certificate) -> tuple[Evidence, Certificate]:
    """Certify with the floor's multipliers as well, and return the better bound of the two."""
    program = evidence.program.curved
    lam = None if program is None else find_floor_multipliers(program.main)
    if lam is None:
        return evidence, certificate
    raised = with_potential(replace(evidence, record=record_of(evidence.program, Bound(0.0, lam), 1.0)))
    again = certify(raised)
    better = again.lower is not None and (certificate.lower is None or again.lower > certificate.lower)
    return (raised, again) if better else (evidence, certificate)


def _without_useless_multipliers(evidence: Evidence, certificate: Certificate) -> Evidence:
    """Return the evidence without its multipliers where they prove no more than the floor: it needs no limit."""
    program = evidence.program.curved
    if program is None or certificate.lower is None:
        return evidence
    proves_more = certificate.lower > bound_floor(program, evidence.psi, evidence.mdp)
    return evidence if proves_more else replace(evidence, record=Record(np.zeros(0), 1.0))


def _find_clashes(
    program: AbstractProgram,
    world: Instance,
    planner: AbstractSoftPlanner[Any],
    duals: Duals[Any],
    lines: Sequence[Line],
) -> list[Record]:
    """Return proofs that the constraints clash, the one that rests on the fewest of them first."""
    whole = record_of(program, duals.conflict, 0.0)
    if program.curved is None or len(lines) == 1:
        return [whole]
    bound, dropped = find_smallest_clash(program.curved, world.layout, world.model, planner, duals.conflict, lines)
    return [record_of(program, bound, 0.0, dropped), whole]


def _convert_bound(
    program: AbstractProgram, world: Instance, variational: VariationalProgram | None, bound: Bound
) -> Bound:
    """Convert a bound by conjugates or gradients to multipliers of the cone form, the only ones that prove."""
    curved = program.curved
    if curved is None or (bound.slope is None and bound.point is None):
        return bound
    slope = _compute_slope(curved, bound) if bound.slope is None else bound.slope
    boxes = _find_boxes(curved, world, bound.point) if variational is None else [variational.bounds()]
    found, least = np.zeros(0), np.inf
    for box in boxes:
        try:
            lam = find_multipliers_of_slope(curved.main, slope, *box)
        except np.linalg.LinAlgError:
            continue
        # Where all points that keep the constraints are at the box's edge, its own multipliers carry the slope.
        missed = float(np.abs(curved.main.slope(lam) - slope).max(initial=0.0))
        found, least = (lam, missed) if missed < least else (found, least)
        if least <= _CARRIED * np.abs(slope).max(initial=0.0):
            break
    return Bound(bound.value if found.size else -np.inf, found)


def _compute_slope(program: ConvexProgram, bound: Bound) -> Float[np.ndarray, "n"]:
    """Return the slope of f + gamma . g at the point of a bound by gradients."""
    assert program.smooth is not None and bound.point is not None  # noqa: PT018 - only smooth functions have such bounds
    _, gradients = program.smooth.gradients(bound.point)
    return gradients[0] + bound.gamma @ gradients[1:]


def _find_boxes(
    program: ConvexProgram, world: Instance, point: Float[np.ndarray, "n"] | None
) -> list[tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]]:
    """Find boxes around the point where f + gamma . g - slope . y is least, the narrow one first.

    Any box with room around it is right, for the multipliers of the box are dropped; in one that is as wide as the
    images of policies Clarabel errs a thousand times more where a power of 2000 numbers is minimised. But the point
    need not keep the constraints, and near it there may be none that does: then the wide box is needed.
    """
    assert point is not None
    peaks = np.broadcast_to(world.psi.peaks(world.mdp.scale), (program.horizon, world.psi.dimension))
    width = program.image.spread(peaks)
    room = 0.1 * np.abs(point) + 1e-6 * np.where(width > 0, width, 1.0)
    wide = np.abs(point) + np.abs(program.image.offset) + 2 * np.where(width > 0, width, 1.0)
    return [(point - room, point + room), (point - wide, point + wide)]


def record_of(
    program: AbstractProgram,
    bound: Bound,
    objective_weight: float,
    dropped: Bool[np.ndarray, "r"] | None = None,
) -> Record:
    """Return the multipliers as a record; for a cone form repaired to exact dual feasibility, or none if that fails."""
    if program.curved is None:
        return Record(bound.gamma, objective_weight)
    if not math.isfinite(bound.value):
        return Record(np.zeros(0), objective_weight)
    form = program.curved.form(objective_weight)
    assert form is not None  # only a form has multipliers
    form, unit = form.with_moderate_costs()
    inner = find_interior(form, dropped)
    fixed = None if inner is None else repair_multipliers(form, bound.gamma / unit, inner)
    return Record(np.zeros(0) if fixed is None else unit * fixed, objective_weight)
