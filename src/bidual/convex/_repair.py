"""Multipliers of a cone form made exactly dual-feasible.

A cone solver's multipliers satisfy c_u + G_u' lam = 0 and lam in the dual cone to eight digits; a bound needs both
exactly. `repaired` moves them onto the equations by a rounding error and mixes in a little of a point deep inside
the dual cone. `movement` says how far the exact solution of the equations can be from such a vector: where a box of
that size around it lies in the dual cone, an exactly feasible vector exists within it, and the bound of the one is
the bound of the other up to the box.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual.convex._clarabel import run_clarabel
from bidual.convex._cones import EPS
from bidual.convex._conic import ConicForm

_DENSE = 600  # up to so many other variables a dense pseudo-inverse gives a bound for every row by itself


def movement(form: ConicForm, lam: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
    """How far every multiplier has to move, at most, for c_u + G_u' lam = 0 to hold exactly."""
    touched = np.diff(sp.csr_array(form.G_u).indptr) > 0
    terms = np.diff(form.G_u.indptr) + 2
    rounding = terms * EPS * (np.abs(form.c_u) + abs(form.G_u).T @ np.abs(lam))
    missing = np.abs(form.residual(lam)) + rounding
    if missing.size == 0:
        return np.zeros(lam.size)
    if missing.size <= _DENSE:
        inverse = np.linalg.pinv(form.G_u.toarray())
        # A column that nothing can move must not need moving: then no multipliers are feasible.
        stuck = np.linalg.norm(inverse, axis=1) == 0
        if np.any(missing[stuck] > rounding[stuck]):
            return np.full(lam.size, np.inf)
        return 2 * (np.abs(inverse).T @ missing)
    return np.where(touched, 2 * np.linalg.norm(missing) / _least_singular_value(form.G_u), 0.0)


def repaired(
    form: ConicForm, lam: Float[np.ndarray, "r"], inner: Float[np.ndarray, "r"]
) -> Float[np.ndarray, "r"] | None:
    """The nearest multipliers to `lam`, towards the interior point `inner`, that can be shown feasible; or None."""
    for share in (0.0, *np.logspace(-14, -1, 27)):
        mixed = _on_equations(form, (1 - share) * lam + share * inner)
        if not form.cones.outside(mixed, movement(form, mixed)):
            return mixed
    return None


def interior(form: ConicForm) -> Float[np.ndarray, "r"] | None:
    """Multipliers inside the dual cone, not too large; None where there are none.

    They are z + s e with e a point inside the dual cone, for the z in it and s <= 1 that maximise s - size(z) / 1000
    subject to c_u + G_u' (z + s e) = 0. Its dual has the form that Clarabel wants:

        min  c_u . u + t    s.t.  -G_u u + size / 1000  in  cones,   t >= 1 + e . G_u u,   t >= 0.
    """
    r, e = form.h.size, form.cones.interior()
    A = sp.block_array(
        [
            [form.G_u, sp.csc_array((r, 1))],
            [sp.csr_array(e[None] @ form.G_u), -sp.csc_array(np.ones((1, 1)))],
            [None, -sp.eye_array(1)],
        ],
        format="csc",
    )
    b = np.concatenate([1e-3 * form.cones.size_of_duals(), [-1.0, 0.0]])
    try:
        _, z = run_clarabel(np.append(form.c_u, 1.0), sp.csc_array(A), b, form.cones, nonneg=2, zero=0)
    except np.linalg.LinAlgError:
        return None
    return _on_equations(form, z[:r] + z[r] * e)


def _on_equations(form: ConicForm, lam: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
    """The nearest vector that solves c_u + G_u' lam = 0, to rounding."""
    if form.c_u.size == 0:
        return lam
    for _ in range(2):
        missing = form.residual(lam)
        if form.c_u.size <= _DENSE:
            lam = lam - np.linalg.lstsq(form.G_u.T.toarray(), missing, rcond=None)[0]
        else:
            lam = lam - form.G_u @ _normal_equations(form.G_u).solve(missing)
    return lam


def _normal_equations(G: sp.csc_array) -> "sp.linalg.SuperLU":
    from scipy.sparse.linalg import splu

    return splu(sp.csc_matrix(G.T @ G))


def _least_singular_value(G: sp.csc_array) -> float:
    """From below, by inverse power iteration: its estimate approaches from above, hence the safety factor."""
    solve = _normal_equations(G).solve
    v = np.random.default_rng(0).normal(size=len(G.indptr) - 1)
    growth = 1.0
    for _ in range(20):
        v = solve(v / np.linalg.norm(v))
        growth = float(np.linalg.norm(v))
    return 0.5 / np.sqrt(growth)
