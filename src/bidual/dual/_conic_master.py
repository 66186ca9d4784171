"""The master problem over plans for convex problems: a small cone program, solved by Clarabel.

With the images y_k of the plans k it is

    min_{w, u}  c_y . Y'w + c_u . u    s.t.   h - G_y Y'w - G_u u  in  cones,   w in the simplex.

The duals of its rows are the multipliers lam of the whole problem restricted to the plans, kinks included.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.problem.convex import ConicForm, run_clarabel


class ConicMixture(NamedTuple):
    """The best mixture of the plans, the other variables at it, and the multipliers of the rows."""

    weights: Float[np.ndarray, "k"]
    others: Float[np.ndarray, "p"]
    lam: Float[np.ndarray, "r"]


def solve_conic_master(form: ConicForm, Y: Float[np.ndarray, "k n"]) -> ConicMixture:
    """Solve for the best mixture of the plans; `LinAlgError` where the solver fails."""
    k, p, r = len(Y), form.c_u.size, form.h.size
    over_plans = sp.csc_array(form.G_y @ Y.T)
    A = sp.block_array(
        [[over_plans, form.G_u], [-sp.eye_array(k), None], [sp.csc_array(np.ones((1, k))), sp.csc_array((1, p))]],
        format="csc",
    )
    q = np.concatenate([Y @ form.c_y, form.c_u])
    b = np.concatenate([form.h, np.zeros(k), [1.0]])
    x, z = run_clarabel(q, sp.csc_array(A), b, form.cones, nonneg=k, zero=1)
    weights = np.where(x[:k] > 1e-12, x[:k], 0.0)
    if not weights.sum() > 0.5:
        raise np.linalg.LinAlgError("the weights of the master problem do not sum to 1")
    return ConicMixture(weights / weights.sum(), x[k:], z[:r])
