"""Ready problems over environments and over embeddings: the same numbers as over the model."""

import cvxpy as cp
import gymnasium as gym
import numpy as np
import pytest

import bidual as bd

MDP = bd.TabularMDP(np.random.default_rng(0).dirichlet(np.ones(3), (3, 2)), 0, horizon=4)
R, C = np.array([0.0, 0.2, 1.0]), np.array([0.0, 1.0, 0.6])
GOAL = bd.features.observed(lambda step: step.reward, at_end=True)


@pytest.mark.parametrize("total", [False, True])
def test_over_an_embedding_they_are_those_over_the_model(total):
    def x():
        return MDP.embedding(total=total, visits=True, reward=R, cost=C)

    limits, over_model = {"wear": ("cost", 1.2)}, {"wear": (C, 1.2)}
    pairs = [
        (bd.problems.constrained(x(), "reward", limits), bd.problems.constrained(MDP, R, over_model)),
        (
            bd.problems.multi_objective(x(), lambda y: cp.norm(y - 3), lambda y: y[1] - y[0], b="cost", a="reward"),
            bd.problems.multi_objective(MDP, lambda y: cp.norm(y - 3), lambda y: y[1] - y[0], b=C, a=R),
        ),
        (
            bd.problems.fair(x(), {"one": "cost", "two": "reward"}, limits=limits),
            bd.problems.fair(MDP, {"one": C, "two": R}, limits=over_model),
        ),
        (
            bd.problems.feasibility(x(), bd.problems.ball(3, 1), r="reward", c="cost"),
            bd.problems.feasibility(MDP, bd.problems.ball(3, 1), r=R, c=C),
        ),
        (bd.problems.apprenticeship(x(), [2.0, 1.0, 1.0]), bd.problems.apprenticeship(MDP, [2.0, 1.0, 1.0])),
        (bd.problems.max_entropy(x()), bd.problems.max_entropy(MDP)),
    ]
    for one, other in pairs:
        # Two optima, each within a gap of 1e-4.
        assert bd.solve(one, MDP, gap=1e-4).value == pytest.approx(bd.solve(other, MDP, gap=1e-4).value, abs=2e-4)
    if not total:
        stepwise = bd.problems.apprenticeship(x(), np.ones((4, 1)), by_step=True, r="reward")
        assert bd.solve(stepwise, MDP, gap=1e-3).value > 0


def test_over_an_environment_they_are_learned():
    env = bd.envs.gymnasium_environment("FrozenLake-v1", 8, options={"is_slippery": False})
    problem = bd.problems.constrained(env, GOAL, {"steps": (np.ones(17), 8.0)})
    learned = bd.learn(problem, env, episodes=4, evaluation=2)
    assert learned["steps"] <= 8
    visits = bd.problems.max_entropy(env).embedding.visits
    assert visits.shape == (8, 17)
    assert bd.problems.constrained(bd.envs.Simulator(MDP), R).program().objective.shape == (4, 1)


def test_over_vectors_signals_are_functions_in_jax():
    env = bd.envs.control_environment(gym.make("Pendulum-v1"), 5)
    effort = bd.features.signal(lambda obs, control, then: control @ control, 0.0, 4.0)
    upright = bd.features.signal(lambda obs, control, then: then[0], -1.0, 1.0)
    problem = bd.problems.constrained(env, upright, {"effort": (effort, 3.0)})
    assert [part.name for part in problem.embedding.features.parts] == ["objective", "effort"]
    with pytest.raises(bd.ProblemError, match="shows vectors: give signals"):
        bd.problems.max_entropy(env)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: bd.problems.constrained(x, R), r"name of one of its parts, reward; got array"),
        (lambda x: bd.problems.constrained(x, "rewards"), r"name of one of its parts, reward; got 'rewards'"),
        (lambda x: bd.problems.max_entropy(x), "visits=True adds them"),
        (lambda x: bd.problems.apprenticeship(x, [[(0, 1)]], r="reward"), "give the expert's embedding"),
        (
            lambda x: bd.problems.apprenticeship(MDP.embedding(total=True, r=R), [1.0], by_step=True, r="r"),
            "summed over time",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_remedy(call, message):
    with pytest.raises(bd.ProblemError, match=message):
        call(MDP.embedding(reward=R))
