"""Norms that leave no room, as equations of the master.

``norm(e) <= 0`` has no interior: a cone solver knows e to the root of its tolerance, and multipliers not even so well.
The same master with e = 0 in the place of the cone is a linear program as far as these rows go. Its multipliers z of
e = 0 are multipliers of the cone: (|z|, z) is in the dual of the second-order cone, and the epigraph variable t of the
norm, which must be at most the limit, takes |z| onto the row of that limit. Where the limit is 0 this costs nothing.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from bidual.dual._conic_master import ConicMixture, solve_conic_master
from bidual.dual._polish import find_apex_rows
from bidual.problem.convex import ConicForm


class Apex(NamedTuple):
    """A second-order cone that is only its apex: the first row, the others, and the row that limits the first."""

    head: int
    tail: Int[np.ndarray, "s"]
    limit: int


def sharpen(form: ConicForm, Y: Float[np.ndarray, "k n"], mixed: ConicMixture) -> ConicMixture:
    """Return the mixture with norms that must be 0 as equations; the same one where there are none, or it fails."""
    apexes = find_apexes(form, find_apex_rows(form, mixed.weights @ Y))
    if not apexes:
        return mixed
    try:
        return solve_with_equations(form, Y, apexes)
    except np.linalg.LinAlgError:  # the plans reach 0 to less than a solver's tolerance, say
        return mixed


def find_apexes(form: ConicForm, small: Int[np.ndarray, "s"]) -> list[Apex]:
    """Return the cones whose rows after the first are all `small`, and whose first one inequality holds at 0."""
    _, second, exponential, _ = form.cones.starts()
    by_row, by_column = form.G_u.tocsr(), form.G_u.tocsc()
    found, chosen = [], np.isin(np.arange(form.h.size), small)
    for head, stop in form.cones.extents():
        if not second <= head < exponential or not chosen[head + 1 : stop].all():
            continue
        columns = by_row.indices[by_row.indptr[head] : by_row.indptr[head + 1]]
        if columns.size != 1 or form.c_u[columns[0]] != 0 or form.h[head] != 0:
            continue
        (t,) = columns
        rows = by_column.indices[by_column.indptr[t] : by_column.indptr[t + 1]]
        limits = rows[rows != head]
        held = limits.size == 1 and form.cones.zero <= limits[0] < second and form.h[limits[0]] == 0
        if held and form.G_u[head, t] < 0 < form.G_u[limits[0], t]:
            found.append(Apex(head, np.arange(head + 1, stop), int(limits[0])))
    return found


def solve_with_equations(form: ConicForm, Y: Float[np.ndarray, "k n"], apexes: list[Apex]) -> ConicMixture:
    """Solve the master with every apex as equations; `LinAlgError` where the solver fails."""
    tails = np.concatenate([apex.tail for apex in apexes])
    dropped = _mark(form, np.concatenate([tails, [apex.head for apex in apexes]]))
    kept = np.flatnonzero(~dropped)
    rows = np.concatenate([kept[: form.cones.zero], tails, kept[form.cones.zero :]])
    sizes = [
        stop - start
        for start, stop in form.cones.extents()
        if form.cones.starts()[1] <= start < form.cones.starts()[2] and not dropped[start]
    ]
    cones = replace(form.cones, zero=form.cones.zero + tails.size, second_order=tuple(sizes))
    reduced = replace(
        form,
        G_y=sp.csr_array(form.G_y[rows]),
        G_u=sp.csc_array(form.G_u.tocsr()[rows]),
        h=form.h[rows],
        cones=cones,
        owner=form.owner[rows],
        sign=form.sign[rows],
    )
    mixed = solve_conic_master(reduced, Y)
    lam = np.zeros(form.h.size)
    lam[rows] = mixed.lam
    for apex in apexes:
        lam[apex.head] = np.linalg.norm(lam[apex.tail]) * (1 + 1e-12)
        t = form.G_u[[apex.head]].nonzero()[1][0]
        lam[apex.limit] -= form.G_u[apex.head, t] * lam[apex.head] / form.G_u[apex.limit, t]
    return mixed._replace(lam=lam)


def _mark(form: ConicForm, rows: Int[np.ndarray, "s"]) -> Bool[np.ndarray, "r"]:
    marked = np.zeros(form.h.size, dtype=bool)
    marked[rows] = True
    return marked
