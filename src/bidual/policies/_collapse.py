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
    mdp: TabularMDP, mu: Float[np.ndarray, "S"], actions: Int[np.ndarray, "S"], h: int
) -> Float[np.ndarray, "S"]:
    """The law of the next state, from the law `mu` of the state at step h and one action per state."""
    here = np.flatnonzero(mu)
    flow = mu[here, None] * at_step(mdp.successors.probabilities, h)[here, actions[here]]
    targets = at_step(mdp.successors.states, h)[here, actions[here]]
    return np.bincount(targets.ravel(), weights=flow.ravel(), minlength=mdp.num_states)


def visits(mdp: TabularMDP, policy: DeterministicPolicy) -> Float[np.ndarray, "H S"]:
    """The distribution over states at every step."""
    laws = [mdp.initial]
    for h in range(mdp.horizon - 1):
        laws.append(advance(mdp, laws[-1], policy.actions[h], h))
    return np.stack(laws)


def collapse(mixture: Mixture, mdp: TabularMDP) -> MarkovPolicy:
    """The one Markov policy with the mixture's embedding.

    Where the mixture never arrives any law would do; the heaviest member's action is taken, which is the best
    reply to the cost it was planned for.
    """
    heaviest = mixture.members[int(np.argmax(mixture.weights))]
    everyone = np.arange(mdp.num_states)
    table = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    laws = [mdp.initial for _ in mixture.members]
    for h, row in enumerate(table):
        for weight, member, mu in zip(mixture.weights, mixture.members, laws, strict=True):
            row[everyone, member.actions[h]] += weight * mu
        empty = np.flatnonzero(~row.any(axis=1))
        row[empty, heaviest.actions[h, empty]] = 1.0
        row /= row.sum(axis=1, keepdims=True)
        laws = [advance(mdp, mu, m.actions[h], h) for mu, m in zip(laws, mixture.members, strict=True)]
    return MarkovPolicy(table)
