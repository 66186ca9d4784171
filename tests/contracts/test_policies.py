"""What every policy promises."""

import numpy as np
import pytest

import bidual as bd
from bidual.world.policies import (
    AbstractPolicy,
    Choices,
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
    "choices": MarkovPolicy.from_choices(
        Choices(
            np.array([[[0, 1, 1]], [[1, 1, 0]], [[0, 0, 0]]]).repeat(2, axis=1) ^ np.array([[0], [1]]),
            np.full((H, 2, 3), 0.5),
            np.array([0, 1, 3]),
            np.zeros(S, dtype=int),
            A,
        )
    ),
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


def _play(policy, observations, state=None, **options):
    """The actions of `predict` along a sequence of (batches of) observations, and the last state."""
    actions = []
    for one in observations:
        action, state = policy.predict(one, state, **options)
        actions.append(action)
    return np.array(actions), state


def test_predict_acts_as_an_actor_does(policy):
    """The step and the member of a mixture are in the state: whole episodes have the probabilities of `reset`."""
    state, actions = bd.policies.PredictionState(seed=3), []
    for s in (0, 3, 1):
        action, state = policy.predict(s, state)
        actions.append(action)
    assert actions == _episode(policy, np.random.default_rng((3, 0, 1)))
    assert state.steps == (H,)


def test_predict_repeats_a_call_with_the_same_state(policy):
    _, state = policy.predict(0, bd.policies.PredictionState(1))
    assert len({int(policy.predict(2, state)[0]) for _ in range(10)}) == 1
    assert state.steps == (1,)


def test_predict_takes_batches_and_begins_episodes_anew(policy):
    states = np.arange(S) if policy.observation_size is None else np.arange(float(S))[:, None]
    state = bd.policies.PredictionState(5)
    one, state = policy.predict(states, state, np.ones(S, dtype=bool))
    assert one.shape == (S,)
    two, state = policy.predict(states, state, np.array([False, True, False, True]))
    assert state.steps == (2, 1, 2, 1)
    assert state.episodes == (1, 2, 1, 2)
    for i in range(S):
        fresh = np.random.default_rng((5, i, state.episodes[i]))
        actor = policy.reset(fresh)
        expected = [actor.act(i) for _ in range(state.steps[i])]
        assert two[i] == expected[-1]
    assert np.all((one >= 0) & (one < A))


def test_predict_takes_the_most_likely_action_where_asked(policy):
    likely = policy.most_likely()
    assert isinstance(likely, DeterministicPolicy | DecodedPolicy)
    first, _ = _play(policy, (0, 3, 1), deterministic=True)
    again, _ = _play(policy, (0, 3, 1), deterministic=True)
    assert first.tolist() == again.tolist() == _episode(likely, 0)
    table = policy.members[1].table if isinstance(policy, Mixture) else policy.table
    assert first.tolist() == [int(np.argmax(table[h, s])) for h, s in enumerate((0, 3, 1))]


def test_predict_names_what_does_not_belong_together(policy):
    batch = np.zeros(2, dtype=int) if policy.observation_size is None else np.zeros((2, 1))
    _, state = policy.predict(batch)
    with pytest.raises(bd.PolicyError, match=r"episode_start has shape \(3,\) for 2 environments"):
        policy.predict(batch, state, np.ones(3, dtype=bool))
    with pytest.raises(bd.PolicyError, match="batch of observations for 2 environments"):
        policy.predict(np.repeat(batch, 2, axis=0), state)
    with pytest.raises(bd.PolicyError, match="another policy"):
        _deterministic(9).predict(batch, state)
    with pytest.raises(bd.PolicyError, match="began with deterministic=False"):
        policy.predict(batch, state, deterministic=True)
    with pytest.raises(bd.PolicyError, match="state must be what the call of predict before returned"):
        policy.predict(batch, (batch,))
    for _ in range(H - 1):
        _, state = policy.predict(batch, state)
    with pytest.raises(bd.PolicyError, match=r"horizon is 3 steps.*TimeLimit\(env, 3\)"):
        policy.predict(batch, state)
