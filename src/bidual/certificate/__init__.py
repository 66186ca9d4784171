"""Independent certificates: bounds derived from scratch before they are reported.

The numbers of the solver itself are never reported. From the returned policy and a small record (multipliers) this
package computes both bounds anew, in plain NumPy and SciPy, sharing no code with the planner. Each bound is widened by
a rounding slack that is derived, not guessed (`rounding`). Contradictions raise.
"""

from bidual.certificate._affine import certify_affine
from bidual.certificate._controlled import ControlEvidence as ControlEvidence
from bidual.certificate._controlled import certify_controlled as certify_controlled
from bidual.certificate._convex import bound_floor as bound_floor
from bidual.certificate._convex import certify_convex
from bidual.certificate._cuts import multipliers as multipliers
from bidual.certificate._estimates import MOST_NUMBERS as MOST_NUMBERS
from bidual.certificate._estimates import EstimateRows as EstimateRows
from bidual.certificate._estimates import Estimates as Estimates
from bidual.certificate._estimates import Round as Round
from bidual.certificate._estimates import Spans as Spans
from bidual.certificate._estimates import bound_at_worst_corner as bound_at_worst_corner
from bidual.certificate._estimates import estimate_round as estimate_round
from bidual.certificate._estimates import evaluate_at as evaluate_at
from bidual.certificate._lower import lower_bound as lower_bound
from bidual.certificate._mixtures import MixtureBounds as MixtureBounds
from bidual.certificate._mixtures import Mixtures as Mixtures
from bidual.certificate._mixtures import certify_mixtures as certify_mixtures
from bidual.certificate._sampled import SampledEvidence as SampledEvidence
from bidual.certificate._sampled import certify_sampled as certify_sampled
from bidual.certificate._slopes import slopes_of as slopes_of
from bidual.certificate._types import Certificate as Certificate
from bidual.certificate._types import Evidence as Evidence
from bidual.certificate._types import Record as Record
from bidual.certificate._types import Resolution as Resolution
from bidual.certificate._types import to_user_sense as to_user_sense
from bidual.certificate._within import narrow_by_class as narrow_by_class


def certify(evidence: Evidence) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    return evidence.program.dispatch(
        lambda rows: certify_affine(evidence, rows), lambda cones: certify_convex(evidence, cones)
    )
