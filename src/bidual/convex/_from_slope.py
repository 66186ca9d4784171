"""The best bound that one linear cost can prove, as multipliers of the cone form.

However a dual player came by its cost theta = alpha + sum_i beta_i, the best that can be made of it is

    min over policies of theta . y   +   min over y in K with g(y) <= 0 of  f(y) - theta . y,

and the second minimum is a cone program whose multipliers are a record like any other: made exactly dual-feasible,
they prove their bound without K and without conjugates.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.convex._clarabel import run_clarabel
from bidual.convex._conic import ConicForm


def multipliers_of_slope(
    form: ConicForm, slope: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "r"]:
    """The multipliers at the minimum of f(y) - slope . y over a box; `LinAlgError` where the solver gives up."""
    n, p, r = form.c_y.size, form.c_u.size, form.h.size
    box = sp.hstack([sp.eye_array(n), sp.csc_array((n, p))])
    A = sp.vstack([sp.hstack([form.G_y, form.G_u]), -box, box])
    q, b = np.concatenate([form.c_y - slope, form.c_u]), np.concatenate([form.h, -lower, upper])
    _, z = run_clarabel(q, sp.csc_array(A), b, form.cones, nonneg=2 * n, zero=0)
    return z[:r]
