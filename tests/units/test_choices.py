"""Policies of a few actions per state, and certificates over reachable states: the same as with tables."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate import _affine, certify
from bidual.certificate._reachable import find_reachable_again, restrict_evidence
from bidual.world.mdp import find_reachable
from bidual.world.policies import Choices, DeterministicPolicy, MarkovPolicy, Mixture, collapse, embedding
from tests.helpers import random_instance

H, S, A = 3, 7, 4
RNG = np.random.default_rng(0)
KEPT = np.array([1, 2, 5, 6])
CHOICES = Choices(
    RNG.integers(0, A, (H, 2, KEPT.size)).astype(np.int8),
    RNG.dirichlet(np.ones(2), (H, KEPT.size)).swapaxes(1, 2),
    KEPT,
    RNG.integers(0, A, S),
    A,
)


@pytest.mark.parametrize("kept", [KEPT, np.arange(S)])
def test_choices_answer_like_their_table(kept):
    choices = CHOICES.over(kept)
    table = np.stack([CHOICES.at(h)[kept] for h in range(H)])
    policy = MarkovPolicy.from_choices(choices)
    values, law = RNG.normal(size=(kept.size, A, 2)), RNG.random(kept.size)
    for h in range(H):
        np.testing.assert_array_equal(policy.at(h), table[h])
        np.testing.assert_allclose(policy.expect(h, values), np.einsum("sa,san->sn", table[h], values), atol=1e-15)
        np.testing.assert_allclose(policy.spread(h, law), law[:, None] * table[h], atol=1e-16)
        for s in range(kept.size):
            np.testing.assert_array_equal(choices.in_state(h, s), table[h, s])
    assert policy.shape == (H, kept.size, A)
    assert "table" not in vars(policy)
    np.testing.assert_array_equal(policy.table, table)
    np.testing.assert_array_equal(policy.most_likely().actions, table.argmax(axis=2))


def test_a_policy_of_choices_in_other_states():
    states = np.array([0, 1, 4, 6])
    np.testing.assert_array_equal(
        np.stack([CHOICES.over(states).at(h) for h in range(H)]), np.stack([CHOICES.at(h)[states] for h in range(H)])
    )


def test_copies_of_a_policy_forget_its_choices():
    """They would go on beside another table."""
    policy = MarkovPolicy.from_choices(CHOICES)
    other = replace(policy, table=policy.table[..., ::-1])
    np.testing.assert_array_equal(other.at(1), policy.at(1)[:, ::-1])


def _islands(seed):
    """A random model of 6 states beside 20 that nobody reaches, and a problem over it whose budget binds."""
    small, rng = random_instance(seed, (6, 2, 3, 4)), np.random.default_rng(seed)
    states, chances = (getattr(small.mdp.successors, name)[0] for name in ("states", "probabilities"))
    states = np.concatenate([states, rng.integers(0, 26, (20, 2, 3))])
    chances = np.concatenate([chances, rng.dirichlet(np.ones(3), (20, 2))])
    mdp = bd.TabularMDP((states, chances), np.append(small.mdp.initial, np.zeros(20)), 4)
    reward, cost = rng.random((2, 26, 2))
    x = mdp.embedding(reward=reward, cost=cost)
    cheapest = bd.solve(bd.Problem(cp.Minimize(cp.sum(x.cost))), mdp)
    dearest = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward))), mdp)
    limit = 0.5 * (cheapest.value + float(dearest.embedding[:, 1].sum()))
    return bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward)), {"budget": cp.sum(x.cost) <= limit}), mdp)


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_over_reachable_states_is_that_over_all(seed, monkeypatch):
    solution = _islands(seed)
    evidence = solution.evidence
    restricted, kept = restrict_evidence(evidence)
    assert restricted.mdp.num_states == 6
    assert list(kept) == list(range(6))
    few = certify(evidence)
    monkeypatch.setattr(_affine, "restrict_evidence", lambda evidence: (evidence, None))
    dense = certify(replace(evidence, policy=MarkovPolicy(evidence.policy.table)))
    assert abs(few.value - dense.value) <= few.resolution.value
    assert few.lower >= dense.lower  # with peaks over fewer states
    np.testing.assert_allclose(few.visits, dense.visits, atol=1e-15)
    np.testing.assert_allclose(few.embedding, dense.embedding, atol=1e-14)


@pytest.mark.parametrize("kind", [{}, {"per_step": True}, {"masked": True}])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_can_be_reached_is_left_out(seed, kind):
    mdp = random_instance(seed, (16, 2, 3, 3), **kind).mdp
    object.__setattr__(mdp, "initial", np.eye(16)[seed])
    assert np.all(find_reachable_again(mdp) >= find_reachable(mdp))
    assert find_reachable_again(mdp)[seed]


def test_a_mixture_of_plans_collapses_without_a_table():
    mdp = random_instance(1, (6, 2, 3, 4), per_step=True).mdp
    psi = bd.features.signals(cost=RNG.random((6, 2))).stage(mdp.successors)
    plans = tuple(DeterministicPolicy(RNG.integers(0, 2, (4, 6)), 2) for _ in range(3))
    mixture = Mixture(np.array([0.5, 0.2, 0.3]), plans)
    policy = collapse(mixture, mdp)
    assert policy.choices.actions.shape == (4, 3, 6)
    mean = sum(weight * embedding(mdp, psi, plan) for weight, plan in zip(mixture.weights, plans, strict=True))
    np.testing.assert_allclose(embedding(mdp, psi, policy), mean, atol=1e-14)
    tables = Mixture(mixture.weights, tuple(MarkovPolicy(plan.table) for plan in plans))
    np.testing.assert_allclose(policy.table, collapse(tables, mdp).table, atol=1e-14)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: replace(c, shares=c.shares * 0.999), "do not sum to 1"),
        (lambda c: replace(c, shares=np.where(c.shares > 0.5, np.nan, c.shares)), "non-finite"),
        (lambda c: replace(c, actions=np.full_like(c.actions, 2)), "does not allow"),
        (lambda c: replace(c, actions=np.full_like(c.actions, -1)), "does not allow"),
        (lambda c: replace(c, elsewhere=c.elsewhere + 2), "does not allow"),
        (lambda c: replace(c, kept=c.kept[::-1]), "does not allow"),
    ],
)
def test_choices_that_are_no_policy_are_refused(change, message):
    evidence = _islands(0).evidence
    forged = replace(evidence, policy=MarkovPolicy.from_choices(change(evidence.policy.choices)))
    with pytest.raises(bd.CertificateError, match=message):
        certify(forged)
