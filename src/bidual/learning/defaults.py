"""What `learn` takes where no model and no explorer are given, so that an environment needs nothing but its name.

For vectors: a regression on features in the units of what is seen, and plans that are made again as the episode goes
on, often and short or seldom and long, whichever is cheaper in the model. No bound is claimed; docs/control.md says
what is learned.
"""

from typing import Any

from bidual.loop.explorers import AbstractExplorer, Alternating, Controls, Corrective, Optimistic
from bidual.models import KNR, Declaration, Tabular
from bidual.planners.control import Cheapest, Mpc, Thompson, icem
from bidual.problem.features import Computed, fourier
from bidual.problem.modelling import Problem

VECTORS = KNR(fourier(512, 1.5, scales="seen"), ridge=1e-4)

# Explorers by the names that declarations give them.
_EXPLORERS = {"alternating": Alternating, "optimistic": Optimistic, "controls": Controls}


def choose_model(problem: Problem) -> Declaration:
    """Return the model for a problem that names none: counts or, where signals are of vectors, a regression."""
    return VECTORS if isinstance(problem.embedding.features, Computed) else Tabular()


def choose_explorer(problem: Problem, model: Declaration) -> AbstractExplorer[Any]:
    """Return the explorer for a problem and its model, where none is given."""
    return plan_vectors(problem) if model == VECTORS else _EXPLORERS[model.default_explorer]()


def plan_vectors(problem: Problem) -> Controls:
    """Return the explorer for vectors of which nothing is declared.

    Numbered actions have no gradient, so that nothing is descended; without limits all plans are for the same cost, and
    one is enough.
    """
    inner = None if problem.limits or not problem.program().is_linear else Corrective(gap=None, max_plans=1)
    return Controls(
        Thompson(0.3), icem(128, 4, deviation=1.0), Cheapest((Mpc(2, 40), Mpc(2, 100))), inner=inner, rollouts=2
    )
