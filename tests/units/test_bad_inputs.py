"""Bad input through the Python API: every error names what was wrong, where, what was got, and the remedy."""

import cvxpy as cp
import gymnasium as gym
import numpy as np
import pytest

import bidual as bd

pytestmark = pytest.mark.unchecked_shapes(reason="the subject is bad input")

P = np.zeros((3, 2, 3))
P[:, 0, 0] = P[:, 1, 1] = 1.0
PAY = np.ones((3, 2))


def _model(P=P, initial=0, horizon=4, **settings):
    return bd.TabularMDP(P, initial, horizon, **settings)


def _law(place, value):
    changed = P.copy()
    changed[place] = value
    return changed


MDP = _model()
X = MDP.embedding(pay=PAY, cost=PAY)
EARN = cp.Maximize(cp.sum(X.pay))
PROBLEM = bd.Problem(EARN, {"cost": cp.sum(X.cost) <= 9})


class _Env(gym.Env):
    """Three states and two actions; what a step returns is `answer`."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)

    def __init__(self, answer=(1, 0.0, False, False, {}), space=None):
        self.answer, self.observation_space = answer, space or self.observation_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return self.answer


def _observe(env, signal=lambda t: t.reward, horizon=4):
    x = bd.features.signals(pay=signal).embedding(4)
    problem = bd.Problem(cp.Maximize(cp.sum(x.pay)))
    return bd.learn(problem, bd.envs.gymnasium_environment(env, horizon=horizon), episodes=2, evaluation=1)


def _learn(env=MDP, model=None, **settings):
    return bd.learn(PROBLEM, env, model, **{"episodes": 1, **settings})


def _constrained(constraint):
    return bd.Problem(EARN, {"limit": constraint})


# The call, and parts of the message: what and where, what was got, the remedy or what would be right.
MODELS = {
    "rows that do not sum to 1": (
        lambda: _model(_law((1, 0, 0), 0.5)),
        "state 1, action 0",
        "0.5",
        "divide by the row",
    ),
    "negative": (lambda: _model(_law((1, 0), [-0.1, 1.1, 0])), "state 1, action 0", "-0.1", "at least 0"),
    "NaN": (lambda: _model(_law((1, 0, 2), np.nan)), "[1, 0, 2]", "nan", "finite"),
    "not square": (lambda: _model(P[:, :, :2]), "(3, 2, 2)", "(S, A, S)"),
    "two axes": (lambda: _model(P[0]), "(2, 3)", "(S, A, S)"),
    "text as a law": (lambda: _model("abc"), "<U3", "real numbers"),
    "a start beyond": (lambda: _model(initial=3), "initial state 3", "0 to 2"),
    "a start law": (lambda: _model(initial=[0.5, 0.4, 0.2]), "initial sums to 1.1", "divide it"),
    "half a state": (lambda: _model(initial=1.5), "initial", "state index or a distribution"),
    "no steps": (lambda: _model(horizon=0), "horizon", "0", "at least 1"),
    "half a step": (lambda: _model(horizon=2.5), "horizon", "2.5", "whole number"),
    "a mask of another shape": (lambda: _model(actions=np.ones((2, 2), bool)), "(2, 2)", "(S, A) = (3, 2)"),
    "a state without actions": (
        lambda: _model(actions=[[True, True], [False, False], [True, True]]),
        "state 1 allows no action",
        "needs one",
    ),
    "two states of one name": (lambda: _model(states=["a", "a", "b"]), "states[0] and states[1]", "'a'", "differ"),
    "too few names": (lambda: _model(states=["a", "b"]), "2 names", "3 states", "one name for each"),
    "lists that lead nowhere": (
        lambda: _model((np.array([[[0, 5]] * 2] * 3), np.full((3, 2, 2), 0.5))),
        "state 0, action 0: entry 1 is 5",
        "0 to 2",
    ),
    "a ragged map": (lambda: bd.Grid(["..", "..."]), "row 1", "'...'", "row 0 has 2"),
    "a set that is not there": (lambda: bd.models.Tabular(set="oval"), "set", "'oval'", "ball, box"),
    "a negative ridge": (lambda: bd.models.KNR(bd.features.fourier(8), ridge=-1.0), "ridge", "-1", "positive"),
    "successors beyond": (
        lambda: _learn(model=bd.models.Tabular(support=np.full((3, 2, 1), 9))),
        "[0, 0, 0] is 9",
        "0 to 2",
    ),
}
SIGNALS = {
    "a signal of another shape": (lambda: MDP.embedding(pay=np.ones(5)), "'pay'", "(5,)", "(S, A) = (3, 2)"),
    "an infinite signal": (lambda: MDP.embedding(pay=np.full((3, 2), np.inf)), "'pay' is inf at [0, 0]", "finite"),
    "text as a signal": (lambda: MDP.embedding(pay="much"), "'pay'", "'much'", "real numbers"),
    "no signal": (lambda: MDP.embedding(), "at least one", "signals(reward=r"),
    "bounds the wrong way": (lambda: bd.features.observed(lambda t: 0, 1.0, 0.0), "[1.0, 0.0]", "low <= high"),
}
PROBLEMS = {
    "no sense": (lambda: bd.Problem(cp.sum(X.pay)), "objective", "got Sum", "cp.Minimize"),
    "no relation": (lambda: _constrained(cp.sum(X.cost)), "'limit'", "got Sum", "<=, >= or =="),
    "a truth value": (lambda: _constrained(True), "'limit'", "True", "does not mention the embedding"),
    "a limit that is NaN": (lambda: bd.solve(_constrained(cp.sum(X.cost) <= np.nan), MDP), "'limit'", "nan", "drop"),
    "a parameter without a value": (
        lambda: bd.solve(_constrained(cp.sum(X.cost) <= cp.Parameter(name="b")), MDP),
        "'b' has no value",
        "set b.value",
    ),
    "a convex maximum": (
        lambda: bd.solve(bd.Problem(cp.Maximize(cp.square(cp.sum(X.pay)))), MDP),
        "objective",
        "power(sum(x.pay), 2)",
        "maximise concave",
    ),
    "a reversed constraint": (
        lambda: bd.solve(_constrained(cp.square(cp.sum(X.cost)) >= 1), MDP),
        "'limit'",
        "power(sum(x.cost), 2)",
        "convex <= concave",
    ),
    "no embedding": (lambda: bd.Problem(cp.Minimize(cp.Variable())), "mentions an embedding", "mdp.embedding(...)"),
    "two embeddings": (
        lambda: _constrained(cp.sum(MDP.embedding(c=np.ones(3)).c) <= 1),
        "2 different embeddings",
        "make one",
    ),
    "whole numbers": (
        lambda: bd.solve(bd.Problem(cp.Maximize(cp.sum(X.pay) + cp.Variable(boolean=True))), MDP),
        "objective is declared boolean",
        "drop boolean=True",
    ),
    "another model": (
        lambda: bd.solve(PROBLEM, bd.TabularMDP(np.full((2, 1, 2), 0.5), 0, horizon=4)),
        "another embedding",
        "(3, 2)",
        "make it with this model",
    ),
    "no groups": (lambda: bd.problems.fair(MDP, {}), "at least one group", '{"north"'),
    "half a limit": (
        lambda: bd.problems.fair(MDP, {"a": PAY}, limits={"cap": 3}),
        "limit 'cap'",
        "got int",
        "(signal, bound)",
    ),
    "an expert of another model": (
        lambda: bd.problems.apprenticeship(MDP, [[(0, 7)]]),
        "episode 0, step 0",
        "action 7",
        "0 to 1",
    ),
}
SOLVING = {
    "no problem": (lambda: bd.solve(None, MDP), "got NoneType", "bd.Problem(...)"),
    "no model": (lambda: bd.solve(PROBLEM, None), "got NoneType", "bd.learn"),
    "a negative gap": (lambda: bd.solve(PROBLEM, MDP, gap=-1), "gap", "-1", "positive"),
    "no time": (lambda: bd.solve(PROBLEM, MDP, time_limit=0), "time limit", "0", "positive"),
    "no plans": (lambda: bd.solve(PROBLEM, MDP, max_plans=0), "plans", "0", "at least 1"),
    "a player by name": (lambda: bd.solve(PROBLEM, MDP, dual="paper"), "'paper'", "bd.dual"),
    "no new value": (lambda: bd.solve(PROBLEM, MDP).resolve(), "at least one parameter", "resolve(budget=0.2)"),
    "an unknown parameter": (
        lambda: bd.solve(PROBLEM, MDP).resolve(budget=1),
        "'budget' cannot be changed",
        "cp.Parameter(name='budget'",
    ),
    "a misspelt constraint": (lambda: bd.price(PROBLEM, MDP, "cots"), "'cots'", "did you mean 'cost'"),
    "no points": (lambda: bd.price(PROBLEM, MDP, "cost", points=0), "points", "0", "at least 1"),
    "limits that are none": (lambda: bd.price(PROBLEM, MDP, "cost", limits=[np.nan]), "limits", "nan", "increasing"),
    "a state beyond": (lambda: bd.solve(PROBLEM, MDP).policy.reset(0).act(9), "observation 9", "0 to 2"),
    "a state without a name": (lambda: bd.solve(PROBLEM, MDP).policy.reset(0).act("x"), "'x'", "give its number"),
}
LEARNING = {
    "no episodes": (lambda: _learn(episodes=0), "episodes", "0", "at least 1"),
    "certainty": (lambda: _learn(delta=0), "delta", "0", "0.05 for instance"),
    "a model by name": (lambda: _learn(model="tabular"), "got str", "bd.models.Tabular()"),
    "an explorer by name": (lambda: _learn(explorer="greedy"), "'greedy'", "bd.explorers"),
    "a negative seed": (lambda: _learn(seed=-1), "seed", "-1", "from 0"),
    "a goal that nobody reaches": (lambda: bd.stop_when(gap=-1), "-1", "gap > 0"),
    "a risk of 2": (lambda: bd.bounds.upper(np.array([0.5]), 0.0, 1.0, 2.0), "delta", "2.0", "between 0 and 1"),
    "an environment that is not there": (lambda: _observe("NoSuchEnv-v0"), "NoSuchEnv-v0", "NameNotFound"),
    "another horizon": (lambda: _observe(_Env(), horizon=5), "horizon is 4", "is 5", "with the environment's horizon"),
    "an observation beyond": (
        lambda: _observe(_Env((7, 0.0, False, False, {}))),
        "7 at step 1 of 4, episode 1",
        "0 to 2",
    ),
    "half an answer": (lambda: _observe(_Env((1,))), "step 1 of 4, episode 1", "1 values", "must return (observation"),
    "vectors": (
        lambda: _observe(_Env(space=gym.spaces.Box(-1, 1, (2,)))),
        "Box(-1.0, 1.0, (2,), float32)",
        "bd.models.KNR",
        "states=",
    ),
    "a signal beyond its bounds": (
        lambda: _observe(_Env(), lambda t: 2.0),
        "'pay' gave 2",
        "[0, 1]",
        "observed(function",
    ),
}
FILES = {
    "no file": (lambda: bd.load("nowhere.bidual"), "nowhere.bidual is not a file", "solution.save"),
    "another file": (lambda: bd.load(__file__), "not a readable bidual file", "save it again"),
    "no runs": (lambda: bd.runs.read("nowhere"), "no runs in nowhere", "--run nowhere/NAME"),
    "no run to finish": (lambda: bd.finish(PROBLEM, MDP, "nowhere"), "not the folder of a run", "bidual runs"),
    "a misspelt task": (lambda: bd.tasks.find("rovr"), "'rovr'", "did you mean 'rover'"),
    "a misspelt setting": (lambda: bd.tasks.find("rover").with_settings({"bugdet": 1}), "'bugdet'", "'budget'"),
}
CASES = MODELS | SIGNALS | PROBLEMS | SOLVING | LEARNING | FILES


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named_with_its_place_and_remedy(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, *parts = CASES[case]
    with pytest.raises(bd.BidualError) as refused:
        call()
    missing = [part for part in parts if part not in str(refused.value)]
    assert not missing, str(refused.value)
    assert not list(tmp_path.iterdir())  # nothing was written


def test_there_are_sixty_of_them():
    assert len(CASES) == sum(map(len, (MODELS, SIGNALS, PROBLEMS, SOLVING, LEARNING, FILES))) >= 60
