"""Directions along which the other variables of a cone form may go on for ever while the cost falls."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.convex._clarabel import run_clarabel
from bidual.convex._conic import ConicForm


def falling_direction(form: ConicForm) -> Float[np.ndarray, "p"] | None:
    """The d in a box with -G_u d in the cones and the least c_u . d, to a cone solver's precision; None if it is 0."""
    p = form.c_u.size
    box = sp.eye_array(p)
    A, b = sp.vstack([form.G_u, box, -box]), np.concatenate([np.zeros(form.h.size), np.ones(2 * p)])
    try:
        d, _ = run_clarabel(form.c_u, sp.csc_array(A), b, form.cones, nonneg=2 * p, zero=0)
    except np.linalg.LinAlgError:
        return None
    return d if float(form.c_u @ d) < -1e-7 * float(np.abs(form.c_u).max(initial=0.0)) else None
