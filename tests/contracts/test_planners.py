"""What every planner promises: the cheapest policy for any linear cost, and its embedding."""

import itertools

import numpy as np
import pytest

from bidual.models import known
from bidual.planners import AbstractPlanner, BackwardInduction
from bidual.policies import DeterministicPolicy, visits
from tests.helpers import random_instance

PLANNERS = {"backward induction": BackwardInduction()}


def test_every_implementation_is_here():
    shipped = {kind for kind in AbstractPlanner.__subclasses__() if kind.__module__.startswith("bidual.")}
    assert {type(planner) for planner in PLANNERS.values()} == shipped


@pytest.fixture(params=PLANNERS)
def planner(request):
    return PLANNERS[request.param]


def _plan(planner, instance, theta):
    model = known(instance.mdp)
    psi = instance.embedding().features.stage(instance.mdp.successors)
    plan = planner(model, model.restrict(psi), theta)
    return plan, model.policy(plan.actions), psi.signals


def _embedding(mdp, policy, psi):
    mu = visits(mdp, policy)
    chosen = np.stack([psi[0][:, np.arange(mdp.num_states), a] for a in policy.actions])
    return np.einsum("hds,hs->hd", chosen, mu)


@pytest.mark.parametrize("kind", [{}, {"per_step": True}, {"masked": True}])
@pytest.mark.parametrize("seed", range(5))
def test_the_plan_is_the_cheapest_of_all_policies(planner, seed, kind):
    """By enumerating every deterministic policy of a tiny model."""
    instance = random_instance(seed, (2, 2, 2, 3), **kind)
    theta = np.random.default_rng(seed).normal(size=(3, 4))
    plan, policy, psi = _plan(planner, instance, theta)
    values = []
    for choice in itertools.product(range(2), repeat=6):
        other = DeterministicPolicy(np.array(choice).reshape(3, 2), 2)
        if instance.mdp.actions[np.tile([0, 1], 3), choice].all():
            values.append(np.vdot(theta, _embedding(instance.mdp, other, psi)))
    # Sums of a dozen numbers of size 10: a few hundred roundings.
    assert abs(plan.value - min(values)) <= 1e-13
    assert plan.lower <= min(values) + 1e-13
    np.testing.assert_allclose(plan.embedding, _embedding(instance.mdp, policy, psi), atol=1e-13)


def test_masked_actions_are_never_planned(planner):
    instance = random_instance(3, (6, 2, 3, 4), masked=True)
    _, policy, _ = _plan(planner, instance, np.ones((4, 4)))
    assert instance.mdp.actions[np.arange(6), policy.actions].all()


def test_many_successors_and_actions_take_the_other_code_path(planner):
    """Beyond the unrolling limit the loops are not unrolled; the answer is the same."""
    rng = np.random.default_rng(0)
    S = A = 20
    P = rng.dirichlet(np.ones(S), (S, A))
    import bidual as bd

    mdp = bd.TabularMDP(P, 0, 3)
    features = bd.features.signals(cost=rng.random((S, A)))
    psi = features.stage(mdp.successors)
    model = known(mdp)
    plan = planner(model, model.restrict(psi), np.ones((3, 1)))
    V = np.zeros(S)
    for _ in range(3):
        V = (psi.signals[0, 0] + P @ V).min(axis=1)
    assert abs(plan.value - V[0]) <= 1e-13


@pytest.mark.parametrize("kind", [{}, {"per_step": True}, {"masked": True}])
def test_visits_and_occupancies_are_planned_for_like_signals(planner, kind):
    """One indicator per state and per pair, as plain signals, must give the same plan as the named features."""
    import bidual as bd

    instance = random_instance(1, (4, 3, 3, 5), **kind)
    S, A = 4, 3
    by_state = {f"v{s}": np.eye(S)[s] for s in range(S)}
    by_pair = {f"o{i}": np.eye(S * A)[i].reshape(S, A) for i in range(S * A)}
    plain = bd.features.signals(extra=instance.signals[0], **by_state, **by_pair)
    named = bd.features.concat(
        bd.features.occupancy(S, A), bd.features.visits(S), bd.features.signals(extra=instance.signals[0])
    )
    theta = np.random.default_rng(5).normal(size=(5, 1 + S + S * A))
    model = known(instance.mdp)
    plans = [planner(model, model.restrict(f.stage(instance.mdp.successors)), theta) for f in (plain, named)]
    np.testing.assert_allclose(plans[0].embedding, plans[1].embedding, atol=1e-15)
    np.testing.assert_array_equal(plans[0].actions, plans[1].actions)
