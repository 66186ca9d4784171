"""Repair of multipliers of a cone form to exact dual feasibility.

A cone solver's multipliers satisfy c_u + G_u' lam = 0 and lam in the dual cone to eight digits; a bound needs both
exactly. `repaired` moves them onto the equations by a rounding error and mixes in a little of a point deep inside
the dual cone. `bound_movement` bounds the distance of the exact solution of the equations from such a vector: where a
box of that size around it lies in the dual cone, an exactly feasible vector exists within it, and the bound of the one
is the bound of the other up to the box.

`find_multipliers_of_slope` is where a dual player's cost comes from elsewhere. However it came by theta = alpha + sum_i
beta_i, the best that can be made of it is

    min over policies of theta . y   +   min over y in K with g(y) <= 0 of  f(y) - theta . y,

and the second minimum is a cone program whose multipliers are a record like any other: made exactly dual-feasible,
they prove their bound without K and without conjugates. `find_falling_direction` is the other side: a direction
along which the other variables of a cone form may go on for ever while the cost falls, so that there are no
multipliers.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from bidual.problem.convex._clarabel import run_clarabel
from bidual.problem.convex._cones import EPS, Cones
from bidual.problem.convex._conic import ConicForm

_SHALLOW = 1e-4  # a depth that all multipliers which are not forced to 0 can have at once
_DENSE = 600  # up to so many other variables a dense pseudo-inverse gives a bound for every row by itself


def bound_movement(form: ConicForm, lam: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
    """Bound the move of every multiplier that makes c_u + G_u' lam = 0 hold exactly.

    A cone whose multipliers are all 0 stays there: they are at its apex, which is exact. Infinite where the columns
    of G_u that are left are not independent: then the equations may have no solution at all.
    """
    still = form.cones.zeros(lam)
    G = sp.csc_array(form.G_u[~still])
    empty = np.diff(G.indptr) == 0
    if np.any(form.c_u[empty] != 0):
        return np.full(lam.size, np.inf)
    G = sp.csc_array(G[:, ~empty])
    terms = np.diff(G.indptr) + 2
    rounding = terms * EPS * (np.abs(form.c_u[~empty]) + abs(G).T @ np.abs(lam[~still]))
    missing = np.abs(form.residual(lam)[~empty]) + rounding
    moved = np.zeros(lam.size)
    moved[~still] = 2 * _bound_least_moves(G, missing)
    return moved


def _bound_least_moves(G: sp.csc_array, missing: Float[np.ndarray, "p"]) -> Float[np.ndarray, "r"]:
    """Bound the entries of the shortest d with G'd = e, for any |e| <= missing."""
    rows, columns = G.shape or (0, 0)
    if columns == 0:
        return np.zeros(rows)
    if columns <= _DENSE:
        U, singular, Vt = np.linalg.svd(G.toarray(), full_matrices=False)
        if rows < columns or singular[-1] <= 1e-9 * singular[0]:
            return np.full(rows, np.inf)
        return np.abs((U / singular) @ Vt) @ missing
    least = _bound_least_singular_value(G)
    touched = np.diff(sp.csr_array(G).indptr) > 0
    return np.where(touched, np.linalg.norm(missing) / least, 0.0) if least > 0 else np.full(rows, np.inf)


def repair_multipliers(
    form: ConicForm, lam: Float[np.ndarray, "r"], inner: Float[np.ndarray, "r"]
) -> Float[np.ndarray, "r"] | None:
    """Return the nearest multipliers to `lam`, towards the interior `inner`, that are provably feasible; or None."""
    still = form.cones.zeros(inner)  # rows that are 0 in every solution must be 0 exactly
    lam = np.where(still, 0.0, lam)
    for share in (0.0, *np.logspace(-14, -1, 27)):
        mixed = _project(form, (1 - share) * lam + share * inner, still)
        if not form.cones.outside(mixed, bound_movement(form, mixed)):
            return mixed
    return None


def find_interior(form: ConicForm, dropped: Bool[np.ndarray, "r"] | None = None) -> Float[np.ndarray, "r"] | None:
    """Find multipliers inside the dual cone and not too large; None where there are none.

    Where no multipliers are inside, some cones have multipliers 0 in every solution: these get them exactly, and the
    others are inside. The same for inequalities to drop (`dropped`).
    """
    still = _find_forced_rows(form, np.zeros(form.h.size, dtype=bool) if dropped is None else dropped)
    for _ in range(3):
        found = _find_deepest_multipliers(form, still, 1.0)
        if found is not None and found[1].min(initial=1.0) > 1e-7:
            return found[0]
        shallow = _find_deepest_multipliers(form, still, _SHALLOW)
        if shallow is None:
            return None
        flat = shallow[1] < 0.5  # in units of the small depth that all others reach at once
        larger = _find_forced_rows(form, still | _find_rows_of_cones(form.cones, flat))
        if np.array_equal(larger, still):
            return None
        still = larger
    return None


def _find_forced_rows(form: ConicForm, still: Bool[np.ndarray, "r"]) -> Bool[np.ndarray, "r"]:
    """Return the rows whose multipliers must be 0 where those in `still` are.

    An equation sum_i G_ij lam_i = 0 whose terms all have one sign leaves no choice. So an epigraph
    whose variable no row bounds any more is dropped with that row.
    """
    signs, blocks = form.cones.signs(), form.cones.block_of_row()
    still = still.copy()
    while True:
        G = sp.csc_array(form.G_u[~still])
        terms = G.data * signs[~still][G.indices]
        spans = list(zip(G.indptr[:-1], G.indptr[1:], strict=True))
        definite = [i < j and (np.all(terms[i:j] > 0) or np.all(terms[i:j] < 0)) for i, j in spans]
        columns = np.flatnonzero(np.array(definite, dtype=bool) & (form.c_u == 0))
        if columns.size == 0:
            return still
        rows = np.flatnonzero(~still)[np.unique(G[:, columns].indices)]
        still = still | np.isin(blocks, blocks[rows])


def _find_deepest_multipliers(
    form: ConicForm, still: Bool[np.ndarray, "r"], depth: float
) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "b"]] | None:
    """Compute multipliers z + depth sum_b s_b e_b over the cones b, 0 where `still`, and the s_b.

    e_b is a point inside the dual of each cone; z in the dual cone and s_b <= 1 maximise sum_b s_b - size(z) / 1000
    subject to c_u + G_u' lam = 0; with depth 1 all s_b are one and the same. The dual has Clarabel's form:

        min  c_u . u + sum_b t_b   s.t.  -G_u u + size / 1000  in  cones,   t_b >= 1 + depth e_b . G_u u,   t_b >= 0.
    """
    r, E = form.h.size, form.cones.insides()
    moving = np.array([not still[start] for start, _ in form.cones.extents()], dtype=bool)
    E = sp.csr_array(depth * E[moving])
    if depth == 1.0:
        E = sp.csr_array(sp.csr_array(np.ones((1, len(E.indptr) - 1))) @ E)
    blocks = len(E.indptr) - 1
    # The rows of a dropped cone constrain nothing: its multipliers have neither cost nor effect.
    G = sp.csc_array(form.G_u * (~still)[:, None])
    used = np.diff(sp.csc_array(form.G_u[~still]).indptr) > 0
    if np.any(form.c_u[~used] != 0):
        return None
    A = sp.block_array(
        [[G, sp.csc_array((r, blocks))], [E @ G, -sp.eye_array(blocks)], [None, -sp.eye_array(blocks)]], format="csc"
    )
    b = np.concatenate([1e-3 * form.cones.size_of_duals(), -np.ones(blocks), np.zeros(blocks)])
    cost = np.append(form.c_u, np.ones(blocks))
    try:
        _, z = run_clarabel(cost, sp.csc_array(A), b, form.cones, nonneg=2 * blocks, zero=0)
    except np.linalg.LinAlgError:
        return None
    share = z[r : r + blocks]
    lam = _project(form, np.where(still, 0.0, z[:r] + share @ E), still)
    reached = np.ones(moving.size)
    reached[moving] = share[0] if depth == 1.0 and blocks else share
    return lam, reached


def _find_rows_of_cones(cones: Cones, flat: Bool[np.ndarray, "b"]) -> Bool[np.ndarray, "r"]:
    """Return the rows of the cones marked by `flat`."""
    rows = np.zeros(cones.size, dtype=bool)
    for block, (start, stop) in enumerate(cones.extents()):
        rows[start:stop] = flat[block]
    return rows


def _project(form: ConicForm, lam: Float[np.ndarray, "r"], still: Bool[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
    """Return the nearest vector that solves c_u + G_u' lam = 0, to rounding, with the rows in `still` unchanged."""
    G = sp.csc_array(form.G_u[~still])
    used = np.diff(G.indptr) > 0
    if not used.any():
        return lam
    G, lam = sp.csc_array(G[:, used]), lam.copy()
    for _ in range(2):
        missing = form.residual(lam)[used]
        if missing.size <= _DENSE:
            lam[~still] -= np.linalg.lstsq(G.T.toarray(), missing, rcond=None)[0]
        else:
            try:
                lam[~still] -= G @ _factor_normal_equations(G).solve(missing)
            except RuntimeError:  # exactly singular: `bound_movement` will be infinite
                return lam
    return lam


def _factor_normal_equations(G: sp.csc_array) -> "sp.linalg.SuperLU":
    from scipy.sparse.linalg import splu

    return splu(sp.csc_matrix(G.T @ G))


def _bound_least_singular_value(G: sp.csc_array) -> float:
    """Bound it from below by inverse power iteration: the estimate approaches from above, hence the safety factor."""
    try:
        solve = _factor_normal_equations(G).solve
    except RuntimeError:  # exactly singular
        return 0.0
    v = np.random.default_rng(0).normal(size=len(G.indptr) - 1)
    growth = 1.0
    for _ in range(20):
        v = solve(v / np.linalg.norm(v))
        growth = float(np.linalg.norm(v))
    return 0.5 / np.sqrt(growth)


def find_multipliers_of_slope(
    form: ConicForm, slope: Float[np.ndarray, "n"], lower: Float[np.ndarray, "n"], upper: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "r"]:
    """Return the multipliers at the minimum of f(y) - slope . y over a box; `LinAlgError` where the solver fails."""
    form, unit = form.with_moderate_costs()
    slope = slope / unit
    n, p, r = form.c_y.size, form.c_u.size, form.h.size
    box = sp.hstack([sp.eye_array(n), sp.csc_array((n, p))])
    A = sp.vstack([sp.hstack([form.G_y, form.G_u]), -box, box])
    q, b = np.concatenate([form.c_y - slope, form.c_u]), np.concatenate([form.h, -lower, upper])
    _, z = run_clarabel(q, sp.csc_array(A), b, form.cones, nonneg=2 * n, zero=0)
    return unit * z[:r]


def find_falling_direction(form: ConicForm) -> Float[np.ndarray, "p"] | None:
    """Find the d in a box with -G_u d in the cones and the least c_u . d, to solver precision; None if it is 0."""
    p = form.c_u.size
    box = sp.eye_array(p)
    A, b = sp.vstack([form.G_u, box, -box]), np.concatenate([np.zeros(form.h.size), np.ones(2 * p)])
    try:
        d, _ = run_clarabel(form.c_u, sp.csc_array(A), b, form.cones, nonneg=2 * p, zero=0)
    except np.linalg.LinAlgError:
        return None
    return d if float(form.c_u @ d) < -1e-7 * float(np.abs(form.c_u).max(initial=0.0)) else None
