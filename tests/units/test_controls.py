"""Environments of vectors and controls, and the loop that learns them."""

import itertools
from dataclasses import replace

import cvxpy as cp
import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import bidual as bd
from bidual._base.keys import Draw, Purpose
from bidual.learning.setup import collect_facts, set_up
from bidual.loop.vpdpo import start_state, vpdpo
from bidual.models import KNR
from bidual.planners import Plan, control
from bidual.problem.features import computed, fourier, linear, signal
from bidual.world.envs import control_environment
from bidual.world.policies import AffineFeedback, ControlPolicy, Mixture
from tests.control_envs import Slider

H = 15
FEATURES = computed(
    distance=signal(lambda x, u, y: x[0] ** 2, 0.0, 4.0),
    effort=signal(lambda x, u, y: u @ u, 0.0, 4.0),
    at=signal(lambda x, u, y: x, -2.0, 2.0, size=2),
    free=lambda x, u, y: x[1] ** 2,
)
LINEAR = KNR(linear(), ridge=1e-3, noise=0.02)
QUICK = bd.explorers.Controls(control.Mean(), control.icem(32, 3), control.Feedback(), rollouts=8)


def _push(env, force):
    H, n, m = env.shape
    law = AffineFeedback(np.full((H, m), force), np.zeros((H, n)), np.zeros((H, m, n)))
    return ControlPolicy(law, env.low, env.high, env.discrete)


def test_an_episode_is_what_the_environment_did():
    env = control_environment(Slider(noise=0.0), H, FEATURES)
    episode = env.collect(_push(env, 9.0), Draw(0, Purpose.LEARN, 1))
    assert env.shape == (H, 2, 1)
    np.testing.assert_array_equal(episode.controls, np.full((H, 1), 2.0))  # held to the limits
    speed = 0.4 * np.arange(H + 1)
    np.testing.assert_allclose(episode.observations[:, 1], speed, atol=1e-12)
    np.testing.assert_allclose(episode.observations[:, 0], 1 + 0.2 * np.append(0, np.cumsum(speed)[:-1]), atol=1e-12)
    np.testing.assert_allclose(episode.observed[:, 0], np.minimum(episode.observations[:-1, 0] ** 2, 4.0), atol=1e-12)
    assert (episode.length, episode.broken) == (H, False)


@pytest.mark.parametrize(("kind", "length"), [("ends", 4), ("breaks", 3)])
def test_nothing_is_paid_after_the_end_and_nothing_learned(kind, length):
    """A step that ends an episode counts; one that leads to NaN does not, for nobody knows where it led."""
    env = control_environment(Slider(ends=4) if kind == "ends" else Slider(breaks=4), H, FEATURES)
    episode = env.collect(_push(env, 1.0), Draw(0, Purpose.LEARN, 1))
    assert (episode.length, episode.broken) == (length, kind == "breaks")
    assert np.all(episode.observed[length:] == 0)
    assert np.all(episode.observed[:length, 1] == 1)
    assert episode.observations is not None
    assert np.isfinite(episode.observations).all()
    known = LINEAR.start(collect_facts(env, _problem(), 0.05)).update(episode)
    assert known.moments.count == length
    assert known.broken == (kind == "breaks")


def test_numbered_actions_are_controls_of_which_one_is_taken():
    env = control_environment(Slider(discrete=True), H, computed(which=signal(lambda x, u, y: u, 0.0, 1.0, size=3)))
    law = AffineFeedback(np.tile([0.1, 0.2, 0.9], (H, 1)), np.zeros((H, 2)), np.zeros((H, 3, 2)))
    episode = env.collect(ControlPolicy(law, env.low, env.high, discrete=True), Draw(0, Purpose.LEARN, 1))
    np.testing.assert_array_equal(episode.controls, np.tile([0.0, 0.0, 1.0], (H, 1)))
    np.testing.assert_array_equal(episode.observed, episode.controls)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("FrozenLake-v1", "not a Box of numbers"),
        (lambda: gymnasium.wrappers.TransformAction(Slider(), abs, gymnasium.spaces.MultiBinary(2)), "Box or Discrete"),
        (
            lambda: gymnasium.wrappers.TransformAction(Slider(), abs, gymnasium.spaces.Box(-np.inf, np.inf, (1,))),
            "has no bounds",
        ),
    ],
)
def test_environments_that_cannot_be_controlled_are_refused(env, words):
    with pytest.raises(bd.EnvError, match=words):
        control_environment(env, H)


def test_signals_that_are_not_finite_are_named():
    env = control_environment(Slider(), H, computed(fine=lambda x, u, y: x[0], bad=lambda x, u, y: jnp.log(-1.0)))
    with pytest.raises(bd.EnvError, match="'bad' is nan at step 1"):
        env.collect(_push(env, 1.0), Draw(0, Purpose.LEARN, 1))


def test_tables_cannot_be_run_where_controls_are_wanted():
    env = control_environment(Slider(), H, FEATURES)
    table = bd.policies.DeterministicPolicy(np.zeros((H, 2), dtype=np.int64), 1)
    with pytest.raises(bd.PolicyError, match="takes controls"):
        env.collect(table, Draw(0, Purpose.LEARN, 1))


def _problem(limit=3.0):
    x = FEATURES.embedding(H, total=True)
    return bd.Problem(cp.Minimize(x.distance), {"effort": x.effort <= limit})


@pytest.mark.parametrize("explorer", [QUICK, pytest.param(None, marks=pytest.mark.slow)], ids=["quick", "default"])
def test_a_double_integrator_is_learned_with_its_limit(explorer):
    """Linear features hold the truth: after a few episodes the plan is that of the truth, up to noise of .02.

    Doing nothing pays 15; the best without a limit pays about 4.2 with an effort of 16.
    """
    solution = bd.learn(_problem(), Slider(), LINEAR, episodes=8, evaluation=20, explorer=explorer, seed=0)
    assert solution.lower is None
    assert solution.value < 8
    assert solution.constraint("effort").value <= 3.0 * 1.15
    assert solution.output("certainty-equivalent policy").objective.upper < np.inf
    assert "no lower bound: heuristic planner" in solution.describe()
    assert isinstance(solution.policy, ControlPolicy | Mixture)
    np.testing.assert_allclose(
        solution.knowledge.posterior.mean, [[0, 0.2, 0], [0, 0, 0.2]], atol=0.02
    )  # 120 transitions, noise .02


@pytest.mark.parametrize("dual", [None, bd.dual.FollowTheLeader()])
def test_a_choice_says_what_its_plan_expects(dual):
    """Psi^t of the policy that is run against Psi, where 8 episodes have taught the linear law.

    Sums over 15 steps, in the estimate and in the truth: 256 paths each (standard errors below .02), and an estimate of
    the six numbers of W to .003 or so. A plan for another member of the mixture would be off by more than 1.
    """
    explorer = replace(QUICK, dual=dual, rollouts=256)
    setting = set_up(_problem(), Slider(), LINEAR, explorer, delta=0.05, seed=0)
    first = start_state(setting.program, setting.explorer, setting.knowledge)
    *_, turn = itertools.islice(vpdpo(setting.program, setting.env, setting.explorer, first, seed=0), 9)
    draws = [Draw(0, Purpose.EVALUATE, number) for number in range(256)]
    seen = [setting.env.collect(turn.choice.policy, draw).observed.sum(axis=0) for draw in draws]
    assert turn.choice.expected.shape == (H, 5)
    np.testing.assert_allclose(turn.choice.expected.sum(axis=0), np.mean(seen, axis=0), atol=0.25)


def test_random_controls_expect_nothing():
    setting = set_up(_problem(), Slider(), LINEAR, QUICK, delta=0.05, seed=0)
    first = start_state(setting.program, setting.explorer, setting.knowledge)
    turn = next(vpdpo(setting.program, setting.env, setting.explorer, first, seed=0))
    assert turn.choice.expected is None


@pytest.mark.parametrize("dual", [bd.dual.GradientAscent(), bd.dual.FollowTheLeader()])
def test_primal_dual_steps_move_towards_the_limit(dual):
    """Algorithm 2: one plan and one step per episode. The multiplier of a limit that is broken grows from 0."""
    explorer = replace(QUICK, dual=dual)
    solution = bd.learn(_problem(), Slider(), LINEAR, episodes=12, evaluation=5, explorer=explorer, seed=0)
    efforts = [abs(law.controller.controls).sum() for law in solution.executed[1:]]
    assert min(efforts[1:]) < 0.7 * efforts[0]
    assert "primal-dual steps" in solution.exploration


def test_primal_dual_steps_need_bounds():
    x = FEATURES.embedding(H, total=True)
    problem = bd.Problem(cp.Minimize(x.distance), {"speed": x.free <= 2.0})
    explorer = replace(QUICK, dual=bd.dual.GradientAscent())
    with pytest.raises(bd.ProblemError, match="has no bounds"):
        bd.learn(problem, Slider(), LINEAR, episodes=2, explorer=explorer)


def test_the_same_seed_learns_the_same():
    runs = [bd.learn(_problem(), Slider(), LINEAR, episodes=3, evaluation=5, explorer=QUICK, seed=4) for _ in range(2)]
    assert runs[0].value == runs[1].value
    np.testing.assert_array_equal(runs[0].embedding, runs[1].embedding)


def test_convex_problems_and_signals_without_bounds():
    """Nothing is claimed where a signal has no bounds; its means are reported all the same."""
    x = FEATURES.embedding(H, total=True)
    goal = np.array([0.5 * H, 0.0])
    problem = bd.Problem(cp.Minimize(cp.norm(x.at - goal)), {"speed": x.free <= 2.0})
    solution = bd.learn(problem, Slider(), LINEAR, episodes=5, evaluation=10, explorer=QUICK, seed=0)
    assert solution.value < 3
    assert not np.isfinite(solution.constraint("speed").violation_upper)
    assert solution.output("uniform mixture").constraints["speed"].upper is None
    assert "nothing is certified of what this policy pays for free" in solution.describe()


EXECUTIONS = (control.OpenLoop(), control.Mpc(every=5), control.Mpc(every=2, horizon=6))
OPTIMISMS = (control.Thompson(), control.BestOf(2), control.Hallucinated(0.01), control.Bonus(0.1))


def _pairs():
    """Every optimism once, and one that replans: other pairs are slow, because each is compiled."""
    for i, j in np.ndindex(len(OPTIMISMS), len(EXECUTIONS)):
        marks = () if (i, j) in ((0, 1), (1, 0), (2, 0), (3, 0)) else pytest.mark.slow
        yield pytest.param(OPTIMISMS[i], EXECUTIONS[j], marks=marks)


@pytest.mark.parametrize(("optimism", "execution"), list(_pairs()))
def test_all_parts_combine(optimism, execution):
    explorer = bd.explorers.Controls(optimism, control.mppi(16, 2), execution, rollouts=2)
    model = KNR(fourier(16), ridge=1e-2, box=((-3.0, -3.0), (3.0, 3.0)))
    solution = bd.learn(_problem(), Slider(start=0.1), model, episodes=2, evaluation=1, explorer=explorer)
    assert np.isfinite(solution.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Slider(), LINEAR, bd.explorers.Optimistic()), "explores finite models"),
        ((Slider(), bd.models.Tabular(), None), "computed from vectors"),
        (("FrozenLake-v1", LINEAR, None), "not a Box"),
    ],
)
def test_what_does_not_belong_together_is_refused(arguments, words):
    env, model, explorer = arguments
    with pytest.raises(bd.BidualError, match=words):
        bd.learn(_problem(), env, model, episodes=2, explorer=explorer)


def test_signals_of_states_are_refused():
    x = bd.features.signals(reward=np.zeros(2)).embedding(H, total=True)
    with pytest.raises(bd.ProblemError, match="functions written in JAX"):
        bd.learn(bd.Problem(cp.Maximize(x.reward)), Slider(), LINEAR, episodes=2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ridge": 0.0}, "ridge must be a positive"),
        ({"noise": -1.0}, "noise is a deviation"),
        ({"bound": -1.0}, "bound is a norm"),
        ({"box": ((0.0, 0.0), (1.0, -1.0))}, "low below high"),
        ({"noise": (0.1, 0.1, 0.1)}, "one for each of the 2"),
    ],
)
def test_models_that_cannot_be_are_refused(settings, words):
    with pytest.raises(bd.ModelError, match=words):
        bd.learn(_problem(), Slider(), KNR(linear(), **settings), episodes=2, explorer=QUICK)


def test_a_heuristic_that_gets_worse_keeps_the_cheapest_plan_so_far():
    """Otherwise the dual player would take a failed search for a bound."""
    theta = np.array([[1.0, 2.0]])
    good, bad = (Plan(None, np.array([numbers]), 0.0, lower=-np.inf) for numbers in ([1.0, 5.0], [2.0, 9.0]))
    regulator = control.Regulator().after(good)
    assert regulator.cheapest(theta, bad).embedding is good.embedding
    assert regulator.cheapest(theta, bad).value == 11.0
    assert regulator.cheapest(-theta, bad).embedding is bad.embedding
