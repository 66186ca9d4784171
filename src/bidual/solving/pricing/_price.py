"""`price`: the value of the limit of one constraint, over the range of limits that matter."""

import math
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Float

from bidual._base.errors import ProblemError
from bidual._base.spelling import list_possible
from bidual.certificate.rounding import with_rounding
from bidual.problem.modelling import Limit, Problem
from bidual.solving.options import SolveOptions
from bidual.solving.outcome import AbstractOutcome
from bidual.solving.pricing._curve import Curve, Enclosure
from bidual.solving.pricing._family import ConicFamily, LinearFamily
from bidual.solving.pricing._search import CurveSearch, certify_searches, enclose
from bidual.solving.pricing._sweep import Searcher
from bidual.solving.search import CompiledProblem, Instance, Search, prepare, select_worth_keeping
from bidual.solving.solution import Progress
from bidual.world.mdp import TabularMDP

_BEYOND = 0.1  # extension beyond the limit that costs nothing, as a share of the way there
_INSIDE = 1e-3  # distance from the end of a curved range, where a price may be infinite


def price(
    problem: Problem,
    mdp: TabularMDP,
    constraint: str | None = None,
    *,
    points: int = 20,
    limits: Sequence[float | int] | np.ndarray | None = None,
    gap: float | None = None,
    relative: bool = False,
    progress: Callable[[int, Progress], None] | None = None,
) -> Curve:
    """Compute the optimum and the price of `problem` as functions of the limit of one constraint.

    The limit may be a number or a ``cp.Parameter``; the problem itself is left alone. Every search starts from the
    plans of those before it.

    Args:
        problem: the problem; its other constraints stay as they are.
        mdp: the known model.
        constraint: the name of a scalar constraint; may be left out where there is only one.
        points: number of limits, evenly spread from the tightest feasible one to a little beyond the one that costs
            nothing any more.
        limits: these limits instead. Those that no policy keeps are reported as infeasible.
        gap: certified gap to reach at every limit; by default a millionth of the size of the bounds.
        relative: measure the gap relative to the size of the bounds.
        progress: called after every plan with the number of limits done and the progress of the search.
    """
    chosen = choose_limit(problem, constraint)
    return price_in(problem, chosen, prepare(problem, mdp)[1], points, limits, SolveOptions(gap, relative), progress)


def price_in(
    problem: Problem,
    chosen: Limit,
    world: Instance,
    points: int,
    limits: Sequence[float | int] | np.ndarray | None,
    options: SolveOptions,
    progress: Callable[[int, Progress], None] | None = None,
) -> Curve:
    """Compute the curve in a model that is laid out, with features over it."""
    started = time.perf_counter()
    levels = None if limits is None else _check_limits(limits)
    if not (isinstance(points, int) and not isinstance(points, bool) and points >= 1):
        raise ProblemError(f"the number of points must be a whole number, at least 1; got {points!r}")
    program = with_rounding(problem.program(), world.psi, world.mdp)
    family = program.dispatch(
        lambda rows: LinearFamily(problem, chosen, world, rows), lambda _: ConicFamily(problem, chosen, world)
    )
    searcher = Searcher(world, options, progress)

    ends = [(direction, family.end(direction)) for direction in (1.0, -1.0)]
    convex = [compiled for _, compiled in ends if compiled is not None]
    found = searcher.search_in_order(convex, ())
    reached = iter(found)
    least, most = (None if s is None else _find_end(s, world, d, next(reached)) for d, s in ends)
    tie = 0.1 * options.goal.gap / (most.upper - least.lower) if least and most and most.upper > least.lower else 0.0
    found += searcher.search_in_order([family.without(tie)], select_worth_keeping(found[-1]) if found else ())
    free = certify_searches(family, world, [CurveSearch(None, found[-1])], found[-1].goal)[0]
    if levels is None:
        levels = _choose_limits(chosen, least, most, free.value, points, curved=not program.is_linear)
    goal = found[-1].goal
    later = searcher.search_limits(family, levels, select_worth_keeping(found[-1]))
    tried = [CurveSearch(float(level), search) for level, search in zip(levels, later, strict=True)]
    certified_points = certify_searches(family, world, tried, goal)
    return Curve(
        constraint=chosen.name,
        relation=chosen.sense,
        sense="maximize" if problem.maximises else "minimize",
        limits=levels,
        lower=_to_array(point.lower for point in certified_points),
        upper=_to_array(point.upper for point in certified_points),
        prices=_to_array(point.price for point in certified_points),
        statuses=tuple(point.status for point in certified_points),
        plans=np.array([point.plans for point in certified_points]),
        least=least,
        most=most,
        free=None if free.lower is None or free.upper is None else free.value,
        free_optimum=None if free.lower is None or free.upper is None else Enclosure(free.lower, free.upper),
        total_plans=sum(search.plans for search in (*found, *later)),
        seconds=time.perf_counter() - started,
    )


def choose_limit(problem: Problem, name: str | None) -> Limit:
    """Select the constraint to vary."""
    if isinstance(problem, AbstractOutcome):
        raise ProblemError(
            "price wants a problem and its known model; a learned result has a price of its own, learned.price(...)"
        )
    if not isinstance(problem, Problem):
        raise ProblemError(f"expected a bidual Problem, got {type(problem).__name__}: write bd.Problem(...)")
    limits = {limit.name: limit for limit in problem.limits if limit.name in problem.constraints}
    if not limits:
        raise ProblemError("the problem has no constraint, so there is no limit to vary")
    if name is None and len(limits) > 1:
        raise ProblemError(f"the problem has several constraints: name one of {', '.join(limits)}")
    if name is not None and name not in limits:
        raise ProblemError(f"the problem has no constraint {name!r}{list_possible(name, limits)}")
    limit = next(iter(limits.values())) if name is None else limits[name]
    size = math.prod(limit.shape)
    if size != 1:
        raise ProblemError(
            f"constraint {limit.name!r} has {size} entries, so its limit is not one number: "
            "write one of them, or their sum or maximum, as a constraint of its own"
        )
    return limit


def _check_limits(limits: Sequence[float | int] | np.ndarray) -> Float[np.ndarray, "n"]:
    levels = np.asarray(limits, dtype=np.float64)
    if levels.ndim != 1 or levels.size == 0 or not np.isfinite(levels).all() or (np.diff(levels) <= 0).any():
        raise ProblemError(f"limits must be finite numbers in increasing order, at least one; got {limits!r}")
    return levels


def _find_end(
    compiled: CompiledProblem | None, world: Instance, direction: float, found: Search | None
) -> Enclosure | None:
    bounds = None if compiled is None or found is None else enclose(compiled, world, found)
    if bounds is None or not np.isfinite(bounds).all():
        return None
    return Enclosure(*bounds) if direction > 0 else Enclosure(-bounds[1], -bounds[0])


def _choose_limits(
    limit: Limit, least: Enclosure | None, most: Enclosure | None, free: float | None, points: int, *, curved: bool
) -> Float[np.ndarray, "n"]:
    """Return limits from the tightest feasible one to a little beyond the one that costs nothing."""
    tight, loose = (
        (most and most.lower, least and least.upper)
        if limit.sense == ">="
        else (
            least and least.upper,
            most and most.lower,
        )
    )
    if limit.sense == "==" or free is None or (tight is not None and abs(free - tight) <= 1e-9 * max(1, abs(free))):
        free = loose
    elif tight is not None:
        beyond = free + _BEYOND * (free - tight)
        free = beyond if loose is None else min(beyond, loose, key=lambda level: abs(level - tight))
    if tight is None or free is None:
        return limit.line().bounds.copy()
    start = tight + _INSIDE * (free - tight) if curved else tight
    # Digits below the tolerance of constraints are rounded away.
    levels = np.unique(np.round(np.linspace(start, free, points), 10)) + 0.0
    return levels if np.ptp(levels) > 1e-9 * max(1.0, np.abs(levels).max()) else levels[:1]


def _to_array(numbers: Iterable[float | None]) -> Float[np.ndarray, "n"]:
    return np.array([np.nan if number is None else number for number in numbers])
