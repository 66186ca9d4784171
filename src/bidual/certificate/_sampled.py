"""The certificate of a learned policy: a bound on all policies, and the value of this one.

* lower: the record's linear cost, minimised over all laws in the confidence set of the counts (`_optimistic`);
* upper: fresh episodes of the policy (`_estimate_values`) and, where few laws may be true, its value under each of them
  (`_within`);
* both need ranges that no episode can leave. They are derived from the problem, the features and the successors that
  were declared, with chance free to do anything.

Each statement has its share of delta (`bounds.Split`), so that all of them hold at once with probability 1 - delta.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np
from jaxtyping import Float, Int

from bidual._base.errors import CertificateError, EnvError, ProblemError
from bidual.certificate._estimates import (
    MOST_NUMBERS,
    EstimateRows,
    Estimates,
    Round,
    Spans,
    check_samples,
    compute_resolution,
    estimate_round,
    evaluate_at,
    list_image_rows,
)
from bidual.certificate._lower import lower_bound
from bidual.certificate._optimistic import bound_least_over_set
from bidual.certificate._types import Certificate, Record
from bidual.certificate._within import narrow_by_class
from bidual.certificate.bounds import Split
from bidual.certificate.rounding import EPS
from bidual.models import AbstractCounted, Latents
from bidual.problem.convex import AbstractProgram
from bidual.world.policies import MarkovPolicy


@final
@dataclass(frozen=True, eq=False)
class SampledEvidence:
    """The evidence for the certificate of a learned policy.

    `knowledge` holds the counts behind the bound of the record; its `steady` comes from all episodes.
    """

    program: AbstractProgram
    knowledge: AbstractCounted
    policy: MarkovPolicy
    record: Record | None  # None: nothing is claimed of other policies
    split: Split
    linear: Spans
    corners: Spans | None
    rounds: tuple[Round, ...]
    embedding: Float[np.ndarray, "H d"] | None  # in the learned model, where there was no round: a guess


def certify_sampled(evidence: SampledEvidence, rows: EstimateRows) -> Certificate:
    """Derive every bound from the evidence; `rows` are the functionals of its program that are linear.

    No model is known, so that the certificate holds no embedding and no visits.
    """
    program, rounds = evidence.program, evidence.rounds
    _check_functionals(evidence, rows)
    if len({seen.number for seen in rounds}) < len(rounds):
        raise CertificateError("two rounds of evaluation have the same number: each needs a share of delta of its own")
    try:
        seen, known = _estimate_values(evidence, rows), evidence.knowledge
        estimates = narrow_by_class(seen, program, rows, evidence.policy, known, evidence.embedding)
    except (ProblemError, EnvError) as error:
        raise CertificateError(f"the samples prove nothing: {error}") from error
    lower, conflict = _bound_by_record(evidence)
    g, gamma = estimates.mean[1:], np.zeros(0) if evidence.record is None else evidence.record.gamma
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
        resolution=compute_resolution(program, evidence.linear, estimates.mean, gamma),
    )


def _bound_by_record(evidence: SampledEvidence) -> tuple[float | None, float | None]:
    """Return the lower bound on the optimum, and the least violation of some row by every policy, in its units."""
    knowledge, record = evidence.knowledge, evidence.record
    # Where a signal proves to be no function of the transition, without being declared noisy, its mean is unknown.
    if record is None or not (knowledge.counts.signals_consistent and knowledge.certifies):
        return None, None
    try:
        model = knowledge.confidence_set
    except EnvError as error:  # a class that its own counts refute
        raise CertificateError(f"the counts prove nothing: {error}") from error
    assert not isinstance(model, Latents)  # which certify nothing
    bound = lower_bound(evidence.program, record, model, knowledge.pieces)
    if bound is None or not np.isfinite(bound):
        return None, None
    if record.objective_weight == 0:
        return None, bound if bound > 0 else None
    return bound, None


def _estimate_values(evidence: SampledEvidence, rows: EstimateRows) -> Estimates:
    """Bound objective and constraints from the fresh episodes of every round, at once."""
    program, embedding = evidence.program, evidence.embedding
    if not evidence.rounds:
        mean = np.full(1 + program.equality.size, np.nan) if embedding is None else evaluate_at(program, embedding)
        return Estimates.unbounded(mean, 0)
    found = []
    for seen in evidence.rounds:
        _check_second_opinion(evidence, rows, seen)
        found.append(estimate_round(program, evidence.linear, evidence.corners, evidence.split, seen))
    return reduce(Estimates.combine, found)


def _check_functionals(evidence: SampledEvidence, rows: EstimateRows) -> None:
    """Check that samples are of linear functionals, and that every range provably contains all episodes."""
    program, linear, corners = evidence.program, evidence.linear, evidence.corners
    strange = np.setdiff1d(linear.numbers, rows.numbers).tolist()
    if strange:
        raise CertificateError(f"functional {strange[0]} is not linear: an average of what it paid proves nothing")
    missing = np.setdiff1d(rows.numbers, linear.numbers).tolist()
    if missing and program.is_linear:
        raise CertificateError(f"there are no samples of functional {missing[0]}: nothing is known of it")
    _check_spans("functional", evidence, linear, rows, [seen.values for seen in evidence.rounds])
    if corners is None:
        return
    few = program.over_few_numbers(MOST_NUMBERS)
    if few is None:
        raise CertificateError("corners bound functions of a few numbers, and this problem has none")
    images = [seen.image for seen in evidence.rounds if seen.image is not None]
    _check_spans("number", evidence, corners, list_image_rows(few), images)


def _check_spans(
    what: str,
    evidence: SampledEvidence,
    spans: Spans,
    rows: EstimateRows,
    samples: Sequence[Float[np.ndarray, "_ r"]],
) -> None:
    """Check that stated ranges hold all that an episode may be, and that all samples are such."""
    knowledge = evidence.knowledge
    model, places = knowledge.all_supported_laws, np.searchsorted(rows.numbers, spans.numbers)
    assert model is not None  # files hold knowledge of observed states
    for column, (number, low, high, place) in enumerate(zip(*spans, places, strict=True)):
        row, magnitude, constant = rows.rows[place], rows.magnitudes[place], float(rows.constants[place])
        least, most = (
            bound_least_over_set(model, knowledge.pieces, theta, magnitude, rows.terms) for theta in (row, -row)
        )
        bottom, top = constant + least.value - least.error, constant - most.value + most.error
        room = 8 * EPS * abs(constant)  # a constant that was summed in another order differs in its last bits
        if not (low <= bottom + room and high >= top - room):
            raise CertificateError(
                f"{what} {number} is stated to lie in [{float(low)!r}, {float(high)!r}], but an episode is only "
                f"shown to stay in [{bottom!r}, {top!r}]: samples in a range that is too narrow prove nothing"
            )
        for values in samples:
            check_samples(what, int(number), values[:, column], bottom - room, top + room)


def _check_second_opinion(evidence: SampledEvidence, rows: EstimateRows, seen: Round) -> None:
    """Check that the mean embedding of a round agrees with its samples."""
    if seen.embedding is None:
        return
    _check_means("functional", evidence, rows, evidence.linear.numbers, seen.values, seen.embedding)
    if seen.image is not None and evidence.program.curved is not None:
        numbers = list_image_rows(evidence.program.curved)
        _check_means("number", evidence, numbers, numbers.numbers, seen.image, seen.embedding)


def _check_means(
    what: str,
    evidence: SampledEvidence,
    rows: EstimateRows,
    numbers: Int[np.ndarray, "r"],
    samples: Float[np.ndarray, "n r"],
    embedding: Float[np.ndarray, "H d"],
) -> None:
    """Check means of samples against a mean embedding; each addition rounds by eps of its largest possible value."""
    peaks = evidence.knowledge.pieces.peaks()
    for number, place, values in zip(numbers, np.searchsorted(rows.numbers, numbers), samples.T, strict=True):
        constant = float(rows.constants[place])
        at_mean, mean = float(np.vdot(rows.rows[place], embedding)) + constant, float(values.mean())
        largest = float(np.sum(rows.magnitudes[place] * peaks)) + abs(constant)
        if not abs(at_mean - mean) <= 8 * (len(values) + embedding.size + rows.terms) * EPS * largest:
            raise CertificateError(
                f"two accounts of the same episodes disagree: {what} {number} is {mean!r} by the samples and "
                f"{at_mean!r} by the mean embedding"
            )
