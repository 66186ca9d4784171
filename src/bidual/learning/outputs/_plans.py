"""Estimates of a mixture of plans whose rollouts differed from them: values in the learned model, bounds over a class.

Algorithm 3 of the paper returns the mixture of the plans pi^t, but runs them with one action at random. So episodes are
no samples of the plans, and whatever is known of these comes from the laws that may be true.
"""

import numpy as np
from jaxtyping import Float, Int

from bidual.certificate import (
    EstimateRows,
    Estimates,
    PlanTables,
    bound_mixture,
    compute_mixture_embedding,
    evaluate_at,
)
from bidual.models import AbstractCounted
from bidual.problem.convex import AbstractProgram
from bidual.world.mdp import TabularMDP
from bidual.world.policies import DecodedPolicy, DeterministicPolicy, Mixture


def estimate_plans(
    program: AbstractProgram, rows: EstimateRows, mixture: Mixture, knowledge: AbstractCounted, count: int
) -> Estimates:
    """Estimate f and g of a mixture of the plans of `count` episodes; bounded where the class is proved to be one."""
    mdp, tables = knowledge.smoothed_model(), [_list_actions(one) for one in mixture.members]
    plans = PlanTables(np.stack(tables), mixture.weights)
    laws, A = _list_dense_laws(mdp), mdp.num_actions
    embedding = compute_mixture_embedding(plans, laws, knowledge.features(mdp), mdp.initial, A)
    mean = evaluate_at(program, embedding)
    estimates, possible = Estimates.unbounded(mean, count), knowledge.find_policy_laws()
    if possible is None:
        return estimates
    return estimates.narrow(mean, *bound_mixture(program, rows, plans, possible, knowledge.pieces))


def _list_actions(policy: object) -> Int[np.ndarray, "H S"]:
    assert isinstance(policy, DeterministicPolicy | DecodedPolicy)  # rollouts insert actions into tables
    return policy.actions


def _list_dense_laws(mdp: TabularMDP) -> tuple[Float[np.ndarray, "S A S"], ...]:
    """Return the law of every step but the last as an array over all states."""
    lists = mdp.successors
    S, A, _ = lists.states.shape[1:]
    dense = np.zeros((len(lists.probabilities), S, A, S))
    h, s, a, _ = np.indices(lists.probabilities.shape)
    np.add.at(dense, (h, s, a, np.broadcast_to(lists.states, lists.probabilities.shape)), lists.probabilities)
    return tuple(dense[step % len(dense)] for step in range(mdp.horizon - 1))
