"""Results as tables: frames of pandas, and HTML for notebooks."""

import sys

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base.names import read_names
from bidual.world.policies import (
    AffineFeedback,
    ControlPolicy,
    DecodedPolicy,
    Decoder,
    MarkovPolicy,
    Mixture,
    write_table,
)
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


def test_every_kind_of_policy_has_a_frame():
    mdp = _model().with_names([f"s{s}" for s in range(S)], [f"a{a}" for a in range(A)])
    solution = bd.solve(_problem(mdp), mdp)
    mixture = solution.mixture.to_frame()
    assert list(mixture.columns) == ["member", "weight", "step", "state", "action", "probability"]
    assert len(mixture) == H * S * len(solution.mixture.members)
    assert set(mixture.action) <= {"a0", "a1"}
    shares = mixture[(mixture.step == 0) & (mixture.state == "s0")].groupby("action").weight.sum()
    first = solution.policy.to_frame().query("step == 0 and state == 's0'").set_index("action").probability
    np.testing.assert_allclose(shares.sort_index(), first.sort_index(), rtol=1e-12)
    decoded = DecodedPolicy(bd.policies.MarkovPolicy(np.full((2, 3, 2), 0.5)), Decoder((None,) * 3, 2)).to_frame()
    assert list(decoded.columns) == ["step", "latent", "action", "probability"]


def test_affine_laws_have_a_frame_and_others_say_why_not():
    rng = np.random.default_rng(0)
    law = bd.policies.AffineFeedback(*(rng.standard_normal(shape) for shape in ((3, 2), (3, 4), (3, 2, 4))))
    policy = bd.policies.ControlPolicy(law, np.full(2, -9.0), np.full(2, 9.0))
    frame, obs, actor = policy.to_frame(), rng.standard_normal(4), policy.reset(0)
    for h in range(3):
        rows = frame[frame.step == h]
        controls = rows.nominal + sum(rows[f"gain_{i}"] * (obs[i] - rows[f"at_{i}"]) for i in range(4))
        np.testing.assert_allclose(controls, actor.act(obs), rtol=1e-12)
    assert len(bd.policies.Mixture(np.full(2, 0.5), (policy, policy)).to_frame()) == 12
    random = bd.policies.RandomControls(3, 4, np.zeros(2), np.ones(2))
    with pytest.raises(bd.PolicyError, match=r"RandomControls .* is no table: .*Feedback"):
        bd.policies.ControlPolicy(random, np.zeros(2), np.ones(2)).to_frame()


def test_an_evaluation_has_a_frame():
    mdp = _model()
    problem = _problem(mdp)
    evaluation = bd.evaluate(problem, mdp, bd.solve(problem, mdp).policy, episodes=8)
    frame = evaluation.to_frame()
    assert frame.name.tolist() == ["objective", "a<b"]
    assert frame.value[0] == evaluation.objective.value
    assert frame.violation_upper[1] == evaluation.constraints[0].violation_upper


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


def _share_law():
    law = AffineFeedback(np.zeros((300, 1)), np.zeros((300, 1)), np.zeros((300, 1, 1)))
    policy = ControlPolicy(law, -np.ones(1), np.ones(1))
    return Mixture(np.full(4000, 1 / 4000), (policy,) * 4000)


def _name_states(steps, states):
    names = read_names(["x" * 2000, *(str(number) for number in range(1, states))], None)
    return MarkovPolicy(np.ones((steps, states, 1)), names)


LARGE = {
    "npz of a law that is shared": (_share_law, "npz"),
    "json of a law that is shared": (_share_law, "json"),
    "npz of a long name": (lambda: _name_states(1, 1000), "npz"),
    "csv of a long name": (lambda: _name_states(1000, 1), "csv"),
}


@pytest.mark.parametrize("name", LARGE)
def test_tables_that_are_many_times_larger_than_their_policy_are_refused(tmp_path, name):
    make, form = LARGE[name]
    with pytest.raises(bd.PolicyError, match=r"would hold [0-9]{7} "):
        write_table(make(), tmp_path / "table", form)
    assert not list(tmp_path.iterdir())
