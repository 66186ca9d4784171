"""Exploration: visit all states as evenly as possible."""

import cvxpy as cp
import numpy as np

from bidual.problem.modelling import Problem
from bidual.tasks.problems._declare import Limits, declare, over_time
from bidual.world.mdp import TabularMDP, reachable


def max_entropy(mdp: TabularMDP, *, limits: Limits | None = None) -> Problem:
    """Exploration: maximise the entropy of the time-averaged law of the state.

    ``max_entropy(mdp, limits={"pits": (pits, 0.3)})``. The largest conceivable value is log n, where n states can be
    reached at all: then all of them are visited equally often.

    Args:
        mdp: the model.
        limits: the constraints by name, as the module says; there is ``x.visits`` for functions.
    """
    x, constraints = declare(mdp, {}, limits, visits=True)
    states = np.flatnonzero(reachable(mdp))
    law = over_time(x.visits[:, states]) / mdp.horizon
    # Entropy as log n minus the divergence from uniform: the cone solver gives up on sums of entr at laws near 0.
    return Problem(cp.Maximize(np.log(states.size) - cp.sum(cp.kl_div(law, 1 / states.size))), constraints)
