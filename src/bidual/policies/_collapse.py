"""A mixture under a known model is one Markov policy: divide its occupancies by its visits.

For the mean occupancy measure mu_h(s, a) the policy mu_h(a | s) has the very same embedding, so a user gets one
table instead of a lottery over plans.
"""

import numpy as np
from jaxtyping import Float, Int

from bidual._types import at_step
from bidual.mdp import TabularMDP
from bidual.policies._markov import DeterministicPolicy, MarkovPolicy
from bidual.policies._mixture import Mixture


def advance(
    mdp: TabularMDP, laws: Float[np.ndarray, "k S"], actions: Int[np.ndarray, "k S"], h: int
) -> Float[np.ndarray, "k S"]:
    """The laws of the next state, from k laws of the state at step h with one action per state each."""
    k, S = laws.shape
    everyone = np.arange(S)
    flow = laws[:, :, None] * at_step(mdp.successors.probabilities, h)[everyone, actions]
    targets = at_step(mdp.successors.states, h)[everyone, actions] + (np.arange(k) * S)[:, None, None]
    return np.bincount(targets.ravel(), weights=flow.ravel(), minlength=k * S).reshape(k, S)


def visits(mdp: TabularMDP, policy: DeterministicPolicy) -> Float[np.ndarray, "H S"]:
    """The distribution over states at every step."""
    laws = [mdp.initial]
    for h in range(mdp.horizon - 1):
        laws.append(advance(mdp, laws[-1][None], policy.actions[None, h], h)[0])
    return np.stack(laws)


def collapse(mixture: Mixture, mdp: TabularMDP) -> MarkovPolicy:
    """The one Markov policy with the mixture's embedding.

    Where the mixture never arrives any law would do; the heaviest member's action is taken, which is the best
    reply to the cost it was planned for.
    """
    actions = np.stack([member.actions for member in mixture.members])
    heaviest = actions[int(np.argmax(mixture.weights))]
    everyone = np.arange(mdp.num_states)
    table = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    laws = np.repeat(mdp.initial[None], len(actions), axis=0)
    for h, row in enumerate(table):
        for share, chosen in zip(mixture.weights[:, None] * laws, actions[:, h], strict=True):
            row[everyone, chosen] += share
        arrived = row.sum(axis=1)
        if not arrived.all():
            empty = np.flatnonzero(arrived == 0)
            row[empty, heaviest[h, empty]] = arrived[empty] = 1.0
        row /= arrived[:, None]
        laws = advance(mdp, laws, actions[:, h], h)
    return MarkovPolicy(table)
