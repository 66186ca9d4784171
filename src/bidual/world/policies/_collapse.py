"""Collapse of a mixture under a known model to one Markov policy: its occupancies divided by its visits.

For the mean occupancy measure mu_h(s, a) the policy mu_h(a | s) has the very same embedding, so a user gets one
table instead of a lottery over plans.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from bidual._base.errors import PolicyError
from bidual._base.types import select_step
from bidual.problem.features import Psi
from bidual.world.mdp import TabularMDP, list_reachable, restrict_model
from bidual.world.policies._base import AbstractPolicy
from bidual.world.policies._choices import Choices
from bidual.world.policies._control import ControlPolicy
from bidual.world.policies._decoded import DecodedPolicy
from bidual.world.policies._markov import DeterministicPolicy, MarkovPolicy
from bidual.world.policies._mixture import Mixture
from bidual.world.policies._occupancy import occupy

_FEW = 8  # plans whose choices take less room and time than a table


def list_transition_matrices(mdp: TabularMDP) -> list[sp.csc_array]:
    """Return the (S, S A) matrices from occupancies to laws of the next state: one per step, or one for all."""
    lists = mdp.successors
    S, A, K = lists.states.shape[1:]
    columns = np.arange(S * A + 1) * K
    return [
        sp.csc_array(
            (select_step(lists.probabilities, h).ravel(), select_step(lists.states, h).ravel(), columns),
            shape=(S, S * A),
        )
        for h in range(max(lists.states.shape[0], lists.probabilities.shape[0]))
    ]


def visits(mdp: TabularMDP, policy: DeterministicPolicy | MarkovPolicy | DecodedPolicy) -> Float[np.ndarray, "H S"]:
    """Compute the distribution over states at every step; over an unbounded time, one row of what counts of them."""
    if mdp.criterion is not None:
        return occupy(mdp, policy.at(0)).sum(axis=1)[None]
    matrices, laws = list_transition_matrices(mdp), [mdp.initial]
    for h in range(mdp.horizon - 1):
        laws.append(matrices[h % len(matrices)] @ (laws[-1][:, None] * policy.at(h)).ravel())
    return np.stack(laws)


def from_occupancy(occupancy: Float[np.ndarray, "H S A"], mdp: TabularMDP) -> MarkovPolicy:
    """Return the Markov policy with these occupancies; where it never arrives, the first allowed action."""
    arrived = occupancy.sum(axis=-1, keepdims=True)
    first = np.eye(mdp.num_actions)[np.argmax(mdp.actions, axis=1)]
    table = np.where(arrived > 0, occupancy, first)
    law = table / table.sum(axis=-1, keepdims=True)
    return MarkovPolicy(law, mdp.names, stationary=mdp.criterion is not None)


def collapse(mixture: Mixture, mdp: TabularMDP) -> MarkovPolicy:
    """Return the one Markov policy with the mixture's embedding.

    Where the mixture never arrives any law would do; the heaviest member's action is taken, which is the best
    reply to the cost it was planned for.
    """
    members = [member for member in mixture.members if not isinstance(member, ControlPolicy)]
    if len(members) < len(mixture.members):
        raise PolicyError("a controller answers vectors, not states: it has no table to collapse into")
    plans = [member for member in members if isinstance(member, DeterministicPolicy)]
    if mdp.criterion is None and len(plans) == len(members) <= _FEW:
        return MarkovPolicy.from_choices(_collapse_plans(mixture, plans, mdp), mdp.names)
    if len(members) == 1:
        return MarkovPolicy(members[0].table, mdp.names, stationary=mdp.criterion is not None)
    if mdp.criterion is not None:
        return _collapse_stationary(members, mixture.weights, mdp)
    return _collapse_tables(mixture, members, mdp)


def _collapse_plans(mixture: Mixture, plans: Sequence[DeterministicPolicy], mdp: TabularMDP) -> Choices:
    """Collapse a few plans over the states that some policy can reach: each has its share of its action."""
    kept = list_reachable(mdp)
    small = restrict_model(mdp, kept)
    H, A, R, w = mdp.horizon, mdp.num_actions, kept.size, len(plans)
    actions = np.stack([plan.actions[:, kept] for plan in plans], axis=1)
    if w == 1:
        return Choices(actions, np.ones((H, 1, R)), kept, np.argmax(mdp.actions, axis=1), A)
    lists = small.successors
    states, chances = (one.reshape(len(one), R * A, -1) for one in (lists.states, lists.probabilities))
    first = np.zeros(w)
    first[np.argmax(mixture.weights)] = 1.0
    laws = [weight * small.initial for weight in mixture.weights]  # each plan's part of the law of the state
    shares = np.empty((H, w, R))
    for h in range(H):
        shares[h] = laws
        arrived = shares[h].sum(axis=0)
        empty = arrived == 0
        shares[h] /= np.where(empty, 1.0, arrived)
        shares[h, :, empty] = first
        if h == H - 1:
            break
        for i, law in enumerate(laws):
            pairs = np.arange(R) * A + actions[h, i]
            flow = select_step(chances, h).take(pairs, axis=0) * law[:, None]
            laws[i] = np.bincount(select_step(states, h).take(pairs, axis=0).ravel(), flow.ravel(), minlength=R)
    return Choices(actions, shares, kept, np.argmax(mdp.actions, axis=1), A)


def _collapse_tables(
    mixture: Mixture, members: Sequence[DeterministicPolicy | MarkovPolicy | DecodedPolicy], mdp: TabularMDP
) -> MarkovPolicy:
    """Collapse policies of any kind, over all states."""
    matrices = list_transition_matrices(mdp)
    heaviest = members[int(np.argmax(mixture.weights))]
    table = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    shares = [weight * mdp.initial for weight in mixture.weights]  # each member's part of the law of the state
    for h, row in enumerate(table):
        for i, member in enumerate(members):
            occupancy = shares[i][:, None] * member.at(h)
            row += occupancy
            shares[i] = matrices[h % len(matrices)] @ occupancy.ravel()
        arrived = row.sum(axis=1)
        if not arrived.all():
            empty = np.flatnonzero(arrived == 0)
            row[empty], arrived[empty] = heaviest.at(h)[empty], 1.0
        row /= arrived[:, None]
    return MarkovPolicy(table, mdp.names)


def _collapse_stationary(
    members: Sequence[MarkovPolicy | DeterministicPolicy | DecodedPolicy],
    weights: Float[np.ndarray, "k"],
    mdp: TabularMDP,
) -> MarkovPolicy:
    """Return the stationary policy with the mean occupancies, and the heaviest member's where none of them arrives."""
    parts = [weight * occupy(mdp, member.at(0)) for weight, member in zip(weights, members, strict=True)]
    mean = np.sum(parts, axis=0)
    arrived = mean.sum(axis=1, keepdims=True)
    table = np.where(arrived > 0, mean, members[int(np.argmax(weights))].at(0))
    return MarkovPolicy((table / table.sum(axis=1, keepdims=True))[None], mdp.names, stationary=True)


def embedding(mdp: TabularMDP, psi: Psi, policy: AbstractPolicy) -> Float[np.ndarray, "H d"]:
    """Compute the embedding of a policy that is a table."""
    if not isinstance(policy, MarkovPolicy | DeterministicPolicy | DecodedPolicy):
        raise PolicyError(f"a {type(policy).__name__} is no table over the states of a model")
    if mdp.criterion is not None:
        return psi.expect(occupy(mdp, policy.at(0)), 0)[None]
    matrices, law, rows = list_transition_matrices(mdp), mdp.initial, []
    for h in range(mdp.horizon):
        occupancy = law[:, None] * policy.at(h)
        rows.append(psi.expect(occupancy, h))
        law = matrices[h % len(matrices)] @ occupancy.ravel()
    return np.stack(rows)
