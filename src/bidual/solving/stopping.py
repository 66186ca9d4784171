"""When a search ends: its gap is closed, it stalls, or more plans lead nowhere."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bidual.certificate.constraints import Goal
from bidual.certificate.rounding import bound_value_slack
from bidual.dual import Duals
from bidual.problem.convex import TOLERANCE, AbstractProgram
from bidual.problem.features import Psi
from bidual.solving.solution import Progress
from bidual.world.mdp import TabularMDP

_PATIENCE = 4096  # plans before a search without a budget is asked whether it gets anywhere; then at twice as many
_MOST_PLANS = 1e6  # what such a search may need at its present pace
_CONFIRM = 6  # plans in which a gap has to halve for the search to go on


def is_settled(
    program: AbstractProgram,
    mdp: TabularMDP,
    psi: Psi,
    duals: Duals[Any],
    history: Sequence[Progress],
    goal: Goal,
) -> bool:
    """Check whether the gap is closed: to the optimum or, where constraints clash, to the least possible violation.

    What a convex objective was at first can be far above its optimum, as for exp(20 x). So a gap that is small only
    beside that counts once it shrinks no more.
    """
    if duals.stalled:
        return True
    state = history[-1]
    if is_in_conflict(duals):
        violation = float((program.violations(duals.g) / program.units).max())
        return violation - duals.conflict.value <= 0.99 * goal.gap
    if state.lower is None or state.upper is None:
        return False
    strict = goal.reduce_goal()
    if program.is_linear:
        met = strict.is_met(state.lower, state.upper)
        return met and strict.is_met(
            state.lower, state.upper + _expect_slack(mdp, psi, duals, goal.allowed(state.lower, state.upper))
        )
    if not goal.relative or strict._replace(floor=0.0).is_met(state.lower, state.upper):
        return strict.is_met(state.lower, state.upper)
    return strict.is_met(state.lower, state.upper) and has_stopped(history)


def _expect_slack(mdp: TabularMDP, psi: Psi, duals: Duals[Any], allowed: float) -> float:
    """Return the rounding slack that the certificate will subtract; 0 where no search could leave room for it."""
    slack = float(bound_value_slack(mdp, psi, np.abs(duals.theta)[None], 1)[0])
    return slack if slack <= 0.5 * allowed else 0.0


def has_stopped(history: Sequence[Progress]) -> bool:
    """Check whether the gap has not halved within the last few plans."""
    last = [(state.lower, state.upper) for state in history[-_CONFIRM - 1 :]]
    gaps = [upper - lower for lower, upper in last if lower is not None and upper is not None]
    return len(gaps) > _CONFIRM and gaps[-1] > 0.5 * gaps[0]


def is_hopeless(history: Sequence[Progress], goal: Goal) -> bool:
    """Check whether the second half of the plans has brought next to nothing, or millions would still be needed.

    It is the gap that counts, or the violation while there is none. Averages close a gap like 1 / sqrt(plans): where
    that leads nowhere in reasonable time the caller is to know what was found, and may ask for more with a budget.
    """
    plans = len(history)
    if plans < _PATIENCE or plans & (plans - 1):
        return False
    early, late = history[plans // 2 - 1], history[-1]
    before, now = (early.gap, late.gap) if early.gap and late.gap else (early.violation, late.violation)
    if not now <= 0.9 * before:
        return early.gap is not None or late.gap is None  # a gap at last is progress
    gap = goal.allowed(late.lower, late.upper) if late.lower is not None and late.upper is not None else goal.gap
    return plans * (now / gap) ** (math.log(2) / math.log(before / now)) > _MOST_PLANS if now > gap else False


def is_in_conflict(duals: Duals[Any]) -> bool:
    """Check whether the constraints with a multiplier are proved to clash by more than rounding."""
    return duals.conflict.value > TOLERANCE
