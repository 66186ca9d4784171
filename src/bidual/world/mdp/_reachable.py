"""The states of a model that any policy can reach, and the model over these alone."""

import numpy as np
from jaxtyping import Bool, Int

from bidual._base.names import UNNAMED
from bidual._base.types import Successors, select_step
from bidual.world.mdp._mdp import TabularMDP


def find_reachable(mdp: TabularMDP) -> Bool[np.ndarray, "S"]:
    """Return the states that some policy can reach at some step before the horizon, or ever where there is none."""
    seen = mdp.initial > 0
    frontier = np.flatnonzero(seen)
    lists = mdp.successors
    stationary = lists.states.shape[0] == lists.probabilities.shape[0] == 1
    for h in range(mdp.horizon - 1 if mdp.criterion is None else mdp.num_states):
        if frontier.size == 0 or seen.all():
            break
        possible = (select_step(lists.probabilities, h)[frontier] > 0) & lists.allowed[frontier, :, None]
        arrived = np.zeros_like(seen)
        arrived[select_step(lists.states, h)[frontier][possible]] = True
        # With one law for all steps a state need be expanded only once; with several, whenever it is occupied.
        frontier = np.flatnonzero(arrived & ~seen if stationary else arrived)
        seen |= arrived
    return seen


def list_reachable(mdp: TabularMDP) -> Int[np.ndarray, "R"]:
    """Return the numbers of the reachable states, found once for a model."""
    return mdp.memory.get("kept", lambda: np.flatnonzero(find_reachable(mdp)))


def restrict_model(mdp: TabularMDP, kept: Int[np.ndarray, "R"]) -> TabularMDP:
    """Return the model over some of its states, which hold all reachable ones and lose their names.

    A kept state may lead out of the kept set only in a step that is too late to matter; those successors are redirected
    to any kept state, which keeps values finite and changes nothing that is reached.
    """
    lists = mdp.successors
    if kept.size == mdp.num_states:
        return mdp
    number = np.zeros(mdp.num_states, dtype=np.int32)
    number[kept] = np.arange(kept.size, dtype=np.int32)
    small = object.__new__(TabularMDP)
    successors = Successors(
        number[lists.states[:, kept]], lists.probabilities[:, kept], lists.allowed[kept], lists.horizon
    )
    for name, value in (("successors", successors), ("initial", mdp.initial[kept]), ("names", UNNAMED)):
        object.__setattr__(small, name, value)
    return small
