"""Results by name: values of the user's own CVXPY expressions after a solve, and numbers of a result by their names."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.problem.modelling import assign_values
from tests.learning import SHAPE

H, S, A = SHAPE
REWARD, DAMAGE = np.array([[0.0, 1.0], [0.5, 2.0]] * 2), np.array([[0.0, 0.3], [0.1, 1.0]] * 2)


def _model():
    return bd.TabularMDP(np.full((S, A, S), 1 / S), 0, H)


def _problem(mdp, limit=0.5, **settings):
    x = mdp.embedding(reward=REWARD, damage=DAMAGE, **settings)
    return bd.Problem(cp.Maximize(cp.sum(x.reward)), {"budget": cp.sum(x.damage) <= limit})


def test_expressions_have_values_after_a_solve():
    mdp = _model()
    problem = _problem(mdp)
    x = problem.embedding
    assert x.damage.value is None
    solution = bd.solve(problem, mdp)
    np.testing.assert_array_equal(x.value, solution.embedding)
    assert x.damage.value.shape == (3,)
    assert problem.objective.value == pytest.approx(solution.value, abs=1e-12)
    assert cp.sum(x.damage).value == pytest.approx(solution.constraint("budget").value, abs=1e-12)
    assert problem.constraints["budget"].violation() <= 1e-12
    assert (x.reward[0] - x.damage[0]).value == pytest.approx(solution.embedding[0] @ [1, -1])


def test_auxiliary_variables_have_values_within_their_bounds():
    mdp = _model()
    x = mdp.embedding(reward=REWARD, damage=DAMAGE, total=True)
    room, extra = cp.Variable(nonneg=True, name="room"), cp.Variable(2, bounds=[0, 0.25], name="extra")
    problem = bd.Problem(
        cp.Minimize(cp.square(x.reward - 3) + room + cp.sum(extra)), {"d": x.damage <= extra[0] + room}
    )
    solution = bd.solve(problem, mdp, gap=1e-4)
    assert problem.objective.value == pytest.approx(solution.value, abs=1e-6)
    assert room.value >= 0
    assert extra.value.min() >= 0
    assert extra.value.max() <= 0.25
    assert x.damage.value <= extra.value[0] + room.value + 1e-6
    assign_values(problem, solution.embedding, np.zeros(0))  # as where no search found them
    assert str(room.value) == "nan"
    assert str(extra.value) == "[nan nan]"


def test_the_last_result_wins():
    mdp, budget = _model(), cp.Parameter(name="limit", value=0.5)
    problem = _problem(mdp, budget)
    x = problem.embedding
    solution = bd.solve(problem, mdp)
    lower = solution.resolve(limit=0.2)
    assert cp.sum(x.damage).value == pytest.approx(0.2, abs=1e-9)
    np.testing.assert_array_equal(x.value, lower.embedding)
    bd.price(problem, mdp, points=3)
    bd.slater(problem, mdp)
    np.testing.assert_array_equal(x.value, lower.embedding)
    with pytest.raises(bd.BidualError):
        bd.solve(problem, mdp, gap=-1.0)
    np.testing.assert_array_equal(x.value, lower.embedding)
    bd.solve(problem, mdp)
    np.testing.assert_array_equal(x.value, solution.embedding)


def test_expressions_have_values_after_learning():
    mdp = _model()
    problem = _problem(mdp)
    x, seen = problem.embedding, []
    learned = bd.learn(problem, mdp, episodes=60, evaluation=20, progress=lambda _: seen.append(x.value))
    assert seen
    assert all(value is None for value in seen)
    np.testing.assert_array_equal(x.value, learned.embedding)
    assert learned["damage"] == pytest.approx(float(cp.sum(x.damage).value))
    assert learned["budget"] == learned.constraint("budget").value
    learned.regret(mdp)
    np.testing.assert_array_equal(x.value, learned.embedding)
    bd.solve(problem, mdp)
    learned.certify(5)
    np.testing.assert_array_equal(x.value, learned.embedding)


@pytest.mark.parametrize("total", [False, True])
def test_numbers_by_name(total):
    mdp = _model()
    x = mdp.embedding(reward=REWARD, damage=DAMAGE, visits=True, total=total)
    # A constraint comes before a signal of that name.
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward)), {"damage": 2 * cp.sum(x.damage) <= 1}), mdp)
    assert solution["damage"] == solution.constraint("damage").value == pytest.approx(1, abs=1e-9)
    assert solution.totals["damage"] == pytest.approx(0.5, abs=1e-9)
    assert isinstance(solution["reward"], float)
    assert solution["reward"] == pytest.approx(solution.value, abs=1e-9)
    with pytest.raises(KeyError) as caught:
        solution["damages"]
    assert "damages" in str(caught.value)
    for name in ("'damage'", "'reward'"):
        assert name in str(caught.value)
