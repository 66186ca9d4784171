"""What every environment promises: whole episodes of its policy, and the same one for the same draw."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.problem.features import observed
from bidual.world.envs import (
    AbstractEnvironment,
    ControlEnvironment,
    RichEnvironment,
    Simulator,
    gymnasium_environment,
    parallel,
    rich_environment,
    vector_environment,
)
from bidual.world.envs._numbered import AbstractNumberedEnvironment
from bidual.world.policies import DeterministicPolicy, MarkovPolicy, Mixture
from tests import remote_envs, rich_envs
from tests.helpers import random_instance

SIZE = (6, 2, 3, 4)


SIGNALS = (
    ("reward", observed(lambda step: step.reward, 0.0, 5.0)),
    ("right", observed(lambda obs, action, next_obs, info: next_obs > obs)),
)
REMOTE_SIGNALS = (("noise", observed(remote_envs.noise, -9.0, 9.0)), ("right", observed(remote_envs.right)))
THREADS = ThreadPoolExecutor(2)
ENVIRONMENTS = {
    "simulator": lambda: Simulator(random_instance(0, SIZE).mdp),
    "simulator by step": lambda: Simulator(random_instance(1, SIZE, per_step=True).mdp),
    "simulator with masked actions": lambda: Simulator(random_instance(2, SIZE, masked=True).mdp),
    "simulator with hidden start": lambda: Simulator(random_instance(3, SIZE).mdp, hidden_start=True),
    "gymnasium": lambda: gymnasium_environment(remote_envs.Walk(), 5, SIGNALS),
    "gymnasium on workers": lambda: parallel(remote_envs.Walk, 5, THREADS, REMOTE_SIGNALS, workers=2),
    "gymnasium in a vector": lambda: vector_environment(SyncVectorEnv([remote_envs.Walk] * 2), 5, SIGNALS),
    "gymnasium by name": lambda: gymnasium_environment("FrozenLake-v1", 7),
    "gymnasium with its own states": lambda: gymnasium_environment(
        "CartPole-v1", 6, states=lambda obs: int(obs[2] > 0) + 2 * int(obs[3] > 0), num_states=4
    ),
    "rich": lambda: rich_environment(rich_envs.Corridor(), 5, 3, SIGNALS[:1]),
    "rich, of symbols": lambda: rich_environment(rich_envs.Corridor(symbols=True), 5, 3, discrete=True),
}


def test_every_implementation_is_here():
    # Controls are vectors: see units/test_controls.py.
    kinds = {type(make()) for make in ENVIRONMENTS.values()} | {ControlEnvironment}
    found = {*AbstractEnvironment.__subclasses__(), *AbstractNumberedEnvironment.__subclasses__()}
    assert kinds | {AbstractNumberedEnvironment} == {kind for kind in found if kind.__module__.startswith("bidual.")}


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(request):
    made = ENVIRONMENTS[request.param]()
    return rich_envs.Decoding(made) if isinstance(made, RichEnvironment) else made


def _draws(count, purpose=Purpose.LEARN):
    return [Draw(11, purpose, number) for number in range(count)]


def _markov(environment, seed=0):
    H = environment.shape[0]
    table = np.random.default_rng(seed).random((H, *environment.allowed.shape)) * environment.allowed
    return MarkovPolicy(table / table.sum(axis=-1, keepdims=True))


def _deterministic(environment, seed=0):
    return DeterministicPolicy(np.argmax(_markov(environment, seed).table, axis=-1), environment.shape[2])


def _mixture(environment):
    members = (_deterministic(environment, 1), _markov(environment, 2), _deterministic(environment, 3))
    return Mixture(np.array([0.3, 0.5, 0.2]), members)


POLICIES = {"deterministic": _deterministic, "markov": _markov, "mixture": _mixture}


@pytest.fixture(params=POLICIES)
def policy(request, environment):
    return POLICIES[request.param](environment)


def _episodes(environment, policy, count):
    return [environment.collect(policy, draw) for draw in _draws(count)]


def _same(one, other):
    fields = ("states", "actions", "observed")
    return all(np.array_equal(getattr(one, field), getattr(other, field)) for field in fields)


def _known(episode):
    """The episode as something that can be counted."""
    return episode.states.tobytes() + episode.actions.tobytes()


def _before_the_end(environment, episode):
    return ~environment.absorbing[episode.states[:-1]]


def test_says_what_is_known(environment):
    H, S, A = environment.shape
    assert H > 0
    assert environment.allowed.shape == (S, A)
    assert environment.allowed.dtype == environment.absorbing.dtype == np.bool_
    assert environment.allowed.any(axis=1).all()
    assert environment.absorbing.shape == (S,)
    if environment.initial is not None:
        assert environment.initial.shape == (S,)
        assert abs(environment.initial.sum() - 1) <= 1e-12


def test_episodes_have_the_right_shape_and_range(environment, policy):
    H, S, A = environment.shape
    for episode in _episodes(environment, policy, 10):
        assert episode.states.shape == (H + 1,)
        assert episode.actions.shape == (H,)
        assert episode.observed.shape[0] == H
        assert episode.states.dtype == episode.actions.dtype == np.int32
        assert episode.observed.dtype == np.float64
        assert np.isfinite(episode.observed).all()
        assert 0 <= episode.states.min() <= episode.states.max() < S
        assert 0 <= episode.actions.min() <= episode.actions.max() < A
        assert environment.allowed[episode.states[:-1], episode.actions].all()


def test_the_same_draw_gives_the_same_episode(environment, policy):
    first = _episodes(environment, policy, 6)
    again = [environment.collect(policy, draw) for draw in reversed(_draws(6))]
    assert all(_same(one, other) for one, other in zip(first, reversed(again), strict=True))


def test_other_draws_give_other_episodes(environment, policy):
    learned = [_known(episode) for episode in _episodes(environment, policy, 20)]
    purposes = [_known(environment.collect(policy, draw)) for draw in _draws(20, Purpose.EVALUATE)]
    seeds = [_known(environment.collect(policy, draw._replace(seed=12))) for draw in _draws(20)]
    assert len(set(learned)) > 1
    assert learned != purposes
    assert learned != seeds


@pytest.mark.parametrize("count", [0, 1, 5])
def test_many_are_the_same_as_one_by_one(environment, policy, count):
    many = environment.collect_many(policy, _draws(count))
    assert len(many) == count
    assert all(_same(one, environment.collect(policy, draw)) for one, draw in zip(many, _draws(count), strict=True))


def test_follows_a_deterministic_policy(environment):
    policy = _deterministic(environment, 5)
    for episode in _episodes(environment, policy, 8):
        wanted = policy.actions[np.arange(len(episode.actions)), episode.states[:-1]]
        alive = _before_the_end(environment, episode)
        np.testing.assert_array_equal(episode.actions[alive], wanted[alive])


def test_never_takes_an_action_of_probability_zero(environment):
    """Half of the actions of each row, but never all, have probability 0, at both ends of a row as well."""
    table = _markov(environment, 6).table * (np.random.default_rng(6).random(_markov(environment).table.shape) < 0.5)
    table = np.where(table.sum(axis=-1, keepdims=True) > 0, table, _deterministic(environment, 6).table)
    policy = MarkovPolicy(table / table.sum(axis=-1, keepdims=True))
    for episode in _episodes(environment, policy, 20):
        chances = policy.table[np.arange(len(episode.actions)), episode.states[:-1], episode.actions]
        assert (chances[_before_the_end(environment, episode)] > 0).all()


def test_a_mixture_keeps_one_member_per_episode(environment):
    """Two members that never do the same: an episode agrees with exactly one of them, and each of them plays."""
    if not environment.allowed[~environment.absorbing].all():
        environment = Simulator(random_instance(2, SIZE).mdp)
    H, _, A = environment.shape
    one = _deterministic(environment, 7)
    other = DeterministicPolicy((one.actions + 1) % A, A)
    mixture = Mixture(np.array([0.0, 0.5, 0.5]), (_deterministic(environment, 8), one, other))
    played = set()
    for episode in _episodes(environment, mixture, 24):
        alive = _before_the_end(environment, episode)
        agrees = [
            bool((member.actions[np.arange(H), episode.states[:-1]] == episode.actions)[alive].all())
            for member in (one, other)
        ]
        assert sum(agrees) == 1
        played.add(agrees.index(True))
    assert played == {0, 1}


def test_absorbing_states_are_never_left(environment, policy):
    for episode in _episodes(environment, policy, 20):
        ended = environment.absorbing[episode.states]
        assert (np.diff(ended.astype(int)) >= 0).all()
        assert not episode.actions[ended[:-1]].any()
        assert not episode.observed[ended[:-1]].any()


def test_starts_where_it_says(environment, policy):
    if environment.initial is not None:
        for episode in _episodes(environment, policy, 20):
            assert environment.initial[episode.states[0]] > 0


def test_refuses_a_policy_for_another_shape(environment):
    H, S, A = environment.shape
    policy = DeterministicPolicy(np.zeros((H, S + 1), dtype=int), A)
    with pytest.raises(bd.PolicyError, match=rf"{S + 1} states .* environment has {H}, {S} and {A}"):
        environment.collect(policy, Draw(0, Purpose.LEARN, 0))
    with pytest.raises(bd.PolicyError, match=rf"make one of shape \(H, S, A\) = \({H}, {S}, {A}\)"):
        environment.collect_many(policy, _draws(2))
