"""The certificate of a learned policy of controls: a bound on all policies, and the value of this one.

* lower: the record's linear cost, minimised over all linear laws that may be true (`_quadratic`); none where
  dynamics or costs are of another kind;
* upper: fresh episodes of the policy (`_estimate_values`), for signals with declared bounds.
"""

from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np
from jaxtyping import Float

from bidual._base.errors import CertificateError, EnvError, ProblemError
from bidual.certificate._estimates import (
    EstimateRows,
    Estimates,
    Round,
    Spans,
    compute_resolution,
    estimate_round,
    evaluate_at,
    list_image_rows,
)
from bidual.certificate._lower import lower_bound
from bidual.certificate._types import Certificate, Record
from bidual.certificate.bounds import Split
from bidual.certificate.rounding import EPS
from bidual.models import LinearLaws
from bidual.problem.convex import AbstractProgram
from bidual.problem.features import Pieces


@final
@dataclass(frozen=True, eq=False)
class ControlEvidence:
    """The evidence for the certificate of a learned policy of controls."""

    program: AbstractProgram
    pieces: Pieces
    record: Record | None  # None: nothing is claimed of other policies
    laws: LinearLaws | None
    split: Split
    linear: Spans
    corners: Spans | None
    rounds: tuple[Round, ...]
    embedding: Float[np.ndarray, "H d"] | None  # in the learned model, where there was no round: a guess


def certify_controlled(evidence: ControlEvidence, rows: EstimateRows) -> Certificate:
    """Derive every bound from the evidence; `rows` are the functionals of its program that are linear."""
    program, rounds = evidence.program, evidence.rounds
    if len({seen.number for seen in rounds}) < len(rounds):
        raise CertificateError("two rounds of evaluation have the same number: each needs a share of delta of its own")
    _check_spans("functional", evidence.pieces, evidence.linear, rows)
    if evidence.corners is not None:
        assert program.curved is not None  # nothing else has an image
        _check_spans("number", evidence.pieces, evidence.corners, list_image_rows(program.curved))
    try:
        estimates = _estimate_values(evidence)
    except (ProblemError, EnvError) as error:
        raise CertificateError(f"the samples prove nothing: {error}") from error
    g, gamma = estimates.mean[1:], np.zeros(0) if evidence.record is None else evidence.record.gamma
    return Certificate(
        value=float(estimates.mean[0]),
        upper=float(estimates.upper[0]),
        lower=_bound_optimum(evidence),
        conflict=None,
        g=g,
        violations=program.violations(g),
        violations_upper=estimates.over(program.equality),
        embedding=np.zeros((0, 0)),
        visits=np.zeros((0, 0)),
        resolution=compute_resolution(program, evidence.linear, estimates.mean, gamma),
    )


def _bound_optimum(evidence: ControlEvidence) -> float | None:
    record, laws = evidence.record, evidence.laws
    if record is None or laws is None or record.objective_weight != 1.0:
        return None
    bound = lower_bound(evidence.program, record, laws, evidence.pieces)
    return bound if bound is not None and np.isfinite(bound) else None


def _estimate_values(evidence: ControlEvidence) -> Estimates:
    program, embedding = evidence.program, evidence.embedding
    if not evidence.rounds:
        mean = np.full(1 + program.equality.size, np.nan) if embedding is None else evaluate_at(program, embedding)
        return Estimates.unbounded(mean, 0)
    found = (
        estimate_round(program, evidence.linear, evidence.corners, evidence.split, seen) for seen in evidence.rounds
    )
    return reduce(Estimates.combine, found)


def _check_spans(what: str, pieces: Pieces, spans: Spans, rows: EstimateRows) -> None:
    """Check that functionals are linear, and that no range is narrower than the bounds of the signals."""
    strange = np.setdiff1d(spans.numbers, rows.numbers).tolist()
    if strange:
        raise CertificateError(f"{what} {strange[0]} is not linear: an average of what it paid proves nothing")
    for number, low, high, place in zip(*spans, np.searchsorted(rows.numbers, spans.numbers), strict=True):
        least, most = pieces.span(rows.rows[place][None])
        constant = float(rows.constants[place])
        bottom, top = float(least[0]) + constant, float(most[0]) + constant
        room = 8 * EPS * abs(constant)  # a constant that was summed in another order differs in its last bits
        if not (-np.inf < low <= bottom + room and np.inf > high >= top - room):
            raise CertificateError(
                f"{what} {number} is stated to lie in [{float(low)!r}, {float(high)!r}], but an episode is only "
                f"shown to stay in [{bottom!r}, {top!r}]: samples in a range that is too narrow prove nothing"
            )
