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

_SMALL = 1e-3  # images and costs below are scaled up
_LARGE = 1e6  # and costs above down


class ConicMixture(NamedTuple):
    """The best mixture of the plans, the other variables at it, and the multipliers of the rows."""

    weights: Float[np.ndarray, "k"]
    others: Float[np.ndarray, "p"]
    lam: Float[np.ndarray, "r"]


def _choose_scales(form: ConicForm, over_plans: sp.csc_array) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "p"]]:
    """Return factors of the rows, one for each cone, and of the other variables, that bring small images to size 1.

    A cone solver's tolerances are absolute for small numbers. A cone stays what it is under a positive factor.
    Images of ordinary size are left alone.
    """
    r, p = form.h.size, form.c_u.size
    rows, others = np.ones(r), np.ones(p)
    if not 0 < np.abs(over_plans.data).max(initial=0.0) < _SMALL:
        return rows, others
    known = np.maximum(abs(over_plans).max(axis=1).toarray().ravel(), np.abs(form.h))
    blocks = form.cones.block_of_row()
    single = np.where(blocks < 0, -1 - np.arange(r), blocks)  # a row of {0} is a cone of its own
    cone = np.unique(single, return_inverse=True)[1]
    largest = np.zeros(cone.max(initial=-1) + 1)
    np.maximum.at(largest, cone, known)
    rows = np.where(largest > 0, 1 / np.where(largest > 0, largest, 1.0), 1.0)[cone]
    entries = sp.coo_array(form.G_u)
    tied = largest[cone][entries.row] > 0
    columns = np.zeros(p)
    np.maximum.at(columns, entries.col[tied], np.abs(entries.data[tied]) * rows[entries.row[tied]])
    others = np.where(columns > 0, 1 / np.where(columns > 0, columns, 1.0), 1 / rows.max(initial=1.0))
    # What has neither images nor limits follows its variables.
    follows = np.zeros(largest.size)
    np.maximum.at(follows, cone[entries.row], np.abs(entries.data) * others[entries.col])
    free = (largest == 0) & (follows > 0)
    rows = np.where(free[cone], 1 / np.where(follows > 0, follows, 1.0)[cone], rows)
    return rows, others


def solve_conic_master(form: ConicForm, Y: Float[np.ndarray, "k n"]) -> ConicMixture:
    """Solve for the best mixture of the plans; `LinAlgError` where the solver fails."""
    k, p, r = len(Y), form.c_u.size, form.h.size
    over_plans = sp.csc_array(form.G_y @ Y.T)
    rows, others = _choose_scales(form, over_plans)
    A = sp.block_array(
        [
            [sp.diags_array(rows) @ over_plans, sp.diags_array(rows) @ form.G_u @ sp.diags_array(others)],
            [-sp.eye_array(k), None],
            [sp.csc_array(np.ones((1, k))), sp.csc_array((1, p))],
        ],
        format="csc",
    )
    q = np.concatenate([Y @ form.c_y, others * form.c_u])
    size = float(np.abs(q).max(initial=0.0))
    size = size if 0 < size < _SMALL or size > _LARGE else 1.0
    b = np.concatenate([rows * form.h, np.zeros(k), [1.0]])
    x, z = run_clarabel(q / size, sp.csc_array(A), b, form.cones, nonneg=k, zero=1)
    x[k:], z[:r] = others * x[k:], size * rows * z[:r]
    weights = np.where(x[:k] > 1e-12, x[:k], 0.0)
    if not weights.sum() > 0.5:
        raise np.linalg.LinAlgError("the weights of the master problem do not sum to 1")
    return ConicMixture(weights / weights.sum(), x[k:], z[:r])
