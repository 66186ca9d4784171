"""The price of a limit where the model was learned: a bound over all laws that may be true, and an estimate.

The set of laws holds the true one with probability 1 - delta / 2, whatever is asked of it afterwards. So the bounds at
all limits hold at once, and no share of delta is spent on their number.
"""

import time

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.status import Status
from bidual.certificate.rounding import with_planner_resolution
from bidual.learning.curve import LearnedCurve, Limits
from bidual.learning.learned import Learned
from bidual.learning.outputs import DualBound
from bidual.learning.setup import LearnSetup
from bidual.models import AbstractCounted, AbstractKnowledge, known
from bidual.problem.modelling import Limit, Problem, open_limit
from bidual.solving.options import SolveOptions
from bidual.solving.pricing import Curve, choose_limit, price_in
from bidual.solving.search import Instance


def price_learned(
    setup: LearnSetup,
    knowledge: AbstractKnowledge,
    solution: Learned,
    constraint: str | None,
    *,
    points: int,
    limits: Limits | None,
) -> LearnedCurve:
    """Compute the curve of one constraint from what is known after learning."""
    started, counted = time.perf_counter(), knowledge.counted
    chosen = choose_limit(setup.problem, constraint)
    if counted is None:
        raise ProblemError(
            "price needs a learned model with finitely many states: where vectors are controlled, learn once for each "
            "limit, as 'bidual sweep' does"
        )
    curve = _estimate(setup.problem, chosen, counted, points, limits)
    bounds = _bound(setup, chosen, counted, curve.limits)
    reached = _find_reached(solution, chosen, curve.limits)
    lower = [one.lower if one.conflict is None and one.lower is not None else np.nan for one in bounds]
    return LearnedCurve(
        constraint=chosen.name,
        relation=chosen.sense,
        sense=curve.sense,
        limits=curve.limits,
        bounds=setup.sense * np.array(lower),
        estimates=curve.values,
        prices=curve.prices,
        reached=reached,
        statuses=tuple(_find_status(*pair) for pair in zip(bounds, reached.tolist(), strict=True)),
        delta=setup.split.delta,
        assumptions=solution.assumptions,
        episodes=solution.episodes,
        plans=curve.total_plans + sum(one.plans for one in bounds),
        seconds=time.perf_counter() - started,
        task=solution.task,
    )


def _estimate(
    problem: Problem,
    chosen: Limit,
    knowledge: AbstractCounted,
    points: int,
    limits: Limits | None,
) -> Curve:
    """Compute the curve of the estimated model."""
    mdp = knowledge.smoothed_model()
    psi, model = knowledge.features(mdp), known(mdp)
    world = Instance(mdp, psi, model, model.restrict(psi))
    return price_in(problem, chosen, world, points, limits, SolveOptions())


def _bound(
    setup: LearnSetup, chosen: Limit, knowledge: AbstractCounted, limits: Float[np.ndarray, "n"]
) -> list[DualBound]:
    """Compute what no policy can beat at every limit, over all laws that may be true."""
    problem, level = open_limit(setup.problem, chosen)
    bounds = []
    for limit in limits.tolist():
        level.value = limit
        program = with_planner_resolution(problem.program(), knowledge.pieces)
        bounds.append(setup.final(program, knowledge))
    return bounds


def _find_reached(solution: Learned, chosen: Limit, limits: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Return the certified value of the policy at the limits that its intervals prove it to keep."""
    own, value = solution.outputs[0], solution.lower if solution.sense == "maximize" else solution.upper
    others = [one for one in solution.constraints if one.name != chosen.name]
    interval = own.constraints[chosen.name]
    low, high = (np.nan if end is None else end for end in (interval.lower, interval.upper))
    kept = {"<=": high <= limits, ">=": low >= limits, "==": np.zeros(limits.shape, dtype=bool)}[chosen.sense]
    if value is None or not own.episodes or any(one.violation_upper > 0 for one in others):
        kept = np.zeros_like(kept)
    return np.where(kept, np.nan if value is None else value, np.nan)


def _find_status(bound: DualBound, reached: float) -> Status:
    if bound.conflict is not None:
        return Status.INFEASIBLE
    return Status.UNDECIDED if np.isnan(reached) else Status.FEASIBLE
