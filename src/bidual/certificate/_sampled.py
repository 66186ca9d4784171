"""The certificate of a learned policy: what others can reach at best, and what this one pays.

* lower: the record's linear cost, minimised over all laws that the counts leave possible (`_optimistic`);
* upper: fresh episodes of the policy. What is linear has a betting interval; a convex function of a few numbers is
  bounded at the worst corner of their intervals: a convex function on a box is largest at one of them;
* both need ranges that no episode can leave. They are derived from the problem, the features and the successors that
  were declared, with chance free to do anything.

Each statement has its share of delta (`bounds.Split`), so that all of them hold at once with probability 1 - delta.
"""

import itertools
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual import bounds
from bidual._errors import CertificateError, EnvError, ProblemError
from bidual.bounds import Alone, Split
from bidual.certificate._lower import lower_bound
from bidual.certificate._optimistic import least_over_set
from bidual.certificate._types import Certificate, Record
from bidual.convex import AffineProgram, ConvexProgram
from bidual.models import AbstractKnowledge
from bidual.policies import MarkovPolicy
from bidual.rounding import EPS

MOST_NUMBERS = 8  # that corners are made of: 256 of them, each an evaluation by CVXPY
_EVALUATED = 1e-9  # of values as CVXPY computes them, and far more than it loses


@final
@dataclass(frozen=True, eq=False)
class Round:
    """Fresh episodes of one policy, whose number was fixed before the first of them."""

    number: int  # of the round: 1, 2, ...
    paid: Float[np.ndarray, "n r"]  # the linear functionals of every episode
    image: Float[np.ndarray, "n k"] | None  # the image of every episode, where corners are to be bounded
    embedding: Float[np.ndarray, "H d"] | None  # of all of them on average, where a functional is curved


class Spans(NamedTuple):
    """Functionals by number (f is 0, g from 1 on), each between ends that no episode can leave."""

    numbers: Int[np.ndarray, "r"]
    low: Float[np.ndarray, "r"]
    high: Float[np.ndarray, "r"]


class Rows(NamedTuple):
    """Linear functionals rows . Psi + constants, by number."""

    numbers: Int[np.ndarray, "r"]
    rows: Float[np.ndarray, "r H d"]
    constants: Float[np.ndarray, "r"]
    magnitudes: Float[np.ndarray, "r H d"]  # sums of the absolute values that the rows were summed from
    terms: int  # and the largest number of those


@final
@dataclass(frozen=True, eq=False)
class Estimates:
    """f (number 0) and g (from 1 on): what was seen on average, and bounds; infinite where nothing is claimed."""

    mean: Float[np.ndarray, "rows"]
    lower: Float[np.ndarray, "rows"]
    upper: Float[np.ndarray, "rows"]
    episodes: int
    rounds: tuple[Round, ...] = ()  # that the bounds come from

    @classmethod
    def unbounded(cls, mean: Float[np.ndarray, "rows"], count: int, rounds: tuple[Round, ...] = ()) -> "Estimates":
        """Means of `count` episodes, and nothing claimed yet."""
        return cls(mean, np.full(mean.shape, -np.inf), np.full(mean.shape, np.inf), count, rounds)

    def within(self, other: "Estimates") -> "Estimates":
        """Both at once: the mean over all episodes, and the better of the bounds."""
        if self.episodes == 0:
            return other
        total = self.episodes + other.episodes
        return Estimates(
            mean=(self.episodes * self.mean + other.episodes * other.mean) / total,
            lower=np.maximum(self.lower, other.lower),
            upper=np.minimum(self.upper, other.upper),
            episodes=total,
            rounds=(*self.rounds, *other.rounds),
        )

    def over(self, equality: Bool[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """How far every row may be from holding."""
        low, high = self.lower[1:], self.upper[1:]
        return np.where(equality, np.maximum(np.abs(low), np.abs(high)), np.maximum(high, 0.0))


@final
@dataclass(frozen=True, eq=False)
class Sampled:
    """All that the certificate of a learned policy rests on.

    `knowledge` holds the counts that the record proves its bound with; its `steady` is what all episodes have shown.
    """

    program: AffineProgram | ConvexProgram
    knowledge: AbstractKnowledge
    policy: MarkovPolicy
    record: Record | None  # None: nothing is claimed of other policies
    split: Split
    linear: Spans
    corners: Spans | None
    rounds: tuple[Round, ...]
    embedding: Float[np.ndarray, "H d"] | None  # in the learned model, where there was no round: a guess


def at_embedding(
    program: AffineProgram | ConvexProgram, embedding: Float[np.ndarray, "H d"]
) -> Float[np.ndarray, "rows"]:
    """F and g of an embedding."""
    if isinstance(program, AffineProgram):
        f, g = program.values(embedding)
    else:
        f, g = program.functions.values(program.image(embedding), np.zeros(program.num_auxiliary))
    return np.append(f, g)


def of_round(
    program: AffineProgram | ConvexProgram, linear: Spans, corners: Spans | None, split: Split | Alone, seen: Round
) -> Estimates:
    """What a round says of its policy: curved functionals at the mean embedding, linear ones with intervals."""
    empty = np.zeros(1 + program.equality.size)
    mean = empty if seen.embedding is None else at_embedding(program, seen.embedding)
    found = Estimates.unbounded(mean, len(seen.paid), (seen,))
    claims = linear.numbers.size + (corners is not None)
    delta_lower, delta_upper = split.evaluation(seen.number, max(1, claims))
    if corners is not None and seen.image is not None and isinstance(program, ConvexProgram):
        found.upper[:] = worst_corner(program, corners, seen.image, delta_lower + delta_upper)
    for samples, place, low, high in zip(seen.paid.T, *linear, strict=True):
        found.mean[place] = samples.mean()
        found.lower[place] = bounds.lower(samples, float(low), float(high), delta_lower)
        found.upper[place] = bounds.upper(samples, float(low), float(high), delta_upper)
    return found


def worst_corner(
    program: ConvexProgram, spans: Spans, image: Float[np.ndarray, "n k"], delta: float
) -> Float[np.ndarray, "rows"]:
    """F and g are at most this, all at once with probability 1 - delta."""
    share = delta / spans.low.size
    ends = [
        bounds.interval(samples, float(low), float(high), share)
        for samples, low, high in zip(image.T, spans.low, spans.high, strict=True)
    ]
    values = [program.functions.values(np.array(y), np.zeros(0)) for y in itertools.product(*ends)]
    worst = np.max([np.append(f, g) for f, g in values], axis=0)
    return np.where(np.isnan(worst), np.inf, worst + _EVALUATED * np.maximum(1.0, np.abs(worst)))


def certify_sampled(evidence: Sampled, rows: Rows) -> Certificate:
    """Derive every bound from the evidence; `rows` are the functionals of its program that are linear.

    No model is known, so that the certificate holds no embedding and no visits.
    """
    program, rounds = evidence.program, evidence.rounds
    _check_functionals(evidence, rows)
    if len({seen.number for seen in rounds}) < len(rounds):
        raise CertificateError("two rounds of evaluation have the same number: each needs a share of delta of its own")
    try:
        estimates = _estimates(evidence, rows)
    except ProblemError as error:
        raise CertificateError(f"the samples prove nothing: {error}") from error
    lower, conflict = _shown(evidence)
    g = estimates.mean[1:]
    return Certificate(
        value=float(estimates.mean[0]),
        upper=float(estimates.upper[0]),
        lower=lower,
        conflict=conflict,
        g=g,
        violations=program.violations(g),
        violations_upper=estimates.over(program.equality),
        embedding=np.zeros((0, 0)),
        visits=np.zeros((0, 0)),
    )


def _shown(evidence: Sampled) -> tuple[float | None, float | None]:
    """No feasible policy pays less than the first; every policy violates a row by the second, in its units."""
    knowledge, record = evidence.knowledge, evidence.record
    # Where a signal is seen to be no function of the transition, and was not said to be noisy, its mean is not known.
    if record is None or not (knowledge.counts.told and knowledge.certifies):
        return None, None
    try:
        model = knowledge.optimistic
    except EnvError as error:  # a class that its own counts refute
        raise CertificateError(f"the counts prove nothing: {error}") from error
    bound = lower_bound(evidence.program, record, model, knowledge.pieces)
    if bound is None or not np.isfinite(bound):
        return None, None
    if record.objective_weight == 0:
        return None, bound if bound > 0 else None
    return bound, None


def _estimates(evidence: Sampled, rows: Rows) -> Estimates:
    program, embedding = evidence.program, evidence.embedding
    if not evidence.rounds:
        mean = np.full(1 + program.equality.size, np.nan) if embedding is None else at_embedding(program, embedding)
        return Estimates.unbounded(mean, 0)
    found = []
    for seen in evidence.rounds:
        _check_second_opinion(evidence, rows, seen)
        found.append(of_round(program, evidence.linear, evidence.corners, evidence.split, seen))
    return reduce(Estimates.within, found)


def _check_functionals(evidence: Sampled, rows: Rows) -> None:
    """Raise where samples are of something that is not linear, or a range is not shown to hold every episode."""
    program, linear, corners = evidence.program, evidence.linear, evidence.corners
    strange = np.setdiff1d(linear.numbers, rows.numbers).tolist()
    if strange:
        raise CertificateError(f"functional {strange[0]} is not linear: an average of what it paid proves nothing")
    missing = np.setdiff1d(rows.numbers, linear.numbers).tolist()
    if missing and isinstance(program, AffineProgram):
        raise CertificateError(f"there are no samples of functional {missing[0]}: nothing is known of it")
    _check_spans("functional", evidence.knowledge, linear, rows)
    if corners is None:
        return
    if isinstance(program, AffineProgram) or program.num_auxiliary or not 0 < program.image.size <= MOST_NUMBERS:
        raise CertificateError("corners bound functions of a few numbers, and this problem has none")
    _check_spans("number", evidence.knowledge, corners, image_rows(program))


def image_rows(program: ConvexProgram) -> Rows:
    """The numbers that f and g are functions of."""
    image, units = program.image, np.eye(program.image.size)
    rows = np.array([image.adjoint(unit) for unit in units])
    return Rows(np.arange(image.size), rows, image.offset, np.abs(rows), 1)


def _check_spans(what: str, knowledge: AbstractKnowledge, spans: Spans, rows: Rows) -> None:
    model, places = knowledge.anything, np.searchsorted(rows.numbers, spans.numbers)
    for number, low, high, place in zip(*spans, places, strict=True):
        row, magnitude, constant = rows.rows[place], rows.magnitudes[place], float(rows.constants[place])
        least, most = (least_over_set(model, knowledge.pieces, theta, magnitude, rows.terms) for theta in (row, -row))
        bottom, top = constant + least.value - least.error, constant - most.value + most.error
        room = 8 * EPS * abs(constant)  # a constant that was summed in another order differs in its last bits
        if not (low <= bottom + room and high >= top - room):
            raise CertificateError(
                f"{what} {number} is said to lie in [{float(low)!r}, {float(high)!r}], but an episode is only shown to "
                f"stay in [{bottom!r}, {top!r}]: samples in a range that is too narrow prove nothing"
            )


def _check_second_opinion(evidence: Sampled, rows: Rows, seen: Round) -> None:
    """The mean embedding of a round must be that of its samples, as far as they tell."""
    if seen.embedding is None:
        return
    _check_means("functional", evidence, rows, evidence.linear.numbers, seen.paid, seen.embedding)
    if seen.image is not None and isinstance(evidence.program, ConvexProgram):
        numbers = image_rows(evidence.program)
        _check_means("number", evidence, numbers, numbers.numbers, seen.image, seen.embedding)


def _check_means(
    what: str,
    evidence: Sampled,
    rows: Rows,
    numbers: Int[np.ndarray, "r"],
    samples: Float[np.ndarray, "n r"],
    embedding: Float[np.ndarray, "H d"],
) -> None:
    """Either way it is a sum over episodes and features; each addition rounds by eps of the largest that it can be."""
    peaks = evidence.knowledge.pieces.peaks()
    for number, place, paid in zip(numbers, np.searchsorted(rows.numbers, numbers), samples.T, strict=True):
        constant = float(rows.constants[place])
        at_mean, mean = float(np.vdot(rows.rows[place], embedding)) + constant, float(paid.mean())
        largest = float(np.sum(rows.magnitudes[place] * peaks)) + abs(constant)
        if not abs(at_mean - mean) <= 8 * (len(paid) + embedding.size + rows.terms) * EPS * largest:
            raise CertificateError(
                f"two accounts of the same episodes disagree: {what} {number} is {mean!r} by the samples and "
                f"{at_mean!r} by the mean embedding"
            )
