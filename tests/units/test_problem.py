"""The problem's door, and the rows that come out of it."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd

MDP = bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 3)


@pytest.fixture
def x():
    return MDP.embedding(reward=np.eye(2), cost=np.array([0.0, 1.0]))


def test_rows_are_only_what_the_problem_uses(x):
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward) + 3), {"a": cp.sum(x.cost) <= 0.3, "b": x.cost[1] >= 0.1})
    program = problem.program()
    np.testing.assert_array_equal(program.objective, [[-1, 0]] * 3)
    assert program.offset == -3
    np.testing.assert_array_equal(program.rows, [[[0, 1]] * 3, [[0, 0], [0, -1], [0, 0]]])
    np.testing.assert_allclose(program.limits, [0.3, -0.1])
    assert not program.equality.any()


def test_rows_keep_the_users_order_whatever_cvxpy_does(x):
    """CVXPY sorts equalities before inequalities."""
    limits = {"first": cp.sum(x.cost) <= 2, "second": cp.sum(x.reward) == 1, "third": x.cost <= 0.5}
    program = bd.Problem(cp.Minimize(0), limits).program()
    np.testing.assert_array_equal(program.equality, [False, True, False, False, False])
    np.testing.assert_allclose(program.limits, [2, 1, 0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("write", "sense", "sign"),
    [
        (lambda e: e <= 2, "<=", 1),
        (lambda e: e >= 2, ">=", -1),
        (lambda e: cp.Constant(2) >= e, "<=", 1),
        (lambda e: cp.Constant(2) <= e, ">=", -1),
        (lambda e: e == 2, "==", 1),
        (lambda e: cp.Constant(2) == e, "==", -1),
        (lambda e: e - 2 <= 0, "<=", 1),
    ],
)
def test_constraints_are_read_as_they_were_written(x, write, sense, sign):
    (limit,) = bd.Problem(cp.Minimize(cp.sum(x.reward)), {"c": write(cp.sum(x.cost))}).limits
    assert (limit.sense, limit.sign) == (sense, sign)
    assert limit.line().bounds.tolist() in ([0.0], [2.0])


def test_totals_weigh_every_step():
    x = MDP.embedding(total=True, reward=np.eye(2), cost=np.array([0.0, 1.0]))
    program = bd.Problem(cp.Minimize(x.reward), [x.cost <= 1]).program()
    np.testing.assert_array_equal(program.rows, [[[0, 1]] * 3])


def test_names_come_from_dict_label_or_position(x):
    labelled = (cp.sum(x.cost) <= 1).set_label("mine")
    problem = bd.Problem(cp.Minimize(cp.sum(x.reward)), [x.cost[0] <= 1, labelled])
    assert [limit.name for limit in problem.limits] == ["c0", "mine"]


def test_parameters_are_read_when_solving(x):
    budget = cp.Parameter(name="budget")
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"b": cp.sum(x.cost) <= budget})
    with pytest.raises(bd.ProblemError, match="'budget' has no value"):
        problem.program()
    for value in (0.5, 1.5):
        budget.value = value
        assert problem.program().limits == [value]
    budget.value = np.inf
    with pytest.raises(bd.ProblemError, match="limit inf"):
        problem.program()


@pytest.mark.parametrize("limit", [np.nan, np.inf, -np.inf])
def test_limits_must_be_finite(x, limit):
    with pytest.raises(bd.ProblemError, match="constraint 'pits' has the limit"):
        bd.Problem(cp.Maximize(cp.sum(x.reward)), {"pits": cp.sum(x.cost) <= limit})


def test_zero_is_a_limit(x):
    bd.Problem(cp.Maximize(cp.sum(x.reward)), {"pits": cp.sum(x.cost) <= 0})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: bd.Problem(cp.Maximize(cp.sum_squares(x))), "not convex(.|\n)*maximize a function that is convex"),
        (lambda x: bd.Problem(cp.Minimize(0), {"n": cp.norm(x) >= 1}), "constraint 'n' is not convex"),
        (lambda x: bd.Problem(cp.Minimize(cp.Constant(1))), "mentions an embedding"),
        (lambda x: bd.Problem(cp.Minimize(cp.norm(x - cp.Variable(integer=True)))), "not continuous and real"),
        (lambda x: bd.Problem(cp.Minimize(cp.norm(x[0, 0] - cp.Variable((2, 2), PSD=True)))), "declared PSD"),
        (lambda x: bd.Problem(cp.Minimize(cp.sum(x) + cp.sum(MDP.embedding(r=np.eye(2))))), "2 different embeddings"),
        (lambda x: bd.Problem(cp.Minimize(cp.sum(x)), {"t": True}), "plain truth value True"),
        (lambda x: bd.Problem(cp.Minimize(cp.sum(x)), [cp.SOC(x[0, 0], x[0])]), "must be written with <=, >= or =="),
        (lambda x: bd.Problem(cp.Minimize(cp.sum(x) * np.nan)), "the objective contains NaN"),
        (lambda x: bd.Problem(cp.Minimize(0), {"n": np.nan * cp.sum(x) <= 1}), "constraint 'n' contains NaN"),
        (lambda x: bd.Problem(cp.Minimize(0), {"n": cp.sum(x) + np.inf <= 1}), "constraint 'n' contains NaN"),
        (lambda x: bd.Problem(cp.Minimize(cp.sum(x)), {"n": x[:0] <= 1}), "constraint 'n' has no entries"),
        (lambda x: bd.Problem(cp.Minimize(cp.sum(x)), {"a\n": cp.sum(x) <= 1}), "control characters"),
        (
            lambda x: bd.Problem(
                cp.Minimize(cp.sum(x)), [x[0] <= cp.Parameter(name="b"), x[1] <= cp.Parameter(name="b")]
            ),
            "two parameters are called 'b'",
        ),
        (
            lambda x: bd.Problem(cp.Minimize(cp.sum(x)), [x[0] <= 1, (x[1] <= 1).set_label("c0")]),
            "two constraints are called 'c0'",
        ),
    ],
)
def test_bad_problems_are_refused(x, build, message):
    with pytest.raises(bd.ProblemError, match=message):
        build(x)


def test_one_constraint_under_two_names_is_refused(x):
    same = cp.sum(x.cost) <= 1
    with pytest.raises(bd.ProblemError, match="given twice"):
        bd.Problem(cp.Minimize(cp.sum(x)), {"a": same, "b": same})


def test_a_program_keeps_the_values_that_it_was_made_with(x):
    bend = cp.Parameter(nonneg=True, value=0.5, name="bend")
    problem = bd.Problem(cp.Minimize(cp.huber(cp.sum(x.reward), bend)))
    functions = problem.program().functions
    bend.value = 2.0
    y = np.ones(1)
    assert functions.values(y, np.zeros(0))[0] == pytest.approx(2 * 0.5 * 1 - 0.5**2)
    assert problem.program().functions.values(y, np.zeros(0))[0] == pytest.approx(1)


def test_parameters_that_cvxpy_cannot_vary_are_refused(x):
    p, q = cp.Parameter(name="p", value=1.0), cp.Parameter(name="q", value=1.0)
    with pytest.raises(bd.ProblemError, match="not DPP"):
        bd.Problem(cp.Minimize(cp.sum(x)), [cp.sum(x.cost) <= p * q])


def test_a_problem_over_another_embedding_is_refused(x):
    problem = bd.Problem(cp.Maximize(cp.sum(x.reward)))
    with pytest.raises(bd.ProblemError, match="another embedding: its horizon is 3, the model's is 4"):
        bd.solve(problem, bd.TabularMDP(np.full((2, 2, 2), 0.5), 0, 4))
    with pytest.raises(bd.ProblemError, match="another embedding: signal 'reward' has shape"):
        bd.solve(problem, bd.TabularMDP(np.full((5, 2, 5), 0.2), 0, 3))


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"gap": 0.0}, "gap must be"),
        ({"gap": float("nan")}, "gap must be"),
        ({"time_limit": 0.0}, "time limit must be"),
        ({"max_plans": 0}, "number of plans"),
    ],
)
def test_bad_budgets_are_refused(x, budget, message):
    with pytest.raises(bd.ProblemError, match=message):
        bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward))), MDP, **budget)


@pytest.mark.parametrize("limit", [0.5, [0.9, 0.8], [[0.9, 0.8]], [[0.1], [0.2], [0.3]]])
def test_limits_broadcast_as_in_cvxpy(x, limit):
    (line,) = bd.Problem(cp.Maximize(cp.sum(x.reward)), {"all": x <= np.array(limit)}).lines()
    np.testing.assert_array_equal(line.bounds, np.broadcast_to(limit, (3, 2)).ravel(order="F"))
