"""What every policy promises."""

import numpy as np
import pytest

import bidual as bd
from bidual.world.policies import (
    AbstractPolicy,
    ControlPolicy,
    DecodedPolicy,
    Decoder,
    DeterministicPolicy,
    GaussianEmission,
    MarkovPolicy,
    Mixture,
)

H, S, A = 3, 4, 2


def _deterministic(seed):
    return DeterministicPolicy(np.random.default_rng(seed).integers(0, A, (H, S)), A)


NUMBER_LINE = GaussianEmission(np.arange(4.0)[:, None], 0.01, np.full(4, 0.25))  # latent s shows the number s
POLICIES = {
    "markov": MarkovPolicy(np.random.default_rng(0).dirichlet(np.ones(A), (H, S))),
    "deterministic": _deterministic(1),
    "mixture": Mixture(np.array([0.25, 0.75]), (_deterministic(2), _deterministic(3))),
    "decoded": DecodedPolicy(
        MarkovPolicy(np.random.default_rng(4).dirichlet(np.ones(A), (H, S))), Decoder((NUMBER_LINE,) * (H + 1), 1)
    ),
}


def test_every_implementation_is_here():
    # Controllers read vectors and have no table: see contracts/test_control.py.
    assert {type(policy) for policy in POLICIES.values()} | {ControlPolicy} == set(AbstractPolicy.__subclasses__())


@pytest.fixture(params=POLICIES)
def policy(request):
    return POLICIES[request.param]


def _episode(policy, rng):
    actor = policy.reset(rng)
    return [actor.act(s) for s in (0, 3, 1)]


def test_knows_its_shape(policy):
    assert policy.shape == (H, S, A)


def test_acts_within_the_actions(policy):
    for seed in range(20):
        assert all(0 <= action < A for action in _episode(policy, seed))


def test_same_seed_same_actions(policy):
    assert [_episode(policy, 7) for _ in range(3)] == [_episode(policy, 7)] * 3


def test_a_generator_is_advanced_not_restarted(policy):
    rng = np.random.default_rng(5)
    episodes = {tuple(_episode(policy, rng)) for _ in range(40)}
    assert len(episodes) > 1 or isinstance(policy, DeterministicPolicy)


def test_refuses_to_act_beyond_the_horizon(policy):
    actor = policy.reset(0)
    for _ in range(H):
        actor.act(0)
    with pytest.raises(bd.PolicyError, match="episode is over"):
        actor.act(0)


@pytest.mark.parametrize("state", [-1, S, np.int64(S)])
def test_refuses_states_that_do_not_exist(policy, state):
    if isinstance(policy, DecodedPolicy):  # which takes observations: these have another size than it reads
        state = np.full(3, state)
    with pytest.raises(bd.PolicyError, match=r"not a state|has 3 numbers, the policy reads 1"):
        policy.reset(0).act(state)


def test_never_takes_an_action_of_probability_zero():
    table = np.zeros((1, 1, 3))
    table[0, 0, 1] = 1.0
    rng = np.random.default_rng(0)
    assert {MarkovPolicy(table).reset(rng).act(0) for _ in range(200)} == {1}
