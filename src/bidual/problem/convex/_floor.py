"""The floor of a convex problem: the least that its objective can be anywhere, by multipliers that ask for no plan.

    max  offset - lam . h   s.t.   c_y + G_y' lam = 0,   c_u + G_u' lam = 0,   lam in the dual cone

are multipliers of slope 0, the dual of the problem over all of R^n instead of the images of policies. For a sum of
norms they are 0 but for the epigraphs, and prove that it is never negative. They exist whenever the objective has a
least value, also where the search has found nothing better.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.problem.convex._clarabel import run_clarabel
from bidual.problem.convex._conic import ConicForm

_NOISE = 1e-6  # of a cone solver's multipliers, relative to the largest: where it can be 0 it is
_MOST_ROWS = 50_000


def find_floor_multipliers(form: ConicForm) -> Float[np.ndarray, "r"] | None:
    """Find multipliers of slope 0, to solver precision; None where there are none, or the form is too large."""
    if form.h.size > _MOST_ROWS:
        return None
    form, unit = form.with_moderate_costs()
    A = sp.csc_array(sp.hstack([form.G_y, form.G_u]))
    try:
        _, lam = run_clarabel(np.concatenate([form.c_y, form.c_u]), A, form.h, form.cones, nonneg=0, zero=0)
    except np.linalg.LinAlgError:
        return None
    return unit * np.where(np.abs(lam) <= _NOISE * np.abs(lam).max(initial=0.0), 0.0, lam)
