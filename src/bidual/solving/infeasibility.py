"""Clashing constraints: as few of them as deletion finds.

A proof of infeasibility weighs constraints against each other. The proof of a cone solver gives every constraint some
weight, the innocent ones next to none; these are left out first. Then each of the others is left out in turn, and the
search for a feasible point is run again: where it still fails, the constraint is no part of the clash.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Bool

from bidual.dual import Bound, ConicCorrective
from bidual.loop.primal_dual import primal_dual
from bidual.models import Known, Layout, Stationary
from bidual.planners import AbstractSoftPlanner
from bidual.problem.convex import TOLERANCE, ConicForm, ConvexProgram
from bidual.problem.modelling import Line

_NEXT_TO_NOTHING = 1e-6  # share of the weights
_PLANS = 40  # for a search without one of the constraints


def find_smallest_clash(
    program: ConvexProgram,
    psi: Layout,
    model: Known | Stationary,
    planner: AbstractSoftPlanner[Any],
    bound: Bound,
    lines: Sequence[Line],
) -> tuple[Bound, Bool[np.ndarray, "r"]]:
    """Find a bound on the violation that rests on as few constraints as possible, and the rows left out."""
    form = program.violation
    assert form is not None  # there is a clash, so there are constraints
    weights = np.abs(form.gamma(bound.gamma, program.units.size)) * program.units
    innocent = weights <= _NEXT_TO_NOTHING * weights.sum()
    ends = np.cumsum([line.bounds.size for line in lines])
    groups = [np.arange(end - line.bounds.size, end) for line, end in zip(lines, ends, strict=True)]
    guilty = [group for group in groups if not innocent[group].all()]
    for group in sorted(guilty, key=lambda rows: float(weights[rows].sum())):
        if len(guilty) == 1:
            break
        without = innocent.copy()
        without[group] = True
        found = _find_clash_without(program, psi, model, planner, _find_rows(form, without))
        if found is not None:
            bound, innocent = found, without
            guilty = [other for other in guilty if other is not group]
    return bound, _find_rows(form, innocent)


def _find_rows(form: ConicForm, scalars: Bool[np.ndarray, "m"]) -> Bool[np.ndarray, "r"]:
    """Return the rows that contain the limits of these scalar constraints."""
    return (form.owner >= 0) & np.append(scalars, False)[form.owner]


def _find_clash_without(
    program: ConvexProgram,
    psi: Layout,
    model: Known | Stationary,
    planner: AbstractSoftPlanner[Any],
    dropped: Bool[np.ndarray, "r"],
) -> Bound | None:
    """Compute the bound that some plans prove without the dropped rows; None if it is not positive."""
    form = program.violation
    assert form is not None  # the caller checks
    keep = (~dropped).astype(np.float64)
    # A row 1 >= 0 is no constraint.
    masked = replace(
        form,
        G_y=type(form.G_y)(form.G_y * keep[:, None]),
        G_u=type(form.G_u)(form.G_u * keep[:, None]),
        h=np.where(dropped, 1.0, form.h),
    )
    relaxed = replace(program, main=masked, violation=masked, margin=None, equality=np.zeros_like(program.equality))
    for iteration in islice(primal_dual(relaxed, psi, model, planner, ConicCorrective()), _PLANS):
        if iteration.duals.conflict.value > 10 * TOLERANCE:
            clash = iteration.duals.conflict
            return Bound(clash.value, np.where(dropped, 0.0, clash.gamma))
        if iteration.duals.stalled or iteration.duals.feasible:
            return None
    return None
