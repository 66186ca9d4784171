"""What every planner over a known model promises: the cheapest policy for any linear cost, and its embedding.

Planners over sets of models are compared with dense references in laws/test_optimistic.py, laws/test_linear.py,
laws/test_class_search.py and units/test_latents.py, planners of controls with exact answers in
laws/test_linear_quadratic.py.
"""

import itertools

import numpy as np
import pytest

from bidual.models import known
from bidual.planners import (
    AbstractPlanner,
    AbstractSoftPlanner,
    BackwardInduction,
    ClassSearch,
    ExtendedValueIteration,
    PolicyIteration,
    SparseInduction,
    UnseenOptimism,
)
from bidual.planners.control import CheapestAmong, Regulator, RiccatiOptimist
from bidual.world.policies import DeterministicPolicy, visits
from tests.helpers import random_instance

PLANNERS = {"backward induction": BackwardInduction(), "sparse induction": SparseInduction()}


def test_every_implementation_is_here():
    kinds = [*AbstractPlanner.__subclasses__(), *AbstractSoftPlanner.__subclasses__()]
    shipped = {kind for kind in kinds if kind.__module__.startswith("bidual.")} - {AbstractSoftPlanner}
    over_sets = {ExtendedValueIteration, ClassSearch, UnseenOptimism, Regulator, CheapestAmong, RiccatiOptimist}
    endless = {PolicyIteration}  # contracts/test_endless_planners.py
    assert {type(planner) for planner in PLANNERS.values()} | over_sets | endless == shipped


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


@pytest.mark.parametrize("kind", [{}, {"per_step": True}, {"masked": True}])
def test_the_soft_policy_is_the_gradient_of_its_value(planner, kind):
    """V_0 is concave with the embedding as its gradient; central differences of step 1e-5 err by some 1e-10."""
    instance = random_instance(2, (4, 3, 3, 5), **kind)
    model = known(instance.mdp)
    layout = model.restrict(instance.embedding().features.stage(instance.mdp.successors))
    rng = np.random.default_rng(0)
    theta, direction = rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    plan = planner.soft(model, layout, theta)
    ahead, behind = (planner.soft(model, layout, theta + step * direction).value for step in (1e-5, -1e-5))
    assert abs((ahead - behind) / 2e-5 - np.vdot(plan.embedding, direction)) <= 1e-8
    assert plan.lower == -np.inf


@pytest.mark.parametrize("kind", [{}, {"per_step": True}, {"masked": True}])
def test_a_proximal_step_adds_costs_and_its_divergence_telescopes(planner, kind):
    """KL(soft(b) || soft(a)) over whole paths = V_0(b) - V_0(a) - (b - a) . Psi(b), by brute force over the tables."""
    instance = random_instance(4, (4, 3, 3, 5), **kind)
    model = known(instance.mdp)
    layout = model.restrict(instance.embedding().features.stage(instance.mdp.successors))
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 5, 4))
    first, second = planner.soft(model, layout, a), planner.soft(model, layout, b)
    tables = [planner.occupancy(model, layout, plan) for plan in (first, second)]
    chances = [table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300) for table in tables]
    used = tables[1] > 0
    divergence = np.sum(tables[1][used] * np.log(chances[1][used] / chances[0][used]))
    expected = second.value - first.value - np.vdot(b - a, second.embedding)
    assert abs(divergence - expected) <= 1e-10


@pytest.mark.parametrize("soft", [False, True])
def test_occupancies_have_the_embedding_of_their_plan(planner, soft):
    instance = random_instance(3, (6, 2, 3, 4), masked=True)
    model = known(instance.mdp)
    psi = instance.embedding().features.stage(instance.mdp.successors)
    layout = model.restrict(psi)
    theta = np.random.default_rng(2).normal(size=(4, 4))
    plan = (planner.soft if soft else planner)(model, layout, theta)
    table = model.spread(planner.occupancy(model, layout, plan))
    np.testing.assert_allclose(table.sum(axis=(1, 2)), 1.0, atol=1e-14)
    assert table[:, ~instance.mdp.actions].max(initial=0.0) == 0.0
    embedding = np.stack([psi.expect(occupancy, h) for h, occupancy in enumerate(table)])
    np.testing.assert_allclose(embedding, plan.embedding, atol=1e-13)
