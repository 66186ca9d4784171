"""Bounds that are derived from scratch before anyone sees them.

The solver's own numbers are never printed. From the returned policy and a small record (multipliers) this package
computes both bounds anew, in plain NumPy and SciPy, sharing no code with the planner. Each bound is widened by a
rounding slack that is derived, not guessed (`rounding`). What does not fit together raises.
"""

import numpy as np
from jaxtyping import Float

from bidual.certificate._affine import certify_affine
from bidual.certificate._controlled import Controlled as Controlled
from bidual.certificate._controlled import certify_controlled as certify_controlled
from bidual.certificate._convex import certify_convex
from bidual.certificate._cuts import multipliers as convex_multipliers
from bidual.certificate._estimates import MOST_NUMBERS as MOST_NUMBERS
from bidual.certificate._estimates import Estimates as Estimates
from bidual.certificate._estimates import Round as Round
from bidual.certificate._estimates import Rows as Rows
from bidual.certificate._estimates import Spans as Spans
from bidual.certificate._estimates import at_embedding as at_embedding
from bidual.certificate._estimates import of_round as of_round
from bidual.certificate._estimates import worst_corner as worst_corner
from bidual.certificate._lower import lower_bound as lower_bound
from bidual.certificate._mixtures import MixtureBounds as MixtureBounds
from bidual.certificate._mixtures import Mixtures as Mixtures
from bidual.certificate._mixtures import certify_mixtures as certify_mixtures
from bidual.certificate._sampled import Sampled as Sampled
from bidual.certificate._sampled import certify_sampled as certify_sampled
from bidual.certificate._types import Certificate as Certificate
from bidual.certificate._types import Evidence as Evidence
from bidual.certificate._types import Record as Record
from bidual.certificate._types import users_bounds as users_bounds
from bidual.certificate._within import within_class as within_class
from bidual.convex import AffineProgram, ConvexProgram


def multipliers(program: AffineProgram | ConvexProgram, record: Record) -> Float[np.ndarray, "m"]:
    """The multipliers of the scalar constraints, whatever the record is made of."""
    return record.gamma if isinstance(program, AffineProgram) else convex_multipliers(program, record)


def certify(evidence: Evidence) -> Certificate:
    """Derive the bounds of the policy and of the record, and check that they agree."""
    if isinstance(evidence.program, AffineProgram):
        return certify_affine(evidence, evidence.program)
    return certify_convex(evidence, evidence.program)
