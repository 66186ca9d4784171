"""Objective and constraints as functionals of episodes, with their ranges, and estimates of them from episodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.deadline import Deadline, read_clock
from bidual._base.keys import Draw, Purpose
from bidual._base.types import Episode
from bidual.certificate import (
    MOST_NUMBERS,
    Estimates,
    Round,
    Spans,
    bound_at_worst_corner,
    bounds,
    estimate_round,
    evaluate_at,
)
from bidual.certificate.bounds import Alone, Split
from bidual.learning.outputs._samples import Payments, average_embedding
from bidual.models import AbstractKnowledge
from bidual.planners import ExtendedValueIteration
from bidual.problem.convex import AbstractProgram, ConvexProgram
from bidual.problem.modelling import Problem, extract_linear_part
from bidual.world.envs import AbstractEnvironment
from bidual.world.policies import AbstractPolicy


@final
@dataclass(frozen=True, eq=False)
class Functionals:
    """The linear ones among f (number 0) and g (from 1 on), with the range of their values over one episode.

    Functionals without such a range are left out: their means have no intervals.
    """

    payments: Payments
    numbers: Int[np.ndarray, "r"]
    low: Float[np.ndarray, "r"]
    high: Float[np.ndarray, "r"]


def collect_functionals(problem: Problem, program: AbstractProgram, knowledge: AbstractKnowledge) -> Functionals:
    """Collect the functionals that can be averaged over episodes, with ranges from declared bounds."""
    rows, constants, numbers = _collect_linear_rows(problem, program)
    low, high = compute_ranges(rows, knowledge)
    bounded = np.isfinite(low) & np.isfinite(high)
    rows, constants, numbers, low, high = (part[bounded] for part in (rows, constants, numbers, low, high))
    payments = Payments(knowledge.pieces, rows, constants)
    return Functionals(payments, numbers, low + constants, high + constants)


def _collect_linear_rows(
    problem: Problem, program: AbstractProgram
) -> tuple[Float[np.ndarray, "r H d"], Float[np.ndarray, "r"], Int[np.ndarray, "r"]]:
    """Return the linear functionals among objective and constraints: rows, constants and numbers."""
    if program.linear is not None:
        rows, constants = program.linear.functionals()
        return rows, constants, np.arange(len(rows))
    x = problem.embedding
    part = extract_linear_part(problem)
    if part is None:
        return np.zeros((0, x.horizon, x.features.dimension)), np.zeros(0), np.zeros(0, dtype=np.int64)
    straight, names = part
    affine = straight.program().linear
    if affine is None:  # CVXPY added variables of its own, for a cumulative sum for example
        return np.zeros((0, x.horizon, x.features.dimension)), np.zeros(0), np.zeros(0, dtype=np.int64)
    numbers, start = [], 1
    for line in problem.lines():
        numbers += range(start, start + line.bounds.size) if line.name in names else []
        start += line.bounds.size
    rows, constants = affine.rows, -affine.limits
    objective = problem.objective.expr
    if objective.is_affine() and [v.id for v in objective.variables()] == [x.id]:
        rows, constants = np.concatenate([affine.objective[None], rows]), np.append(affine.offset, constants)
        numbers = [0, *numbers]
    return rows, constants, np.array(numbers, dtype=np.int64)


def compute_ranges(
    rows: Float[np.ndarray, "r H d"], knowledge: AbstractKnowledge
) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r"]]:
    """Compute the least and the largest value of an episode, planning with chance in one's favour or against."""
    model, planner = knowledge.all_supported_laws, ExtendedValueIteration()
    if model is None:
        return knowledge.pieces.span(rows)
    layout = model.restrict(knowledge.pieces)
    low = np.array([planner(model, layout, row).lower for row in rows])
    high = np.array([-planner(model, layout, -row).lower for row in rows])
    slack = 1e-9 * np.maximum(1.0, np.abs(low) + np.abs(high))  # of the planner's arithmetic
    return low - slack, high + slack


@final
@dataclass(frozen=True, eq=False)
class Corners:
    """The few numbers y that convex f and g are functions of, as functionals of an episode, with their ranges.

    f is not linear, so its average over episodes says nothing about f at their mean. But each y has an interval, the
    intervals hold together by a union bound, and a convex function on a box is largest at one of its corners. No lower
    bound is claimed: only the policy's worst case is needed.
    """

    program: ConvexProgram
    payments: Payments
    low: Float[np.ndarray, "n"]
    high: Float[np.ndarray, "n"]

    def upper(self, episodes: Sequence[Episode], delta: float) -> Float[np.ndarray, "rows"]:
        """Bound F and g from above, all at once with probability 1 - delta."""
        return bound_at_worst_corner(self.program, self.spans, self.payments(episodes), delta)[1]

    @property
    def spans(self) -> Spans:
        """The numbers with their ranges."""
        return Spans(np.arange(self.low.size), self.low, self.high)


def construct_corners(program: AbstractProgram, knowledge: AbstractKnowledge) -> Corners | None:
    """Construct the corners; None for linear problems, and for those with too many numbers or unbounded ones."""
    few = program.over_few_numbers(MOST_NUMBERS)
    if few is None:
        return None
    rows = np.array([few.image.adjoint(unit) for unit in np.eye(few.image.size)])
    low, high = compute_ranges(rows, knowledge)
    if not np.isfinite([low, high]).all():
        return None
    offset = few.image.offset
    return Corners(few, Payments(knowledge.pieces, rows, offset), low + offset, high + offset)


Collector = Callable[[AbstractEnvironment, AbstractPolicy, int, int, int], list[Episode]]  # as `run_fresh_episodes`


def run_fresh_episodes(
    env: AbstractEnvironment, policy: AbstractPolicy, seed: int, first: int, count: int
) -> list[Episode]:
    """Run episodes of a policy that nothing was learned from."""
    return env.collect_many(policy, [Draw(seed, Purpose.EVALUATE, number) for number in range(first, first + count)])


def run_episodes_until(
    collect: Collector, env: AbstractEnvironment, policy: AbstractPolicy, seed: int, extent: range, deadline: Deadline
) -> list[Episode]:
    """Run fresh episodes until a moment, in ever larger batches that are expected to fit: at least one."""
    episodes, size = [], env.simultaneous
    while extent and size:
        started, size = read_clock(), min(size, len(extent))
        episodes += collect(env, policy, seed, extent.start, size)
        extent, took = extent[size:], read_clock() - started
        fits = len(extent) if took <= 0 else int(min(deadline.left / took * size, len(extent)))
        size = min(4 * size, fits)
    return episodes


def estimate_policy(
    program: AbstractProgram,
    linear: Functionals,
    episodes: Sequence[Episode],
    corners: Corners | None,
    split: Split | Alone,
    number: int,
    *,
    uniform: bool = False,
) -> Estimates:
    """Compute estimates from fresh episodes of one policy, in evaluation round `number`; `uniform` for any number."""
    curved = linear.numbers.size < 1 + program.equality.size
    seen = Round(
        number=number,
        values=linear.payments(episodes),
        image=None if corners is None else corners.payments(episodes),
        embedding=average_embedding(linear.payments.pieces, episodes) if curved else None,
        uniform=uniform,
    )
    return estimate_round(program, list_spans(linear), None if corners is None else corners.spans, split, seen)


def list_spans(linear: Functionals) -> Spans:
    """Return the linear functionals with their ranges."""
    return Spans(linear.numbers, linear.low, linear.high)


def estimate_executed(
    program: AbstractProgram,
    linear: Functionals,
    process: bounds.Executed | bounds.Restarts,
    embedding: Float[np.ndarray, "H d"] | None,
    count: int,
    delta: float,
) -> Estimates:
    """Compute estimates for the mixture of the policies of `count` episodes, from these episodes themselves.

    `embedding` is the mean over these, which only the curved functionals need.
    """
    mean = np.zeros(1 + program.equality.size) if embedding is None else evaluate_at(program, embedding)
    estimates = Estimates.unbounded(mean, count)
    if linear.numbers.size:
        lower, upper = process.interval(delta, delta)
        estimates.mean[linear.numbers] = process.mean
        estimates.lower[linear.numbers], estimates.upper[linear.numbers] = lower, upper
    return estimates


def estimate_in_model(program: AbstractProgram, embedding: Float[np.ndarray, "H d"]) -> Estimates:
    """Return the values in the learned model, where no episode was run with the policy: an estimate without bounds."""
    return Estimates.unbounded(evaluate_at(program, embedding), 0)
