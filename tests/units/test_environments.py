"""Environments one by one: Gymnasium's own, and every kind that breaks the contract, named with step and episode."""

import subprocess
import sys
from unittest.mock import Mock

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.problem.features import observed
from bidual.world.envs import Simulator, Step, _compiled, gymnasium_environment
from bidual.world.policies import DeterministicPolicy, MarkovPolicy, Mixture
from tests.helpers import random_instance

DRAW = Draw(0, Purpose.LEARN, 7)


class Fake(gymnasium.Env):
    """It answers what it is told to answer. By default it walks through the cells 0, 1, 2 and stops in 2."""

    def __init__(self, answer=None, first=lambda: (0, {}), observations=None, actions=None):
        self.answer, self.first = answer, first
        self.observation_space, self.action_space = observations or Discrete(3), actions or Discrete(2)
        self.given, self.seeds, self.closed = [], [], False

    def reset(self, *, seed=None, options=None):
        self.cell = 0
        self.seeds.append(seed)
        return self.first()

    def step(self, action):
        self.given.append(action)
        if self.answer is not None:
            return self.answer(action)
        self.cell = min(2, self.cell + 1)
        return self.cell, 1.0, False, False, {"cell": self.cell}

    def close(self):
        self.closed = True


def _play(env, horizon=4, signals=(), action=0, draw=DRAW, **named):
    environment = gymnasium_environment(env, horizon, signals, **named)
    H, S, A = environment.shape
    return environment.collect(DeterministicPolicy(np.full((H, S), action), A), draw)


# Good environments


def test_an_episode_is_recorded():
    env = Fake()
    episode = _play(env, 3, action=1)
    np.testing.assert_array_equal(episode.states, [0, 1, 2, 2])
    np.testing.assert_array_equal(episode.actions, [1, 1, 1])
    assert episode.observed.shape == (3, 0)
    assert env.given == [1, 1, 1]
    assert env.seeds == [DRAW.integers()[0]]


def test_a_terminated_episode_stays_in_the_added_state():
    env = Fake(lambda action: (2, 5.0, True, False, {}))
    episode = _play(env, 3, [("reward", observed(lambda step: step.reward, 0.0, 5.0))], action=1)
    np.testing.assert_array_equal(episode.states, [0, 3, 3, 3])
    np.testing.assert_array_equal(episode.actions, [1, 0, 0])
    np.testing.assert_array_equal(episode.observed, [[5], [0], [0]])
    assert env.given == [1]


def test_signals_get_what_the_environment_has():
    steps, four = [], []
    signals = [
        ("one", observed(lambda step: steps.append(step) or 0.5)),
        ("four", observed(lambda obs, action, next_obs, info: four.append((obs, action, next_obs, info)) or True)),
        ("array", observed(lambda step, scale=0.25: np.array(scale))),
    ]
    env = Fake(
        lambda action: (12, np.float32(2.0), np.bool_(False), False, {"a": 1}),
        first=lambda: (np.int64(11), {}),
        observations=Discrete(3, start=10),
        actions=Discrete(2, start=-1),
    )
    episode = _play(env, 1, signals, action=1)
    assert steps == [Step(11, 0, 12, 2.0, False, {"a": 1}, 1, 2)]
    assert four == [(11, 0, 12, {"a": 1})]
    np.testing.assert_array_equal(episode.observed, [[0.5, 1.0, 0.25]])
    np.testing.assert_array_equal(episode.states, [1, 2])
    np.testing.assert_array_equal(episode.actions, [1])


def test_a_terminated_step_leads_to_the_added_state_for_signals_too():
    steps = []
    env = Fake(lambda action: (99, 0.0, True, True, {}))
    _play(env, 2, [("seen", observed(lambda step: steps.append(step) or 0))])
    assert steps == [Step(0, 0, 99, 0.0, True, {}, 0, 3)]


def test_only_the_added_state_is_absorbing_and_the_start_is_unknown():
    environment = gymnasium_environment(Fake(), 2)
    assert environment.absorbing.tolist() == [False, False, False, True]
    assert environment.initial is None


def test_in_the_added_state_only_the_action_that_is_recorded_is_allowed():
    """What others would pay there is never seen, so a planner could hope for anything for ever."""
    allowed = gymnasium_environment(Fake(), 2).allowed
    assert allowed[:3].all()
    assert allowed[3].tolist() == [True] + [False] * (allowed.shape[1] - 1)


def test_a_step_may_be_cut_at_the_horizon():
    answers = iter([(1, 0.0, False, False, {}), (1, 0.0, False, True, {})])
    assert _play(Fake(lambda action: next(answers)), 2).states.tolist() == [0, 1, 1]


def test_close_reaches_the_environment():
    env = Fake()
    gymnasium_environment(env, 2).close()
    assert env.closed


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("FrozenLake-v1", None, (150, 17, 4)),
        ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, (150, 65, 4)),
        ("CliffWalking-v1", None, (150, 49, 4)),
        ("Taxi-v4", None, (250, 501, 6)),
    ],
)
def test_toy_text_by_name(name, options, shape):
    """Horizons beyond the limits of FrozenLake and Taxi: nothing is cut."""
    environment = gymnasium_environment(name, shape[0], options=options)
    assert environment.shape == shape
    env = environment.env
    while isinstance(env, gymnasium.Wrapper):
        assert not isinstance(env, gymnasium.wrappers.TimeLimit)
        env = env.env
    up = DeterministicPolicy(np.full(shape[:2], 3 if name == "FrozenLake-v1" else 0), shape[2])
    episode = environment.collect(up, DRAW)
    if not (episode.states == shape[1] - 1).any():
        assert (episode.actions == up.actions[0, 0]).all()


def test_taxi_has_a_time_limit_that_names_do_not_get():
    with pytest.raises(bd.EnvError, match=r"time limit .* at step 200 of 250, episode 7: disable it .* horizon to 200"):
        _play(gymnasium.make("Taxi-v4"), 250)
    assert _play(gymnasium.make("Taxi-v4"), 200).actions.size == 200
    assert _play("Taxi-v4", 250).actions.size == 250


def test_cart_pole_with_states_of_ones_own():
    """Always to the left the pole falls to the right within a dozen steps: the last state is the added one."""
    episode = _play("CartPole-v1", 30, states=lambda obs: int(obs[2] > 0.1) + int(obs[2] > 0.0), num_states=3)
    assert episode.states[-1] == 3
    assert set(episode.states[:8].tolist()) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("reward", "signal", "value"),
    [
        (np.array([3.0, -1.0], dtype=np.float32), lambda step: step.reward[0], 3.0),  # as in MO-Gymnasium
        ([3, -1], lambda step: step.reward[1], -1.0),
        ({"fast": 2}, lambda step: step.reward["fast"], 2.0),
        ("high", lambda step: len(step.reward), 4.0),
        (None, lambda step: step.reward is None, 1.0),
    ],
)
def test_rewards_reach_signals_as_they_are(reward, signal, value):
    episode = _play(Fake(lambda action: (1, reward, False, False, {})), 2, [("one", observed(signal, -1.0, 4.0))])
    np.testing.assert_array_equal(episode.observed, value)


def test_rewards_that_no_signal_reads_need_not_be_numbers():
    assert _play(Fake(lambda action: (1, np.zeros(2), False, False, {})), 2).states.tolist() == [0, 1, 1]


# Bad environments. All of them fail in episode 7.

STEPS = {
    "old gym": (lambda a: (1, 0.0, False, {}), r"at step 1 of 4, episode 7 it returned 4 values: .*old gym.* two"),
    "nothing": (lambda a: None, r"must return \(observation, reward, .* step 1 of 4, episode 7 it returned None"),
    "info": (lambda a: (1, 0.0, False, False, None), r"with a dict as info; at step 1 of 4, episode 7"),
    "nan": (lambda a: (1, np.nan, False, False, {}), r"reward nan at step 1 of 4, episode 7: .* be finite"),
    "infinite": (lambda a: (1, -np.inf, False, False, {}), r"reward -inf at step 1 of 4, episode 7"),
    "nan in a vector": (lambda a: (1, [0, np.nan], False, False, {}), r"reward \[0, nan\] at step 1 of 4, .* finite"),
    "terminated": (lambda a: (1, 0.0, 0, False, {}), r"terminated = 0 at step 1 of 4, episode 7: .* bool\("),
    "truncated": (lambda a: (1, 0.0, False, None, {}), r"truncated = None at step 1 of 4, episode 7"),
    "time limit": (lambda a: (1, 0.0, False, True, {}), r"time limit .* step 1 of 4, episode 7: .* horizon to 1"),
    "out of range": (lambda a: (3, 0.0, False, False, {}), r"observation 3 at step 1 of 4, .* not one of 0 to 2"),
    "not whole": (lambda a: (0.5, 0.0, False, False, {}), r"observation 0.5 at step 1 of 4, episode 7: .* whole"),
}


@pytest.mark.parametrize("name", STEPS)
def test_bad_steps_are_named(name):
    answer, message = STEPS[name]
    with pytest.raises(bd.EnvError, match=message):
        _play(Fake(answer))


def test_the_step_is_counted():
    answers = iter([(1, 0.0, False, False, {}), (-1, 0.0, False, False, {})])
    with pytest.raises(bd.EnvError, match=r"observation -1 at step 2 of 4, episode 7"):
        _play(Fake(lambda action: next(answers)))


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (lambda: 0, r"must return \(observation, info\) .* at the reset, episode 7 it returned 0"),
        (lambda: (0, 1), r"with a dict as info; at the reset, episode 7"),
        (lambda: (0, {}, {}), r"old gym needs porting"),
        (lambda: (5, {}), r"observation 5 at the reset, episode 7, which is not one of 0 to 2"),
        (lambda: 1 / 0, r"env.reset\(seed=\d+\) failed at the reset, episode 7: ZeroDivisionError: division by zero"),
    ],
)
def test_bad_resets_are_named(first, message):
    with pytest.raises(bd.EnvError, match=message):
        _play(Fake(first=first))


def test_errors_inside_the_environment_are_chained():
    with pytest.raises(bd.EnvError, match=r"env.step\(0\) failed at step 1 of 4, episode 7: KeyError") as caught:
        _play(Fake(lambda action: {}["missing"]))
    assert isinstance(caught.value.__cause__, KeyError)


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "play",
    [
        lambda: _play(Fake(_interrupt)),
        lambda: _play(Fake(first=_interrupt)),
        lambda: _play(Fake(), signals=[("stop", observed(lambda step: _interrupt()))]),
        lambda: _play(Fake(), states=_interrupt, num_states=3),
    ],
)
def test_ctrl_c_passes_through(play):
    with pytest.raises(KeyboardInterrupt):
        play()


SIGNALS = {
    "raises": (lambda step: 1 / 0, r"failed at step 1 of 4, episode 7 \(observation 0, action 0\): ZeroDivisionError"),
    "none": (lambda step: None, r"gave None at step 1 of 4, episode 7: it must give a number"),
    "complex": (lambda step: 1j, r"gave 1j at step 1 of 4, episode 7"),
    "vector": (lambda step: np.zeros(1), r"gave array\(\[0.\]\) at step 1 of 4"),
    "list": (lambda step: [0, 1], r"gave \[0, 1\] at step 1 of 4, .* a number, and these are 2: .* step.reward\[0\]"),
    "nan": (lambda step: np.nan, r"gave nan at step 1 of 4, episode 7, but it was declared to lie in \[0, 1\]"),
    "infinite": (lambda step: np.inf, r"gave inf at step 1 of 4"),
    "high": (lambda o, a, n, i: 1.5, r"gave 1.5 at step 1 of 4, .* \[0, 1\]: declare the true bounds, .*observed\("),
    "low": (lambda step: -0.1, r"gave -0.1 at step 1 of 4"),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_bad_signals_are_named(name):
    function, message = SIGNALS[name]
    with pytest.raises(bd.EnvError, match="signal 'cost' " + message):
        _play(Fake(), signals=[("fine", observed(lambda step: 0)), ("cost", observed(function))])


def _describe_ending(action):
    """Action 1 ends the episode."""
    return 0, 1.0, action == 1, False, {}


def test_a_signal_at_the_end_is_nothing_before_it():
    """Its bounds are those of the last step: 0 before it is fine even where they exclude it."""
    prize = observed(lambda step: 3.0 * step.terminated, 2.0, 4.0, at_end=True)
    np.testing.assert_array_equal(
        _play(Fake(_describe_ending), signals=[("prize", prize)], action=1).observed[:, 0], [3, 0, 0, 0]
    )
    np.testing.assert_array_equal(_play(Fake(_describe_ending), signals=[("prize", prize)], action=0).observed, 0.0)


@pytest.mark.parametrize(
    ("action", "function", "message"),
    [
        (
            0,
            lambda step: step.reward,
            r"gave 1 at step 1 of 4, episode 7, but it was declared to be 0 at every step that",
        ),
        (0, lambda step: np.nan, r"gave nan at step 1 of 4, episode 7, but it was declared to be 0"),
        (1, lambda step: 5.0, r"gave 5 at step 1 of 4, episode 7, but it was declared to lie in \[0, 1\]"),
    ],
)
def test_a_signal_at_the_end_is_held_to_it(action, function, message):
    with pytest.raises(bd.EnvError, match="signal 'prize' " + message):
        _play(Fake(_describe_ending), signals=[("prize", observed(function, at_end=True))], action=action)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 0.0, "signal 'odd' is a function with 0 required arguments: write it with one, a step with .* obs"),
        (lambda obs, action: 0.0, "with 2 required arguments"),
        (lambda *everything: 0.0, "with 0 required arguments"),
        (lambda step, *, scale: 0.0, "needs scale by name"),
        (type, "does not tell its arguments: wrap it"),
    ],
)
def test_signals_with_other_arguments_are_refused_at_once(function, message):
    with pytest.raises(bd.ModelError, match=message):
        gymnasium_environment(Fake(), 2, [("odd", observed(function))])


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (lambda obs: obs.cell, r"states\(0\) failed at the reset, episode 7: AttributeError: .* every observation"),
        (lambda obs: 0.5, r"states\(0\) gave 0.5 at the reset, episode 7: it must be a whole number"),
        (lambda obs: None, r"states\(0\) gave None at the reset"),
        (
            lambda obs: 2 * obs,
            r"states\(1\) gave 2 at step 1 of 4, episode 7, which is not one of 0 to 1: .*num_states",
        ),
    ],
)
def test_bad_state_functions_are_named(states, message):
    with pytest.raises(bd.EnvError, match=message):
        _play(Fake(observations=Box(0, 1)), states=states, num_states=2)


def test_wrong_spaces_are_named():
    with pytest.raises(
        bd.EnvError, match=r"(?s)must be Discrete; it is Box.*bd\.models\.KNR\(\).*TransformAction.*discretise"
    ):
        gymnasium_environment(Fake(actions=Box(0, 1)), 2)
    ways = r"(?s)space is Box.*bd\.models\.KNR\(\).*bd\.models\.Latent\(latents=4\).*bd\.learn\(.*states=lambda obs: "
    for env in (Fake(observations=Box(0, 1)), "CartPole-v1"):
        with pytest.raises(bd.EnvError, match=ways):
            gymnasium_environment(env, 2)
    with pytest.raises(bd.EnvError, match=r"must be Discrete; it is MultiBinary.*discretise"):
        gymnasium_environment(Fake(actions=MultiBinary(2)), 2)


def test_what_is_no_environment_is_named():
    with pytest.raises(bd.EnvError, match=r"gymnasium cannot make 'Nothing-v3': NameNotFound"):
        gymnasium_environment("Nothing-v3", 2)
    with pytest.raises(bd.EnvError, match=r"gymnasium cannot make 'FrozenLake-v1' with depth=3: TypeError"):
        gymnasium_environment("FrozenLake-v1", 2, options={"depth": 3})
    with pytest.raises(bd.EnvError, match=r"must be a gymnasium.Env, or the name of one; got a dict.*Simulator"):
        gymnasium_environment({}, 2)


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(bd.ModelError, match=r"options .*depth.* given by name"):
        gymnasium_environment(Fake(), 2, options={"depth": 3})
    with pytest.raises(bd.ModelError, match="max_episode_steps cannot be set: the horizon ends an episode"):
        gymnasium_environment("FrozenLake-v1", 2, options={"max_episode_steps": 5})
    with pytest.raises(bd.ModelError, match="num_states is how many numbers states= gives"):
        gymnasium_environment(Fake(), 2, num_states=2)
    with pytest.raises(bd.ModelError, match="num_states must be a whole number, at least 1; got 0"):
        gymnasium_environment(Fake(), 2, states=int, num_states=0)
    with pytest.raises(bd.ModelError, match="horizon must be a whole number, at least 1; got 0"):
        gymnasium_environment(Fake(), 0)


def test_a_missing_gymnasium_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(bd.EnvError, match="pip install gymnasium"):
        gymnasium_environment("FrozenLake-v1", 2)


def test_gymnasium_is_imported_at_first_use():
    code = "import sys, bidual; bidual.envs; assert 'gymnasium' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_action_that_does_not_exist_is_refused():
    with pytest.raises(bd.PolicyError, match=r"action 2 in state 0 at step 1 of 4, episode 7; actions are 0 to 1"):
        _play(Fake(), action=2)


# The simulator


MDP = random_instance(2, (6, 2, 3, 4), masked=True).mdp


def test_the_simulator_reveals_only_the_start():
    assert not Simulator(MDP).absorbing.any()
    np.testing.assert_array_equal(Simulator(MDP).initial, MDP.initial)
    assert Simulator(MDP, hidden_start=True).initial is None
    assert Simulator(MDP).collect(DeterministicPolicy(np.zeros((4, 6), dtype=int), 2), DRAW).observed.shape == (4, 0)


@pytest.mark.parametrize("action", [-1, 2, 256])
def test_the_simulator_refuses_actions_that_do_not_exist(action):
    policy = DeterministicPolicy(np.full((4, 6), action), 2)
    with pytest.raises(
        bd.PolicyError, match=rf"action {action} in state \d at step 1 of 4, episode 7; that state allows"
    ):
        Simulator(MDP).collect(policy, DRAW)


def test_the_simulator_refuses_actions_that_a_state_does_not_allow():
    closed = int(np.argmin(MDP.actions[:, 1]))
    actions = np.zeros((4, 6), dtype=int)
    actions[2:, closed] = 1
    draws = [DRAW._replace(number=number) for number in range(8)]
    with pytest.raises(bd.PolicyError, match=rf"action 1 in state {closed} at step [34] of 4, .* allows \[0\]"):
        Simulator(MDP).collect_many(DeterministicPolicy(actions, 2), draws)


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [1.0, np.nan]])
def test_the_simulator_refuses_rows_that_are_no_law(row):
    with pytest.raises(bd.PolicyError, match="action 2 in state"):
        Simulator(MDP).collect(MarkovPolicy(np.tile(row, (4, 6, 1))), DRAW)


def test_the_simulator_names_policies_that_it_cannot_run():
    other = Mock(spec=bd.policies.AbstractPolicy, shape=(4, 6, 2))
    with pytest.raises(bd.PolicyError, match="runs DeterministicPolicy, MarkovPolicy and mixtures of them; got a Mock"):
        Simulator(MDP).collect(other, DRAW)


@pytest.mark.parametrize("size", [1, 2, 16, 17, 37])
def test_picking_is_what_numpy_would_do(size):
    """Counted through and searched by halving; entries of 0 in front, between and at the end are never picked."""
    rng = np.random.default_rng(size)
    weights = rng.random(size) * (rng.random(size) < 0.6)
    weights[size // 2] += 0.1
    sums = np.cumsum(weights)
    edges = np.array([0.0, 1 - 2**-52, *(sums[:-1] / sums[-1])])
    chances = np.concatenate([np.clip(edges, 0.0, 1 - 2**-52), rng.random(200)])
    with jax.enable_x64(True):
        picked = np.asarray(jax.jit(jax.vmap(_compiled._pick, in_axes=(None, 0)))(sums, chances))
    np.testing.assert_array_equal(picked, np.searchsorted(sums, chances * sums[-1], side="right"))
    assert (weights[picked] > 0).all()


def test_few_shapes_compile():
    """A mixture that grows from 5 to 8 members, and batches of 1 to 8, compile once."""
    plan = DeterministicPolicy(np.zeros((4, 6), dtype=int), 2)
    draws = [DRAW._replace(number=number) for number in range(8)]

    def play(count):
        mixture = Mixture(np.full(count, 1 / count), (plan,) * count)
        Simulator(MDP).collect(mixture, DRAW)
        Simulator(MDP).collect_many(mixture, draws[:count])

    functions = (_compiled.episode, _compiled.episodes, _compiled.member, _compiled.members)
    play(5)
    before = [function._cache_size() for function in functions]
    for count in (6, 7, 8):
        play(count)
    assert [function._cache_size() for function in functions] == before


FREE = random_instance(2, (6, 2, 3, 4)).mdp


def test_episodes_made_in_advance_are_the_same():
    """Asked for in any order, of policies in turn, with another seed between: as a simulator that was never used."""
    rng = np.random.default_rng(0)
    policies = [DeterministicPolicy(rng.integers(0, 2, (4, 6)), 2) for _ in range(3)]
    used = Simulator(FREE)
    numbers = [*range(1, 40), 7, 300, 301, 2, *range(60, 90)]
    asked = [(policies[i % 3], Draw(i % 7 == 0, Purpose.LEARN, number)) for i, number in enumerate(numbers)]
    for policy, draw in asked:
        one, again = used.collect(policy, draw), Simulator(FREE).collect(policy, draw)
        np.testing.assert_array_equal(one.states, again.states)
        np.testing.assert_array_equal(one.actions, again.actions)


def test_policies_that_share_an_address_do_not_share_episodes():
    """Policies come and go; a new one may lie where an old one was, and few are remembered."""
    simulator = Simulator(FREE)
    for action in (0, 1) * 40:
        policy = DeterministicPolicy(np.full((4, 6), action), 2)
        for number in range(6):
            assert np.all(simulator.collect(policy, Draw(0, Purpose.LEARN, number)).actions == action)
