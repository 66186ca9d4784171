"""`bd.learn` from end to end on problems so small that everything it prints can be compared with the truth.

Bounds fail with probability 0.05 for a seed drawn anew; the seeds here are fixed, and all of their claims are true.
"""

import json
import math
import subprocess
import sys
from dataclasses import replace

import cvxpy as cp
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bidual as bd
from bidual.learning import learner
from bidual.learning.outputs import FinalBound, Regret
from bidual.learning.setup import set_up
from bidual.learning.state import start_learn_state
from bidual.learning.summary import Interval
from bidual.loop.explorers import Greedy, Optimistic
from bidual.loop.vpdpo import LoopState, resume
from bidual.models import Tabular
from bidual.tasks.riverswim import riverswim
from bidual.world.envs import Simulator, gymnasium_environment
from tests.helpers import keep_few
from tests.learning import beginning, exact_values, false_claims, true_optimum

RIVER = riverswim(budget=2.5, states=3, horizon=5)
EVALUATION = 30  # simulators run up to 32 episodes in one compiled call: other numbers would compile others


def river(**arguments):
    """Forty episodes of a small river whose successors are declared."""
    arguments = {"episodes": 40, "evaluation": EVALUATION, "seed": 1, **arguments}
    return bd.learn(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), **arguments)


@pytest.fixture(scope="module")
def learned():
    return river()


def same(one, other):
    """Whether two results are the same, to the last bit and but for the clock."""
    told = [{key: value for key, value in part.to_dict().items() if key != "seconds"} for part in (one, other)]
    looks = [[replace(look, seconds=0.0) for look in part.history] for part in (one, other)]
    arrays = [
        (
            part.knowledge.counts.transitions,
            part.model.successors.probabilities,
            part.policy.table,
            part.embedding,
            *(policy.actions for policy in part.executed),
        )
        for part in (one, other)
    ]
    intervals = [[(o.name, o.objective, o.constraints, o.episodes) for o in part.outputs] for part in (one, other)]
    return (
        told[0] == told[1]
        and looks[0] == looks[1]
        and intervals[0] == intervals[1]
        and len(one.executed) == len(other.executed)
        and all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))
    )


# What comes out.


def test_a_result_says_what_was_done(learned):
    assert learned.episodes == len(learned.executed) == 40
    assert learned.evaluation_episodes == 30
    assert [output.episodes for output in learned.outputs] == [30, 40, 24]  # the last half starts at 16 of 40
    assert [look.episodes for look in learned.history] == [16, 32, 40]
    assert learned.knowledge.counts.episodes == 40 + 30  # evaluation teaches too
    assert learned.policy is learned.outputs[0].policy
    assert learned.mixture is learned.output("uniform mixture").policy
    assert abs(learned.mixture.weights.sum() - 1) <= 1e-12
    assert learned.constraint("right").limit == 2.5
    assert learned.sense == "maximize"
    assert learned.gap == learned.upper - learned.lower
    np.testing.assert_allclose(learned.visits.sum(axis=1), 1.0, atol=1e-12)
    for wrong in (learned.output, learned.constraint):
        with pytest.raises(KeyError, match=r"no (output|constraint) 'x'; there are"):
            wrong("x")


def test_a_result_reads_well_and_is_json(learned):
    text = str(learned)
    for words in (
        "no policy that keeps the constraints can be above",
        "right: ",
        "  assumes      4 conditions, at confidence 0.95 (",
        "40 episodes of learning",
    ):
        assert words in text
    following = [line.removeprefix("  next         ") for line in text.splitlines() if line.startswith("  next ")]
    assert following == list(learned.suggestions[:2])
    assert len(text.splitlines()) == 6 + len(following) <= 8
    for words in (*learned.assumptions, learned.exploration, *map(str, learned.outputs[1:])):
        assert words not in text
        assert words in learned.describe()
    assert "<table>" in learned._repr_html_()
    assert json.loads(json.dumps(learned.to_dict(), allow_nan=False))["episodes"] == 40
    unsure = river(evaluation=0)
    assert json.loads(json.dumps(unsure.to_dict(), allow_nan=False))["lower"] is None
    assert "no bound on the violation is claimed" in str(unsure)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((0.5, -2e-8, 1.574223), "0.5 in [0, 1.57422]"),
        ((0.0, 0.0, 0.0), "0 in [0, 0]"),
        ((1523.82, 1490.034, None), "1523.82 in [1490.03, ?]"),
        ((2e-9, -1e-9, 3e-9), "2e-09 in [-1e-09, 3e-09]"),
    ],
)
def test_intervals_are_rounded_to_what_can_be_read(ends, words):
    assert str(Interval(*ends)) == words


def test_bounds_only_get_better(learned):
    """The true law is in all sets at once, so the best bound so far holds."""
    bounds = [look.bound for look in learned.history]
    assert bounds == sorted(bounds, reverse=True)
    assert learned.upper <= bounds[-1]


def test_precision_is_left_alone(learned):
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32
    assert learned.model.successors.probabilities.dtype == np.float64


# Every kind of problem, with the truth.


def _random_model():
    rng = np.random.default_rng(2)
    mdp = bd.TabularMDP(rng.dirichlet(np.full(3, 0.7), (3, 2)), rng.dirichlet(np.ones(3)), 4)
    return mdp, {name: rng.random(size).round(2) for name, size in zip("abc", [(3, 2), (3, 2), (3, 2, 3)], strict=True)}


MDP, SIGNALS = _random_model()


def _kinds():
    """By name: a problem over the random model, and what is declared."""
    x = MDP.embedding(**SIGNALS)
    a, b, c = (cp.sum(getattr(x, name)) for name in SIGNALS)
    v = MDP.embedding(a=SIGNALS["a"], visits=True, total=True)
    known = Tabular(MDP)
    return {
        "no constraints": (bd.Problem(cp.Maximize(a)), known),
        "several constraints": (bd.Problem(cp.Minimize(a), {"b": b <= 2.2, "c": c <= 2.4}), known),
        "at least": (bd.Problem(cp.Minimize(a), {"b": b >= 1.6}), Tabular(MDP, set="box")),
        "a vector": (bd.Problem(cp.Maximize(a), {"b": x.b <= 0.8}), known),
        "equality": (bd.Problem(cp.Maximize(a), {"b": b == 1.9}), known),
        "nothing declared": (bd.Problem(cp.Maximize(c), {"b": b <= 2.2}), None),
        "visits, summed over time": (bd.Problem(cp.Maximize(v.a), {"there": v.visits[1] >= 1.0}), known),
        "convex": (bd.Problem(cp.Minimize(cp.norm(cp.hstack([a, b]) - 1.0)), {"c": c <= 2.4}), known),
    }


KINDS = _kinds()


def check_claims(problem, mdp, env, model, evaluation=EVALUATION):
    """Learn, and compare everything that is said with the truth."""
    result = bd.learn(problem, env, model, episodes=32, evaluation=evaluation, seed=3)
    low, high = true_optimum(problem, mdp)
    assert false_claims(result, problem, mdp, high) == []
    sense, side = (-1.0, "upper") if problem.maximises else (1.0, "lower")
    assert sense * getattr(result, side) <= low + 1e-6
    assert result.status is not bd.Status.INFEASIBLE
    assert result.conflict is None
    # The same claim moved past the truth is found out.
    moved = replace(result, **{side: sense * (high + 1e-6)})
    assert len(false_claims(moved, problem, mdp, high)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_claim_is_true_in_the_true_model(kind):
    problem, model = KINDS[kind]
    check_claims(problem, MDP, Simulator(MDP, hidden_start=model is None), model)


def bandit():
    """One state, one step, rewards 0.2 and 0.6: nothing of the model is unknown."""
    mdp = bd.TabularMDP(np.ones((1, 2, 1)), 0, 1)
    x = mdp.embedding(reward=np.array([[0.2, 0.6]]), cost=np.array([[0.0, 1.0]]))
    return mdp, x


def test_one_step_is_enough():
    mdp, x = bandit()
    check_claims(bd.Problem(cp.Maximize(cp.sum(x.reward)), {"cost": cp.sum(x.cost) <= 0.4}), mdp, mdp, Tabular(mdp), 50)


def test_one_action_is_enough():
    mdp = bd.TabularMDP(np.array([[[0.3, 0.7]], [[0.6, 0.4]]]), 0, 3)
    x = mdp.embedding(a=np.array([1.0, 2.0]))
    check_claims(bd.Problem(cp.Minimize(cp.sum(x.a))), mdp, mdp, None)


def test_a_convex_problem_has_a_bound_that_says_something():
    """The distance is at least 0 in any case; the bound after 60 episodes is some of the way to the truth."""
    problem, model = KINDS["convex"]
    result = bd.learn(problem, MDP, model, episodes=60, evaluation=EVALUATION, seed=0)
    low, high = true_optimum(problem, MDP)
    assert 0.1 * low <= result.lower <= high


def test_a_convex_function_of_few_numbers_is_bounded_from_both_sides():
    """Three numbers, so eight corners; the mean alone would be no bound."""
    problem, model = KINDS["convex"]
    result = bd.learn(problem, MDP, model, episodes=60, evaluation=2000, seed=0)
    exact, _ = exact_values(problem, MDP, result.policy)
    assert exact <= result.upper <= result.value + 0.25
    assert result.value < result.upper
    assert result.gap == result.upper - result.lower
    assert result.certify(4000).upper < result.upper


def test_a_master_that_fails_leaves_learning_without_a_bound(monkeypatch):
    """It must not end the run: the policy comes from elsewhere."""

    def fail(*_):
        raise np.linalg.LinAlgError("singular")

    problem, model = KINDS["convex"]
    monkeypatch.setattr("bidual.dual._conic_corrective.solve_conic_master", fail)
    setting = set_up(problem, MDP, model, None, delta=0.05, seed=0)
    assert FinalBound()(setting.program, setting.knowledge).lower is None


def test_a_convex_function_of_many_numbers_has_no_bound_from_above():
    x = MDP.embedding(visits=True)
    result = bd.learn(bd.Problem(cp.Minimize(cp.sum_squares(x.visits - 0.3))), MDP, Tabular(MDP), episodes=20, seed=0)
    assert result.upper is None
    assert result.lower is not None


def test_what_cannot_hold_is_named_and_is_true():
    """Half of the least that any policy pays, beside a limit that is no trouble."""
    x = MDP.embedding(**SIGNALS)
    least = true_optimum(bd.Problem(cp.Minimize(cp.sum(x.b))), MDP)[0]
    limits = {"a": cp.sum(x.a) <= 9.0, "b": cp.sum(x.b) <= 0.5 * least}
    problem = bd.Problem(cp.Maximize(cp.sum(x.a)), limits)
    result = bd.learn(problem, MDP, Tabular(MDP), episodes=40, evaluation=20, seed=0)
    assert result.status is bd.Status.INFEASIBLE
    assert set(result.conflict.least) == {"b"}
    assert 0.1 * least < result.conflict.least["b"] <= 0.5 * least
    assert result.upper is None
    assert "constraint 'b' cannot hold" in str(result)
    assert false_claims(result, problem, MDP, None) == []
    # With a little room the same limit is not accused.
    roomy = bd.Problem(cp.Maximize(cp.sum(x.a)), {**limits, "b": cp.sum(x.b) <= 1.05 * least})
    assert bd.learn(roomy, MDP, Tabular(MDP), episodes=40, evaluation=20, seed=0).conflict is None


def test_frozen_lake_by_name_with_functions_as_signals():
    """A dozen episodes of six steps. Its table, which learning does not see, tells the truth."""
    features = bd.features.signals(
        goal=lambda step: step.reward, holes=lambda obs, action, next_obs, info: next_obs in (5, 7, 11, 12)
    )
    x = features.embedding(6)
    problem = bd.Problem(cp.Maximize(cp.sum(x.goal)), {"holes": cp.sum(x.holes) <= 0.3})
    result = bd.learn(problem, "FrozenLake-v1", episodes=12, evaluation=12, seed=0)
    mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", 6)
    y = mdp.embedding(goal=lambda t: t.reward, holes=lambda t: t.terminated and not t.reward)
    exact = bd.Problem(cp.Maximize(cp.sum(y.goal)), {"holes": cp.sum(y.holes) <= 0.3})
    assert result.policy.shape == (6, 17, 4)
    assert false_claims(result, exact, mdp, true_optimum(exact, mdp)[1]) == []
    assert any("signal 'goal' is a function of the transition" in words for words in result.assumptions)
    assert any("one declared state is never left" in words for words in result.assumptions)
    assert any("the start law is learned too" in words for words in result.assumptions)


class Ends(gymnasium.Env):
    """One state; every episode ends with its first step, which pays 0.7, or what `pays` says."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, pays=lambda rng: 0.7, fails_at=math.inf):
        self.pays, self.fails_at, self.resets = pays, fails_at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        if self.resets == self.fails_at:
            raise RuntimeError("the power is out")
        return 0, {}

    def step(self, action):
        return 0, self.pays(self.np_random), True, False, {}


def _ends(horizon=4):
    x = bd.features.signals(reward=lambda step: step.reward).embedding(horizon)
    return bd.Problem(cp.Maximize(cp.sum(x.reward)))


ENDS = Tabular([[1], [1]])  # which of the two states follow: known beforehand, so only the signal is to be learned


def test_nothing_is_hoped_for_after_the_end_of_an_episode():
    """Once an episode has ended nothing is paid, whatever the action: after both actions were seen to pay 0.7 and to
    end the episode, no policy can reach more than that in four steps.
    """
    result = bd.learn(_ends(), Ends(), ENDS, episodes=20, evaluation=20, seed=0, explorer=Optimistic())
    assert abs(result.upper - 0.7) <= 1e-8
    assert result.output("certainty-equivalent policy").objective.value == pytest.approx(0.7)


@pytest.mark.parametrize("noisy", [False, True])
def test_bounds_of_a_signal_need_not_hold_after_the_end_of_an_episode(noisy):
    """Where nothing is paid: 0 is outside of them."""
    signal = bd.features.observed(lambda step: step.reward, 0.5, 1.0, noisy=noisy)
    x = bd.features.signals(reward=signal).embedding(4)
    result = bd.learn(bd.Problem(cp.Maximize(cp.sum(x.reward))), Ends(), ENDS, episodes=20, evaluation=20, seed=0)
    assert result.lower <= 0.7 <= result.upper
    assert noisy or abs(result.upper - 0.7) <= 1e-8


def test_constraints_on_auxiliary_variables_are_learned_with():
    mdp, v = bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 3), cp.Variable()
    x = mdp.embedding(a=np.array([0.0, 1.0]))
    problem = bd.Problem(cp.Minimize(cp.square(cp.sum(x.a))), {"w": v <= 1, "v": cp.abs(cp.sum(x.a) - v) <= 1})
    result = bd.learn(problem, mdp, episodes=3)
    assert result.status == "feasible"
    assert result.lower <= 1.0 <= result.upper  # after the first step every policy is in state 1 half of the time


def test_a_signal_that_is_no_function_of_the_transition_has_no_bound():
    noisy = Ends(pays=lambda rng: float(rng.random()))
    result = bd.learn(_ends(), noisy, ENDS, episodes=20, evaluation=20, seed=0)
    assert result.upper is None
    assert result.lower is not None  # what the policy itself pays is still known from its episodes
    assert all(look.bound is None for look in result.history)
    assert any("signal 'reward' is no function of the transition" in words for words in result.assumptions)
    assert "no bound on what other policies can reach is claimed" in str(result)


def test_a_signal_that_is_seen_to_vary_late_leaves_no_earlier_bound():
    """It pays 0.7 for 40 episodes and then sometimes 1: what the first looks showed rests on what is not so."""
    late = Ends(pays=lambda rng: 0.7 if late.resets <= 40 or rng.random() < 0.9 else 1.0)
    result = bd.learn(_ends(), late, ENDS, episodes=35, evaluation=5, seed=0)
    assert abs(result.upper - 0.7) <= 1e-8
    again = result.certify(60)
    assert again.upper is None
    assert all(look.bound is None for look in again.history)
    late = Ends(pays=lambda rng: 0.7 if late.resets <= 40 or rng.random() < 0.9 else 1.0)
    for episodes, evaluation in ((100, 20), (40, 60), (100, 0)):
        late.resets = 0
        result = bd.learn(_ends(), late, ENDS, episodes=episodes, evaluation=evaluation, seed=0)
        assert result.upper is None
        assert all(look.bound is None for look in result.history)
        assert "no bound on what other policies can reach is claimed" in str(result)


def test_a_signal_that_is_declared_noisy_has_a_bound_on_its_mean():
    """Between the mean, 0.5, and the largest value; with four times the episodes it is closer."""
    noisy = Ends(pays=lambda rng: float(rng.random()))
    x = bd.features.signals(reward=bd.features.observed(lambda step: step.reward, noisy=True, at_end=True)).embedding(4)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
    short, long = (bd.learn(problem, noisy, ENDS, episodes=n, evaluation=20, seed=0) for n in (50, 200))
    assert 0.5 <= long.upper <= short.upper - 0.05 <= 0.95
    assert any("signal 'reward' has one mean for every transition" in words for words in long.assumptions)


def test_a_ready_environment_gets_the_signals_of_the_problem():
    ready = gymnasium_environment(Ends(), 4)
    result = bd.learn(_ends(), ready, ENDS, episodes=20, evaluation=20, seed=0)
    assert result.output("certainty-equivalent policy").objective.value == pytest.approx(0.7)
    assert ready.readings == ()


# Seeds and states.


def test_the_same_seed_gives_the_same_result(learned):
    again = river()
    assert same(learned, again)
    assert same(learned.certify(20), again.certify(20))


def test_another_seed_gives_another_result(learned):
    other = river(seed=2)
    assert not same(learned, other)
    assert not np.array_equal(learned.knowledge.counts.transitions, other.knowledge.counts.transitions)


def test_progress_changes_nothing(learned, monkeypatch):
    """Nor does how often it is told: with no time between words there are some after every episode."""
    monkeypatch.setattr(learner, "_SECONDS_BETWEEN_UPDATES", -1.0)
    looks = []
    assert same(learned, river(progress=looks.append))
    assert [look.episodes for look in looks] == list(range(1, 41))
    assert [look.bound for look in looks[:15]] == [None] * 15
    assert looks[-1].bound == learned.history[-1].bound


class Walk(gymnasium.Env):
    """Cells 0 to 2; right (1) walks on with probability 0.7, left (0) back; resets fail where they are told to."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fails_at=math.inf):
        self.fails_at, self.resets, self.cell = fails_at, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets, self.cell = self.resets + 1, 0
        if self.resets == self.fails_at:
            raise RuntimeError("the power is out")
        return 0, {}

    def step(self, action):
        move = 1 if action == 1 and self.np_random.random() < 0.7 else -1
        self.cell = min(max(self.cell + move, 0), 2)
        return self.cell, float(self.cell == 2), False, False, {}


def walk(env, **arguments):
    features = bd.features.signals(reward=lambda step: step.reward, right=np.array([[0.0, 1.0]] * 4))
    x = features.embedding(4)
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"right": cp.sum(x.right) <= 3.0})
    model = Tabular([[0, 1, -1], [0, 2, -1], [1, 2, -1], [3, -1, -1]])
    arguments = {"episodes": 30, "evaluation": 20, "seed": 4, **arguments}
    return bd.learn(problem, env, model, **arguments)


@pytest.fixture(scope="module")
def walked():
    return walk(Walk())


@pytest.mark.parametrize("fails_at", keep_few([1, 17, 30, 35, 13, 18, 31], 4))
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(fails_at, walked):
    """Also from an error right after a look, and from one during evaluation, which begins with episode 31."""
    kept = min(fails_at - 1, 30)
    env = Walk(fails_at=fails_at)
    with pytest.raises(bd.EnvError, match=rf"the power is out.*\n{kept} episodes before it are kept") as caught:
        walk(env)
    state = caught.value.state
    assert state.episodes == state.loop.knowledge.counts.episodes == kept
    assert same(walk(env, state=state), walked)
    assert same(walk(env, state=state), walked)  # the state is not used up


def test_a_state_takes_on_the_delta_of_the_run_that_goes_on():
    """Else a set made for 0.5 would be printed as one for 0.01."""
    with pytest.raises(bd.EnvError) as caught:
        walk(Walk(fails_at=13), delta=0.5)
    assert caught.value.state.loop.knowledge.delta == 0.25
    strict, loose = (walk(Walk(), state=caught.value.state, delta=delta) for delta in (0.01, 0.5))
    assert strict.knowledge.delta == 0.005
    assert strict.upper > loose.upper + 0.01


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(bd.EnvError) as caught:
        walk(Walk(fails_at=3))
    words = r"the state to go on from is over \(4, 2\) states and actions, the environment has \(3, 2\)"
    with pytest.raises(bd.ProblemError, match=words):
        river(state=caught.value.state)


def _state_of_walk():
    with pytest.raises(bd.EnvError) as caught:
        walk(Walk(fails_at=20))
    return caught.value.state


def _walk_to(state, env=None, *, limit=3.0, sense=cp.Maximize, scale=1.0, model=None):
    x = bd.features.signals(reward=lambda step: step.reward, right=scale * np.array([[0.0, 1.0]] * 4)).embedding(4)
    problem = bd.Problem(sense(cp.sum(x.reward)), {"right": cp.sum(x.right) <= limit})
    model = model or Tabular([[0, 1, -1], [0, 2, -1], [1, 2, -1], [3, -1, -1]])
    return bd.learn(problem, env or Walk(), model, episodes=30, evaluation=20, seed=4, state=state)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"limit": 1.0}, "problem"),
        ({"sense": cp.Minimize}, "problem"),
        ({"scale": 2.0}, "features"),
        ({"model": Tabular([[0, 1, 2]] * 3 + [[3, -1, -1]])}, "declared successors"),
        ({"model": Tabular([[0, 1, -1], [0, 2, -1], [1, 2, -1], [3, -1, -1]], set="l1")}, "set"),
    ],
)
def test_a_state_of_another_problem_is_refused(other, name):
    """Its bounds are on values of that problem: "no policy can be above 2" was printed where 4 is true."""
    state = _state_of_walk()
    assert _walk_to(state).episodes == 30
    with pytest.raises(bd.ProblemError, match=f"another {name}"):
        _walk_to(state, **other)


def _stronger_current():
    lists = RIVER.mdp.successors
    probabilities = np.where(lists.probabilities > 0, 0.5 * lists.probabilities, 0.0)
    probabilities[..., 0] += 1 - probabilities.sum(axis=-1)
    return bd.TabularMDP((lists.states[0], probabilities[0]), RIVER.mdp.initial, RIVER.mdp.horizon)


def test_a_state_of_another_law_is_refused():
    other = _stronger_current()

    def stopped(env, state=None):
        return bd.learn(RIVER.problem, env, Tabular(RIVER.mdp), episodes=40, evaluation=EVALUATION, seed=1, state=state)

    setup = set_up(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp), None, delta=0.05, seed=1)
    state = start_learn_state(setup)
    assert stopped(RIVER.mdp, state).episodes == 40
    with pytest.raises(bd.ProblemError, match="another model that is simulated"):
        stopped(other, state)


def test_a_state_of_another_registered_environment_is_refused():
    """Environments show little of themselves; a registered one has a name and its arguments."""

    def named(kwargs):
        env = Walk(fails_at=20)
        env.spec = gymnasium.envs.registration.EnvSpec("Walk-v0", kwargs=kwargs)
        return env

    with pytest.raises(bd.EnvError) as caught:
        walk(named({"pays": 1.0}))
    state = caught.value.state
    assert _walk_to(state, Walk()).episodes == 30  # which has no name: nothing is known to differ
    with pytest.raises(bd.ProblemError, match="another environment"):
        _walk_to(state, named({"pays": 2.0}))


def test_a_state_of_nothing_known_is_refused():
    with pytest.raises(bd.ProblemError, match="does not tell which problem"):
        _walk_to(replace(_state_of_walk(), identity=None))


def test_a_start_state_that_was_declared_impossible_is_an_error():
    with pytest.raises(bd.EnvError, match="began in state 0, which has probability 0"):
        bd.learn(RIVER.problem, RIVER.mdp, Tabular(RIVER.mdp, initial=2), episodes=3)


# Stopping and certifying.


def test_certifying_in_parts_or_twice_spends_one_share_of_delta(learned):
    """All numbers of further episodes are looks at one process, whose bounds hold for all of them at once."""
    more, parts = learned.certify(2 * EVALUATION), learned.certify(EVALUATION).certify(EVALUATION)
    assert (more.lower, more.upper) == (parts.lower, parts.upper)
    assert [c.to_dict() for c in more.constraints] == [c.to_dict() for c in parts.constraints]
    assert more.evaluation_episodes == parts.evaluation_episodes == 3 * EVALUATION
    rounds = parts._session.estimates.rounds
    assert [(seen.number, seen.uniform, len(seen.values)) for seen in rounds] == [
        (1, False, EVALUATION),
        (2, True, 2 * EVALUATION),
    ]
    again = learned.certify(EVALUATION)
    assert again._session.estimates.rounds[1].number == 2
    np.testing.assert_array_equal(again._session.estimates.rounds[1].values, rounds[1].values[:EVALUATION])


@pytest.mark.parametrize("between", [-1.0, math.inf], ids=["many words", "no words"])
def test_stops_as_soon_as_it_may(between, monkeypatch):
    """At the first look after 100 episodes; words between the looks, even before the first, stop nothing."""
    monkeypatch.setattr(learner, "_SECONDS_BETWEEN_UPDATES", between)
    mdp, x = bandit()
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
    result = bd.learn(problem, mdp, Tabular(mdp), episodes=10_000, stop_when=bd.stop_when(gap=0.2))
    assert result.episodes == 128
    assert result.status is bd.Status.OPTIMAL
    assert 0 <= result.gap <= 0.2
    assert result.upper == pytest.approx(0.6, abs=1e-8)


@pytest.mark.parametrize("goal", [bd.stop_when(gap=1e-4), bd.stop_when(gap=0.5, violation=1e-4)], ids=["gap", "limit"])
def test_goes_on_until_everything_asked_for_is_certain(goal):
    """130 episodes show neither a gap of 1e-4 nor a limit that is reached to be kept within 1e-4."""
    mdp, x = bandit()
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"cost": cp.sum(x.cost) <= 0.9})
    result = bd.learn(problem, mdp, Tabular(mdp), episodes=130, stop_when=goal)
    assert result.episodes == 130
    assert result.status is not bd.Status.OPTIMAL
    assert result.evaluation_episodes == 50 + 50  # at the look after 128, and in the end


def test_a_limit_of_time_stops_after_an_episode():
    """However short: what was learned from it is returned."""
    result = river(time_limit=1e-9)
    assert result.episodes == 1
    assert [look.episodes for look in result.history] == [1]


def test_certify_adds_episodes_and_never_widens():
    before, narrower = river(evaluation=20), 0
    start = before
    for episodes in (20, 32, 32):
        result = before.certify(episodes)
        assert result.evaluation_episodes == before.evaluation_episodes + episodes
        assert result.outputs[0].episodes == result.evaluation_episodes
        assert result.episodes == start.episodes
        assert result.policy is start.policy
        assert result.outputs[1:] == start.outputs[1:]
        assert result.upper <= before.upper  # the episodes also say more about what others can reach
        first, last = ([o.objective, *o.constraints.values()] for o in (before.outputs[0], result.outputs[0]))
        for old, new in zip(first, last, strict=True):
            assert new.lower >= old.lower
            assert new.upper <= old.upper
            narrower += new.upper - new.lower < old.upper - old.lower
        before = result
    assert narrower
    assert false_claims(before, RIVER.problem, RIVER.mdp, true_optimum(RIVER.problem, RIVER.mdp)[1]) == []


def test_certify_is_an_evaluation_of_its_own_episodes(learned):
    """The mean over all of them, each counted once: no episode is run again that an interval rests on already."""
    more = learned.certify(32)
    first, both = learned.outputs[0].objective.value, more.outputs[0].objective.value
    second = (62 * both - 30 * first) / 32
    again = river(evaluation=0).certify(32).outputs[0].objective.value  # the first ones
    assert second != pytest.approx(first)
    assert second != pytest.approx(again)


def test_without_evaluation_nothing_is_certain_of_the_policy():
    result = river(evaluation=0)
    assert result.evaluation_episodes == 0
    assert result.lower is None
    assert result.gap is None
    assert result.status is bd.Status.UNDECIDED
    assert result.constraint("right").violation_upper == math.inf
    assert result.upper is not None
    later = result.certify(30)
    assert later.lower is not None
    assert later.outputs[0].episodes == 30
    np.testing.assert_array_equal(later.policy.table, river().policy.table)


@pytest.mark.parametrize("episodes", [0, -3])
def test_certify_wants_episodes(learned, episodes):
    with pytest.raises(bd.ProblemError, match="whole number of episodes, at least 1"):
        learned.certify(episodes)


def test_a_result_without_its_run_cannot_be_certified(learned):
    alone = replace(learned, _session=None)
    with pytest.raises(bd.ProblemError, match="no environment to run episodes in"):
        alone.certify(3)
    with pytest.raises(bd.ProblemError, match="does not know its problem"):
        alone.regret(RIVER.mdp)


def _sums(regret, violation):
    t = np.arange(1, len(regret) + 1)
    return Regret(t, regret, violation[:, None], np.maximum(regret, 0), np.maximum(violation, 0)[:, None])


def test_slopes_are_exponents():
    """Of pure powers, whatever the times before; what stays below 0 does not grow."""
    t = np.arange(1.0, 20_001.0)
    slopes = _sums(100 * t**0.5, -3 * t).slopes(100)
    assert slopes["regret"] == pytest.approx(0.5, abs=1e-9)
    assert slopes["violation"] == pytest.approx(0.0, abs=1e-9)
    assert slopes["positive violation"] == pytest.approx(0.0, abs=1e-9)
    bent = np.where(t < 1000, t, 1000 * (t / 1000) ** 0.3)
    assert _sums(bent, bent).slopes(1000)["positive violation"] == pytest.approx(0.3, abs=1e-6)
    assert _sums(bent, bent).slopes(1)["violation"] > 0.5
    with pytest.raises(bd.ProblemError, match="needs two times from episode 20000 on; there are 1"):
        _sums(bent, bent).slopes(20_000)


def test_the_figure_of_regret_tells_the_slopes():
    t = np.arange(1.0, 1001.0)
    figure = bd.report.regret_figure(_sums(10 * t**0.5, -t))
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "regret, slope 0.50" in words
    assert "square root" in words
    assert not any(text.startswith("violation") for text in words)  # there is none to draw


def test_regret_against_the_truth(learned):
    found = learned.regret(RIVER.mdp)
    np.testing.assert_array_equal(found.episodes, np.arange(1, 41))
    assert found.violation.shape == found.positive_violation.shape == (40, 1)
    assert np.all(np.diff(found.positive_regret) >= 0)
    assert np.all(found.positive_regret >= found.regret - 1e-9)
    impossible = bd.TabularMDP(np.full((3, 2, 3), 1 / 3), 0, 5)
    assert learned.regret(impossible).episodes.size == 40


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"episodes": 0}, "episodes must be a whole number, at least 1; got 0"),
        ({"episodes": -1}, "episodes must be a whole number, at least 1; got -1"),
        ({"evaluation": -1}, "evaluation must be a whole number, at least 0; got -1"),
        ({"delta": 0.0}, r"delta must be strictly between 0 and 1; got 0\.0"),
        ({"delta": 1.0}, r"delta must be strictly between 0 and 1; got 1\.0"),
        ({"delta": math.nan}, "delta must be strictly between 0 and 1; got nan"),
        ({"seed": -1}, "the seed must be a whole number from 0"),
        ({"seed": 2**32}, "the seed must be a whole number from 0"),
        ({"time_limit": 0.0}, "the time limit must be positive seconds"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(bd.ProblemError, match=words):
        river(**arguments)


@pytest.mark.parametrize("settings", [{"gap": 0.0}, {"gap": math.nan}, {"gap": 0.1, "violation": -1.0}])
def test_a_bad_goal_is_named(settings):
    with pytest.raises(bd.ProblemError, match="stop_when needs gap > 0 and violation >= 0"):
        bd.stop_when(**settings)


def test_problem_and_environment_must_belong_together():
    other = riverswim(states=3, horizon=6)
    with pytest.raises(bd.ProblemError, match="the problem's horizon is 5, the environment's is 6"):
        bd.learn(RIVER.problem, other.mdp)
    with pytest.raises(bd.ModelError, match=r"signal 'reward' has shape \(3, 2\)"):
        bd.learn(RIVER.problem, riverswim(states=4, horizon=5).mdp)
    with pytest.raises(bd.ProblemError, match=r"signal 'reward' is a function .* give it as an array"):
        bd.learn(_ends(), bd.TabularMDP(np.ones((1, 2, 1)), 0, 4))
    with pytest.raises(bd.EnvError, match="gymnasium cannot make 'Nowhere-v0'"):
        bd.learn(_ends(), "Nowhere-v0")


def test_an_environment_of_ones_own_is_taken_as_it_is():
    """Made with other options than `learn` would have chosen."""
    environment = gymnasium_environment(Ends(), 4, [("reward", bd.features.observed(lambda step: step.reward))])
    x = bd.features.signals(reward=lambda step: step.reward).embedding(4)
    result = bd.learn(bd.Problem(cp.Maximize(cp.sum(x.reward))), environment, ENDS, episodes=3, evaluation=3)
    assert result.value == pytest.approx(0.7)


WRONG_TYPES = """
import bidual as bd
from bidual.tasks.riverswim import riverswim
from tests.helpers import keep_few
task = riverswim(states=3, horizon=5)
for name, value in [("episodes", 2.5), ("episodes", True), ("episodes", "3"), ("evaluation", 1.0), ("seed", 1.5),
        ("seed", None), ("delta", "x"), ("time_limit", "1"), ("explorer", "greedy"), ("explorer", bd.explorers.Greedy),
        ("model", "x"), ("model", task.mdp), ("stop_when", 0.1), ("state", "x"), ("callback", print),
        ("callback", bd.callbacks.KeepBest), ("callback", [bd.callbacks.KeepBest(), 3])]:
    try:
        bd.learn(task.problem, task.mdp, **{"episodes": 1, name: value})
    except bd.ProblemError as error:
        assert name in str(error).replace("time limit", "time_limit"), (name, value, error)
    else:
        raise AssertionError(f"{name}={value!r} was taken")
for call, kind in [(lambda: bd.learn("p", task.mdp), bd.ProblemError), (lambda: bd.learn(task.problem, 3), bd.EnvError),
        (lambda: bd.stop_when("x"), bd.ProblemError)]:
    try:
        call()
    except kind:
        continue
    raise AssertionError(kind)
"""


def test_wrong_types_are_named():
    """In a process of its own: here the checks of types in test runs would stand before ours."""
    process = subprocess.run([sys.executable, "-c", WRONG_TYPES], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_the_text_has_at_most_eight_lines():
    """Whatever the number of constraints: those without a line of their own share one, with the worst bound."""
    x = RIVER.mdp.embedding(right=np.tile([0.0, 1.0], (3, 1)), total=True)
    limits = {f"limit {i}": x.right <= 5.0 + i for i in range(6)}
    problem = bd.Problem(cp.Maximize(x.right), limits)
    result = bd.learn(problem, RIVER.mdp, Tabular(RIVER.mdp), episodes=30, evaluation=10)
    lines = str(result).splitlines()
    assert len(lines) == 8
    worst = max(one.violation_upper for one in result.constraints[1:])
    assert f"5 more, violated by at most {max(worst, 0.0):.3g}" in lines[4]
    assert lines[5] == f"  next         {result.suggestions[0]}"
    assert all(f"{name}: " in result.describe() for name in limits)


def test_exploring_differently_still_certifies():
    """Greedy promises nothing, but the bounds do not rest on how episodes were chosen."""
    result = river(explorer=Greedy())
    assert false_claims(result, RIVER.problem, RIVER.mdp, true_optimum(RIVER.problem, RIVER.mdp)[1]) == []
    assert "explored     greedily: no rate is proved" in result.describe()


def test_a_law_that_changes_with_the_step_is_refused():
    """Counts are shared over the steps: the printed assumption would be false, and bounds with it."""
    laws = np.stack([np.eye(2)[:, None], np.eye(2)[::-1][:, None]])
    mdp = bd.TabularMDP(laws, 0, 2)
    x = mdp.embedding(there=np.array([0.0, 1.0]))
    with pytest.raises(bd.ProblemError, match=r"changes with the step.*stationary=False"):
        bd.learn(bd.Problem(cp.Maximize(cp.sum(x.there))), mdp, episodes=2)


def test_a_law_that_changes_with_the_step_is_learned_with_counts_of_every_step():
    """Action 1 moves in the first step, action 0 in the second: 2/2 is possible, and only counts per step tell."""
    stay, move = np.eye(2), np.eye(2)[::-1]
    mdp = bd.TabularMDP(np.stack([np.stack(pair, axis=1) for pair in ((stay, move), (move, stay))]), 0, 2)
    x = mdp.embedding(there=np.array([0.0, 1.0]), paid=bd.features.on_arrival([[[0.0, 1.0]] * 2] * 2))
    problem = bd.Problem(cp.Maximize(cp.sum(x.there) + cp.sum(x.paid)))
    learned = bd.learn(problem, mdp, Tabular(stationary=False), episodes=200)
    assert false_claims(learned, problem, mdp, -3.0) == []
    assert learned.value == 3.0
    assert 3.0 <= learned.upper <= 3.1
    assert "the next state depends on (step, state, action) only" in learned.describe()
    assert learned.model.successors.probabilities.shape[0] == 2
    with pytest.raises(bd.ProblemError, match="counts for 2 of the steps, the model asks for 1"):
        resume(LoopState(1, learned.knowledge, None), beginning(x.features, (2, 2, 2)))
