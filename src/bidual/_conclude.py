"""What a search has shown: an output policy, its certificate, and both as a `Solution`."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from bidual._conflict import smallest_clash
from bidual._search import Search, Stated, World, in_conflict
from bidual._status import Status
from bidual.certificate import Certificate, Evidence, Record, certify, multipliers
from bidual.constraints import Goal, constraint_results, find_conflict, status_of
from bidual.convex import AffineProgram, ConvexProgram, VariationalProgram, interior, multipliers_of_slope, repaired
from bidual.dual import Bound, Duals
from bidual.models import Known
from bidual.planners import AbstractSoftPlanner, BackwardInduction, Plan
from bidual.policies import MarkovPolicy, Mixture, collapse, from_occupancy
from bidual.problem import Line
from bidual.solution import Solution


def conclude(
    stated: Stated, world: World, found: Search, goal: Goal, planner: AbstractSoftPlanner[Known] | None = None
) -> Solution:
    """The output policy of a search, its certificate, and both in words."""
    program, lines, maximises, total, variational = stated
    planner = planner or BackwardInduction()
    plans = [None if reply is None else reply.plan for reply in found.replies]
    mixture, duals = mixture_of(world, planner, plans, found.duals.weights), found.duals
    clashes = _clashes(program, world, planner, duals, lines) if in_conflict(duals) else []
    bounds = record_of(program, _provable(program, variational, duals.optimum), 1.0)
    policy = collapse(mixture, world.mdp)
    evidence, certificate = _certified(program, world, policy, duals.auxiliary, [*clashes, bounds])
    status = status_of(program, certificate, goal)
    lower, upper = certificate.bounds(program, maximises=maximises)
    gamma = multipliers(program, evidence.record) if status is Status.OPTIMAL else None
    return Solution(
        status=status,
        sense="maximize" if maximises else "minimize",
        value=(-certificate.value if maximises else certificate.value) + 0.0,  # no -0.0
        lower=lower,
        upper=upper,
        constraints=constraint_results(lines, certificate, gamma),
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


def mixture_of(
    world: World, planner: AbstractSoftPlanner[Known], plans: Sequence[Plan | None], weights: Float[np.ndarray, "k"]
) -> Mixture:
    """The mixture of the plans; where soft policies are among them, as the one Markov policy that it equals."""
    model, mdp = world.model, world.mdp
    used = _distinct([(float(weights[i]), plans[i]) for i in np.flatnonzero(weights).tolist()])
    actions = [plan.actions for _, plan in used if plan is not None and plan.actions is not None]
    if len(actions) == len(used):
        return Mixture(np.array([weight for weight, _ in used]), tuple(model.policy(one) for one in actions))
    table = np.zeros((mdp.horizon, mdp.num_actions, model.kept.size))
    for weight, plan in used:
        assert plan is not None  # a plan with weight is kept
        table += weight * planner.occupancy(model, world.layout, plan)
    return Mixture(np.ones(1), (from_occupancy(model.spread(table), mdp),))


def _distinct(used: Sequence[tuple[float, Plan | None]]) -> list[tuple[float, Plan | None]]:
    """Equal plans once, with their weights together: thousands of gradient steps lead to a few hundred plans."""
    found: dict[bytes | int, tuple[float, Plan | None]] = {}
    for weight, plan in used:
        key = id(plan) if plan is None or plan.actions is None else np.asarray(plan.actions).tobytes()
        found[key] = (weight + found[key][0] if key in found else weight, plan)
    return list(found.values())


def _certified(
    program: AffineProgram | ConvexProgram,
    world: World,
    policy: MarkovPolicy,
    auxiliary: Float[np.ndarray, "a"],
    proofs: Sequence[Record],
) -> tuple[Evidence, Certificate]:
    """The first clash that survives the check, else the bounds of the policy, which are the last of the proofs."""
    *clashes, last = (Evidence(program, world.psi, world.mdp, policy, record, auxiliary) for record in proofs)
    for evidence in clashes:
        certificate = certify(evidence)
        if certificate.conflict is not None and certificate.conflict > 0:
            return evidence, certificate
    return last, certify(last)


def _clashes(
    program: AffineProgram | ConvexProgram,
    world: World,
    planner: AbstractSoftPlanner[Known],
    duals: Duals[Any],
    lines: Sequence[Line],
) -> list[Record]:
    """Proofs that the constraints clash, the one that rests on the fewest of them first."""
    whole = record_of(program, duals.conflict, 0.0)
    if isinstance(program, AffineProgram) or duals.conflict.point is not None or len(lines) == 1:
        return [whole]
    bound, dropped = smallest_clash(program, world.layout, world.model, planner, duals.conflict, lines)
    return [record_of(program, bound, 0.0, dropped), whole]


def _provable(program: AffineProgram | ConvexProgram, variational: VariationalProgram | None, bound: Bound) -> Bound:
    """A bound made of conjugates, or of gradients that CVXPY does not have, as one of multipliers of the cone form."""
    if isinstance(program, AffineProgram) or bound.slope is None or variational is None:
        return bound
    if bound.point is not None and program.smooth is not None:  # at kinks no derivative of CVXPY's is relied on
        slope = program.functions.slope(bound.point, bound.gamma, 1.0)
        if slope is not None and np.all(np.isfinite(slope)):
            return bound
    try:
        lam = multipliers_of_slope(program.main, bound.slope, *variational.bounds())
    except np.linalg.LinAlgError:
        return Bound(-np.inf, np.zeros(0))
    return Bound(bound.value, lam)


def record_of(
    program: AffineProgram | ConvexProgram,
    bound: Bound,
    objective_weight: float,
    dropped: Bool[np.ndarray, "r"] | None = None,
) -> Record:
    """The multipliers as a record; those of a cone form made exactly dual-feasible, or none where that fails."""
    if isinstance(program, AffineProgram) or bound.point is not None:
        return Record(bound.gamma, objective_weight, bound.point)
    if not math.isfinite(bound.value):
        return Record(np.zeros(0), objective_weight)
    form = program.main if objective_weight == 1 else program.violation
    assert form is not None  # only a form has multipliers
    inner = interior(form, dropped)
    fixed = None if inner is None else repaired(form, bound.gamma, inner)
    return Record(np.zeros(0) if fixed is None else fixed, objective_weight)
