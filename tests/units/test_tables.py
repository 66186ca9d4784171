"""Results as tables: frames of pandas, and HTML for notebooks."""

import sys

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from tests.learning import SHAPE

H, S, A = SHAPE


def _model():
    return bd.TabularMDP(np.full((S, A, S), 1 / S), 0, H)


def _problem(mdp):
    x = mdp.embedding(reward=np.array([[0.0, 1.0], [0.5, 2.0]] * 2), damage=np.array([[0.0, 0.3], [0.1, 1.0]] * 2))
    return bd.Problem(cp.Maximize(cp.sum(x.reward)), {"a<b": cp.sum(x.damage) <= 0.5})


def test_frames_hold_what_the_arrays_do():
    mdp = _model()
    problem = _problem(mdp)
    solution, curve = bd.solve(problem, mdp), bd.price(problem, mdp, limits=[-1.0, 0.5])
    policy, visits = solution.policy.to_frame(), solution.to_frame()
    assert list(policy.columns) == ["step", "state", "action", "probability"]
    table = np.zeros((H, S, A))
    table[policy.step, policy.state, policy.action] = policy.probability
    np.testing.assert_array_equal(table, solution.policy.table)
    again = np.zeros((H, S))
    again[visits.step, visits.state] = visits.probability
    np.testing.assert_array_equal(again, solution.visits)
    member = solution.mixture.members[0]
    assert member.to_frame().probability.tolist() == [1.0] * (H * S)
    history = solution.to_frame("history")
    assert len(history) == len(solution.history)
    assert history.plans.tolist() == [one.plans for one in solution.history]
    frame = curve.to_frame()
    assert frame.status.tolist() == ["infeasible", "optimal"]
    np.testing.assert_array_equal(frame.lower, curve.lower)
    with pytest.raises(bd.ProblemError, match="'visits' and 'history'; got 'policy'"):
        solution.to_frame("policy")


def test_learned_results_have_frames():
    mdp = _model()
    learned = bd.learn(_problem(mdp), mdp, episodes=32, evaluation=8)
    history = learned.to_frame("history")
    assert history.episodes.tolist() == [16, 32]
    assert "candidates" not in history
    assert learned.to_frame().probability.sum() == pytest.approx(H)


def test_without_pandas_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    policy = bd.policies.MarkovPolicy(np.full((1, 2, 2), 0.5))
    with pytest.raises(bd.BidualError, match="pip install pandas"):
        policy.to_frame()


def test_html_for_notebooks():
    mdp = _model()
    problem = _problem(mdp)
    solution = bd.solve(problem, mdp)
    evaluation = bd.evaluate(problem, mdp, solution.policy, episodes=8)
    curve = bd.price(problem, mdp, points=2)
    for thing in (problem, solution, evaluation, curve):
        text = thing._repr_html_()
        assert text.startswith("<table>")
        assert "a&lt;b" in text
        assert "a<b" not in text
    assert evaluation._repr_html_().count("<tr>") == 2
    assert "<td style='text-align:left'>infeasible" not in curve._repr_html_()
    for policy in (solution.policy, solution.mixture.members[0]):
        text = policy._repr_html_()
        assert text.count("<tr>") == 1 + H
        assert "state 3" in text
    assert "weight" in solution.mixture._repr_html_()


def test_html_of_a_large_policy_shows_its_beginning():
    text = bd.policies.MarkovPolicy(np.full((50, 900, 2), 0.5))._repr_html_()
    assert len(text) < 10_000
    assert "0 (0.50)" in text
    assert "likeliest action, at first" in text
