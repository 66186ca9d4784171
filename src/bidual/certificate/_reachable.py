"""Evidence over the states that some policy can reach: all others change no value, and cost as much to check."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int

from bidual._base.types import select_step
from bidual.certificate._types import Evidence
from bidual.world.mdp import TabularMDP, restrict_model


def restrict_evidence(evidence: Evidence) -> tuple[Evidence, Int[np.ndarray, "R"] | None]:
    """Return evidence over the reachable states with their numbers; as it is, with None, where that gains nothing.

    Features of all states keep their places, so nothing is left out where there are any.
    """
    mdp, psi = evidence.mdp, evidence.psi
    if psi.visits or psi.occupancy:
        return evidence, None
    reachable = find_reachable_again(mdp)
    if reachable.all():
        return evidence, None
    kept = np.flatnonzero(reachable)
    model = mdp.memory.get("checked model", lambda: restrict_model(mdp, kept))
    signals = psi.signals[:, :, kept]
    return replace(evidence, mdp=model, psi=replace(psi, signals=signals), policy=evidence.policy.over(kept)), kept


def find_reachable_again(mdp: TabularMDP) -> Bool[np.ndarray, "S"]:
    """Find a set of states that holds all that any policy can reach before the horizon.

    The planner's own search is not trusted. Here the whole set so far is expanded at every step, whatever the step at
    which its states are reached; it is all states as soon as it is more than a half of them.
    """
    lists = mdp.successors
    found = mdp.initial > 0
    for h in range(mdp.horizon - 1):
        rows = np.flatnonzero(found)
        if 2 * rows.size > found.size:
            return np.ones_like(found)
        possible = (select_step(lists.probabilities, h)[rows] > 0) & lists.allowed[rows, :, None]
        before = found
        found = before.copy()
        found[select_step(lists.states, h)[rows][possible]] = True
        if len(lists.states) == len(lists.probabilities) == 1 and np.array_equal(found, before):
            break
    return found


def spread_visits(visits: Float[np.ndarray, "H R"], kept: Int[np.ndarray, "R"], num_states: int) -> np.ndarray:
    """Extend visits of the kept states to all states."""
    full = np.zeros((len(visits), num_states))
    full[:, kept] = visits
    return full
