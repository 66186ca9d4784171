"""Suggestions: what would make a result of learning certain, or tighter, computed from its own episodes.

They are predictions and not claims: they hold as far as further episodes are like those so far.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bidual._base.errors import BidualError
from bidual._base.status import Status
from bidual.certificate import MOST_NUMBERS, bound_at_worst_corner, bounds, evaluate_at
from bidual.learning.learned import Learned, LearnProgress
from bidual.learning.outputs import DualBound, Estimates
from bidual.learning.setup import LearnSetup
from bidual.models import AbstractCounted, AbstractKnowledge, suggest_declarations
from bidual.problem.modelling import Line, slice_rows

_LOOSE = 0.01  # a gap beyond this share of the bounds
_WORTH = 0.2  # share of the distance to the bound that a declaration has to close
_COMPUTED = 1 << 15  # episodes up to which a bound is computed; beyond it is extrapolated
_FURTHEST = 1e9
_MOST_TIMES = 100  # the episodes so far: slower declines are none


class Standing(NamedTuple):
    """What a result rests on."""

    setup: LearnSetup
    knowledge: AbstractKnowledge
    dual_bound: DualBound
    estimates: Estimates
    embedding: Float[np.ndarray, "H d"]  # of the policy, in the learned model
    number: int  # of the round that `certify` adds to
    further: int  # its episodes so far
    goal: float | None  # the gap that was asked for

    def expect(self, row: int, episodes: int) -> float:
        """Return the mean to expect: that of the fresh episodes, and that in the model learned from the others."""
        fresh, model = self.estimates.episodes, evaluate_at(self.setup.program, self.embedding)[row]
        return float((fresh * self.estimates.mean[row] + episodes * model) / (fresh + episodes))


def suggest(standing: Standing, solution: Learned) -> Iterator[str]:
    """Yield what to do next, the most useful first: for constraints that are not proved, then for the gap."""
    if solution.status is Status.INFEASIBLE or solution.status is Status.OPTIMAL:
        return
    yield from _suggest_for_constraints(standing, solution.episodes)
    if _is_loose(solution, standing.goal):
        declared = list(_suggest_declarations(standing, solution.value))
        yield from declared
        if not declared:
            yield from _suggest_for_gap(standing, solution)


def _is_loose(solution: Learned, goal: float | None) -> bool:
    gap, ends = solution.gap, (solution.lower, solution.upper)
    if gap is None:
        return any(end is not None for end in ends)
    return gap > (_LOOSE * max(abs(end) for end in ends if end is not None) if goal is None else goal)


def _suggest_for_constraints(standing: Standing, episodes: int) -> Iterator[str]:
    """Suggest for every constraint that is not proved, at its worst entry."""
    over = standing.setup.over(standing.estimates)
    for line, rows in slice_rows(standing.setup.problem.lines()):
        worst = int(np.argmax(over[rows]))
        if over[rows][worst] > 0:
            row = 1 + rows.start + worst
            yield _suggest_for_row(standing, line, worst, row, standing.expect(row, episodes))


def _suggest_for_row(standing: Standing, line: Line, entry: int, row: int, mean: float) -> str:
    name, estimates = line.name, standing.estimates
    if not estimates.episodes:
        return f"run fresh episodes of the policy, which bound {name!r}: .certify(1000), --evaluation 1000"
    if line.sense == "==":
        return f"episodes never show that {name!r} holds exactly: allow a tolerance, by two inequalities"
    if not np.isfinite(estimates.upper[row]):
        return (
            f"declare the range of the signals of {name!r}, bd.features.observed(f, low, high), or write it over at "
            f"most {MOST_NUMBERS} numbers: it has no bound from episodes"
        )
    limit = float(line.bounds[entry])
    if mean >= 0:
        return _suggest_stricter_limit(standing, line, limit, row, mean)
    count = _count_until(standing, row, -mean)
    if count >= _FURTHEST:
        return f"{name!r} is too near to its limit for episodes to tell: learn with a stricter limit"
    more = _round_up(max(count - standing.further, 1))
    return (
        f"about {more:,} more fresh episodes show that {name!r} holds, if its mean is {limit + line.sign * mean:.4g}: "
        f".certify({more}), --evaluation {_round_up(count)}"
    )


def _suggest_stricter_limit(standing: Standing, line: Line, limit: float, row: int, mean: float) -> str:
    """Suggest a limit a tenth nearer to the least that the row can be, and the episodes that tell the two apart."""
    estimates, linear = standing.estimates, standing.setup.linear
    low = linear.low[linear.numbers == row]
    room = 0.1 * (float(-low[0]) if low.size else float(estimates.upper[row] - estimates.mean[row]))
    count = _count_until(standing, row, room) if room > 0 else math.inf
    text = f"{line.name!r} is about {limit + line.sign * mean:.4g}, not within its limit"
    if count >= _FURTHEST:
        return f"{text}: learn with a looser one"
    return (
        f"{text}: learn with the limit {limit - line.sign * room:.3g}, and about {_round_up(count):,} fresh episodes "
        f"show that {limit:.4g} is kept"
    )


def _count_until(standing: Standing, row: int, margin: float) -> float:
    """Predict after how many episodes of a new round the bound on a row is less than `margin` above its mean."""
    mean, count = float(standing.estimates.mean[row]), 64  # widths hardly depend on the mean
    while (width := _bound_after(standing, row, count) - mean) > margin and count < _COMPUTED:
        count *= 2
    # Widths go with the square root of the number.
    predicted = count * (width / margin) ** 2
    return min(max(predicted, count / 2), _FURTHEST)


def _bound_after(standing: Standing, row: int, count: int) -> float:
    """Return the bound from above on a row after so many episodes like those so far, repeated in their order."""
    setup, linear, rounds = standing.setup, standing.setup.linear, standing.estimates.rounds
    claims = linear.numbers.size + (setup.corners is not None)
    both = setup.split.evaluation(standing.number, max(1, claims))
    for place in np.flatnonzero(linear.numbers == row).tolist():
        samples = _repeat([seen.values[:, place] for seen in rounds], count)
        return bounds.upper(samples, float(linear.low[place]), float(linear.high[place]), both[1], uniform=True)
    images = [seen.image for seen in rounds if seen.image is not None]
    assert setup.corners is not None  # a bound is there, so it is from its corners
    image = np.stack([_repeat([part[:, i] for part in images], count) for i in range(images[0].shape[1])], axis=1)
    _, found = bound_at_worst_corner(setup.corners.program, setup.corners.spans, image, sum(both), uniform=True)
    return float(found[row])


def _repeat(parts: Sequence[Float[np.ndarray, "n"]], count: int) -> Float[np.ndarray, "count"]:
    return np.resize(np.concatenate(parts), count)


def _suggest_declarations(standing: Standing, value: float) -> Iterator[str]:
    """Suggest what to declare where that would close much of the distance to the bound, the most useful first."""
    counted, now = standing.knowledge.counted, standing.dual_bound.lower
    if counted is None or now is None or not (counted.certifies and counted.signals_consistent):
        return
    sense, parts = standing.setup.sense, standing.setup.problem.embedding.features.parts
    names, found = [part.name for part in parts], []
    for hypothesis in suggest_declarations(counted, names):
        then = _bound_with(standing, hypothesis.knowledge)
        if then is not None and then - now >= _WORTH * abs(sense * value - now):
            found.append((then, hypothesis))
    side = "above" if sense < 0 else "below"
    for then, (condition, declaration, _) in sorted(found, key=lambda one: -one[0]):
        yield (
            f"declare, if it is so, that {condition}: no policy could be {side} about {sense * then:.3g} then, "
            f"now {sense * now:.4g}; {declaration}"
        )


def _bound_with(standing: Standing, knowledge: AbstractCounted) -> float | None:
    try:
        return standing.setup.final.rough(standing.setup.program, knowledge).lower
    except BidualError:  # the declaration does not go with the episodes
        return None


def _suggest_for_gap(standing: Standing, solution: Learned) -> Iterator[str]:
    """Suggest how to halve the larger part of the gap: the interval of the policy, or what the model leaves open."""
    bound, estimates = standing.dual_bound.lower, standing.estimates
    if bound is None or not estimates.episodes:
        return
    mean, reached = float(estimates.mean[0]), float(estimates.upper[0])
    open_part, width = max(mean - bound, 0.0), reached - mean
    if np.isfinite(width) and width > open_part:
        count = _count_until(standing, 0, width / 2)
        if count < _FURTHEST:
            more = _round_up(max(count - standing.further, 1))
            yield (
                f"about {more:,} more fresh episodes halve the {width:.2g} by which the policy may be worse than its "
                f"mean: .certify({more}), --evaluation {_round_up(count)}"
            )
            return
    count = _count_until_half(solution.history, standing.setup.sense * mean)
    if count is None:
        yield f"learn longer: the model leaves {open_part:.2g} open, which fell too little so far to say how long"
    else:
        yield f"about {_round_up(count):,} episodes of learning halve the {open_part:.2g} that the model leaves open"


def _count_until_half(history: Sequence[LearnProgress], value: float) -> float | None:
    """Extrapolate how far the bound is from a value, as a power of the number of episodes; None without decline."""
    known = [(one.episodes, abs(one.bound - value)) for one in history if one.bound is not None]
    if len(known) < 2:
        return None
    last, distance = known[-1]
    first, before = next(((n, d) for n, d in reversed(known) if n <= last / 4), known[0])
    if not (distance > 0 and before > distance and last > first):
        return None
    power = math.log(before / distance) / math.log(last / first)
    count = last * 2 ** min(1 / power, 60.0)
    return count if count <= _MOST_TIMES * last else None


def _round_up(count: float) -> int:
    """Round up to two digits."""
    unit = 10 ** max(int(math.log10(max(count, 1.0))) - 1, 0)
    return math.ceil(count / unit) * unit
