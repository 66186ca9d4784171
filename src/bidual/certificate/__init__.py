"""Independent certificates: bounds derived from scratch before they are reported.

The numbers of the solver itself are never reported. From the returned policy and a small record (multipliers) this
package computes both bounds anew, in plain NumPy and SciPy, sharing no code with the planner. Each bound is widened by
a rounding slack that is derived, not guessed (`rounding`). Contradictions raise.
"""

from bidual.certificate._affine import certify_affine
from bidual.certificate._controlled import ControlEvidence, certify_controlled
from bidual.certificate._convex import bound_floor, certify_convex
from bidual.certificate._cuts import read_multipliers
from bidual.certificate._estimates import (
    MOST_NUMBERS,
    EstimateRows,
    Estimates,
    Round,
    Spans,
    bound_at_worst_corner,
    estimate_round,
    evaluate_at,
)
from bidual.certificate._lower import lower_bound
from bidual.certificate._mixtures import MixtureBounds, Mixtures, certify_mixtures
from bidual.certificate._pessimistic import AffineControls, bound_cost, bound_touched
from bidual.certificate._sampled import SampledEvidence, certify_sampled
from bidual.certificate._slopes import find_slopes
from bidual.certificate._stationary import certify_stationary, with_potential
from bidual.certificate._types import Certificate, Evidence, Record, Resolution, to_user_sense
from bidual.certificate._within import narrow_by_class
from bidual.certificate._within_mixtures import PlanTables, bound_mixture, compute_mixture_embedding


def certify(evidence: Evidence) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    if evidence.mdp.criterion is not None:
        return certify_stationary(evidence)
    return evidence.program.dispatch(
        lambda rows: certify_affine(evidence, rows), lambda cones: certify_convex(evidence, cones)
    )
