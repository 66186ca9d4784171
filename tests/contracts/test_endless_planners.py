"""What planners over an unbounded time promise: the cheapest stationary policy for any cost, and its embedding."""

import itertools

import numpy as np
import pytest

from bidual.models import stationary
from bidual.planners import PolicyIteration
from bidual.world.policies import embedding
from tests.endless import dense_kernel, discounted_instance

PLANNERS = {"policy iteration": PolicyIteration()}
DISCOUNT = 0.97


@pytest.fixture(params=PLANNERS)
def planner(request):
    return PLANNERS[request.param]


@pytest.fixture(params=[{}, {"masked": True}], ids=["all actions", "masked"])
def instance(request):
    return discounted_instance(3, (4, 3, 3), DISCOUNT, **request.param)


def _set_up(instance):
    model = stationary(instance.mdp)
    return model, model.restrict(instance.embedding().features.stage(instance.mdp.successors))


def test_the_plan_is_the_cheapest_of_all_deterministic_policies(planner, instance):
    model, psi = _set_up(instance)
    theta = np.random.default_rng(0).normal(size=(1, 4))
    plan = planner(model, psi, theta)
    P, cost = dense_kernel(instance.mdp), np.tensordot(theta[0], instance.signals, axes=1)
    values = []
    for choice in itertools.product(*(np.flatnonzero(row) for row in instance.mdp.actions)):
        here = np.arange(4), np.array(choice)
        values.append(instance.mdp.initial @ np.linalg.solve(np.eye(4) - DISCOUNT * P[here], cost[here]))
    # Systems of condition (1 + discount) / (1 - discount) < 70, and values of at most 200.
    assert abs(plan.value - min(values)) <= 1e-11
    assert abs(plan.lower - min(values)) <= 1e-11
    policy = model.policy(plan.actions)
    np.testing.assert_allclose(plan.embedding, embedding(instance.mdp, psi.psi, policy), atol=1e-11)
    assert instance.mdp.actions[np.arange(4), policy.actions[0]].all()


def test_a_plan_is_its_own_start(planner, instance):
    model, psi = _set_up(instance)
    theta = np.random.default_rng(1).normal(size=(1, 4))
    plan = planner(model, psi, theta)
    again = planner.after(plan)(model, psi, theta)
    np.testing.assert_array_equal(plan.actions, again.actions)


def test_the_soft_policy_is_the_gradient_of_its_value(planner, instance):
    """Central differences of step 1e-5 err by some 1e-10 times the third derivative, below 1e3 here."""
    model, psi = _set_up(instance)
    rng = np.random.default_rng(2)
    theta, direction = rng.normal(size=(1, 4)), rng.normal(size=(1, 4))
    plan = planner.soft(model, psi, theta)
    ahead, behind = (planner.soft(model, psi, theta + step * direction).value for step in (1e-5, -1e-5))
    assert abs((ahead - behind) / 2e-5 - np.vdot(plan.embedding, direction)) <= 1e-6
    assert plan.lower == -np.inf


@pytest.mark.parametrize("soft", [False, True])
def test_occupancies_have_the_embedding_of_their_plan(planner, instance, soft):
    model, psi = _set_up(instance)
    plan = (planner.soft if soft else planner)(model, psi, np.random.default_rng(4).normal(size=(1, 4)))
    table = model.spread(planner.occupancy(model, psi, plan))
    assert abs(table.sum() - 1 / (1 - DISCOUNT)) <= 1e-10
    assert table[:, ~instance.mdp.actions].max(initial=0.0) == 0.0
    np.testing.assert_allclose(psi.psi.expect(table[0], 0)[None], plan.embedding, atol=1e-10)
