"""The problem's door, and the rows that come out of it."""

import re

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
        (
            lambda x: bd.Problem(cp.Maximize(cp.sum_squares(x))),
            "the objective is not convex(.|\n)*is convex where conc",
        ),
        (lambda x: bd.Problem(cp.Minimize(0), {"n": cp.norm(x) >= 1}), "constraint 'n' is not convex"),
        (
            lambda x: bd.Problem(cp.Minimize(cp.sum(x)), {"n": cp.norm(x) <= 1}),
            "constraint 'n' cannot be used: it needs semi(.|\n)*cp.norm.x, .fro",
        ),
        (lambda x: bd.Problem(cp.Minimize(cp.Constant(1))), "mentions an embedding"),
        (
            lambda x: bd.Problem(cp.Minimize(cp.norm(x - cp.Variable(integer=True, name="n")))),
            "variable 'n' in the objective is declared integer",
        ),
        (
            lambda x: bd.Problem(cp.Minimize(cp.sum(x)), {"on": x.cost <= cp.Variable(boolean=True, name="n")}),
            "variable 'n' in constraint 'on' is declared boolean",
        ),
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


ONCE = cp.Parameter(name="weight", value=1.0)


@pytest.mark.parametrize(
    ("objective", "constraints", "words"),
    [
        (
            lambda x: cp.Minimize(cp.sum(cp.square(x.reward) - cp.square(x.cost))),
            lambda x: {},
            "the objective is not convex .* break at power(x.reward, 2) + -(power(x.cost, 2)), which puts the convex "
            "power(x.reward, 2) and the concave -(power(x.cost, 2)) together",
        ),
        (
            lambda x: cp.Minimize(cp.sum(x)),
            lambda x: {"fine": x.cost <= 1, "near": 2 + cp.sqrt(cp.sum_squares(x.cost)) <= 1},
            "constraint 'near' .* break at power(quad_over_lin(x.cost, 1.0), 0.5), whose argument "
            "quad_over_lin(x.cost, 1.0) is convex and would have to be concave",
        ),
        (
            lambda x: cp.Maximize(cp.sum(x.reward) + cp.norm(x.cost)),
            lambda x: {},
            "the objective .* cp.Maximize needs a concave expression, but pnorm(x.cost, 2) is convex",
        ),
        (
            lambda x: cp.Minimize(cp.sum(x)),
            lambda x: {"far": cp.norm(x.cost) - 3 >= x.reward[0]},
            "constraint 'far' .* but pnorm(x.cost, 2) is convex where concave is needed",
        ),
        (
            lambda x: cp.Minimize(cp.sum(x)),
            lambda x: {"round": cp.norm(x.cost) == 1},
            "constraint 'round' .* both sides of == must be affine, but pnorm(x.cost, 2) is convex",
        ),
        (
            lambda x: cp.Minimize(cp.sum(x.reward) * cp.sum(x.cost)),
            lambda x: {},
            "the objective .* sum(x.reward) by sum(x.cost): one of them must be a constant",
        ),
        (
            lambda x: cp.Minimize(ONCE * cp.norm(x.cost)),
            lambda x: {},
            "pnorm(x.cost, 2) is multiplied by weight of unknown sign: declare cp.Parameter(nonneg=True)",
        ),
        (
            lambda x: cp.Minimize(cp.ceil(x.cost[0])),
            lambda x: {},
            "break at ceil(x.cost[0]), which is neither convex nor concave",
        ),
        (
            lambda x: cp.Minimize(cp.sum(x)),
            lambda x: {"signed": cp.square(cp.Variable(nonneg=True, name="z") + cp.norm(x.cost)) <= 8},
            "constraint 'signed' is convex only because of the declared sign of 'z'",
        ),
    ],
)
def test_the_term_that_breaks_convexity_is_named(x, objective, constraints, words):
    with pytest.raises(bd.ProblemError, match=re.escape(words).replace(re.escape(" .* "), " .* ")) as refused:
        bd.Problem(objective(x), constraints(x))
    assert "embedding" not in str(refused.value)


HOLE, FLAWED = np.array([0.0, np.nan, 1.0]), cp.Parameter(3, name="target", value=np.array([0.0, np.inf, 1.0]))


@pytest.mark.parametrize(
    ("objective", "constraints", "words"),
    [
        (lambda x: cp.norm(x.cost - HOLE), lambda x: {}, "the objective contains NaN .* is nan at [1];"),
        (lambda x: HOLE @ x.cost, lambda x: {}, "the objective contains NaN .* is nan at [1];"),
        (lambda x: cp.norm(x.cost - FLAWED), lambda x: {}, "the objective .* parameter 'target' is inf at [1];"),
        (
            lambda x: cp.norm(x.cost),
            lambda x: {"near": cp.norm(x.cost - FLAWED) <= 1},
            "constraint 'near' .* parameter 'target' is inf at [1];",
        ),
        (lambda x: cp.sum(x), lambda x: {"near": FLAWED @ x.cost <= 1}, "constraint 'near' .* 'target' is inf at [1];"),
        (
            lambda x: cp.norm(x.cost),
            lambda x: {"all": np.nan * cp.sum(x.cost) <= 1},
            "constraint 'all' contains NaN or infinity: a number in it is nan;",
        ),
        (lambda x: np.inf * cp.norm(x.cost), lambda x: {}, "the objective contains NaN or infinity: a number in it"),
        (lambda x: cp.sum(cp.huber(x.cost, np.inf)), lambda x: {}, "the objective contains NaN or infinity: a number"),
        (
            lambda x: cp.norm(x.cost),
            lambda x: {"ratio": cp.sum(x.cost) * (cp.Constant(1) / 0) + x.cost[0] <= 1},
            "constraint 'ratio' contains NaN or infinity: 1.0 / 0.0 is inf;",
        ),
    ],
)
def test_numbers_that_are_not_finite_are_named_and_placed(x, objective, constraints, words):
    with pytest.raises(bd.ProblemError, match=re.escape(words).replace(re.escape(" .* "), " .* ")):
        bd.Problem(cp.Minimize(objective(x)), constraints(x))


def test_parameters_that_are_not_finite_are_named_when_solving(x):
    target = cp.Parameter(3, name="target", value=np.zeros(3))
    problem = bd.Problem(cp.Minimize(cp.norm(x.cost - target)), {"near": cp.sum(x.cost) <= 3})
    target.value = np.array([0.0, 0.0, -np.inf])
    with pytest.raises(bd.ProblemError, match=r"the objective .* parameter 'target' is -inf at \[2\]"):
        bd.solve(problem, MDP)


def test_variables_of_one_name_are_refused_where_their_bounds_need_it(x):
    z, w = cp.Variable(nonneg=True, name="z"), cp.Variable(nonneg=True, name="z")
    with pytest.raises(
        bd.ProblemError, match="two variables with a declared sign or bound are called 'z', one of them"
    ):
        bd.Problem(cp.Minimize(cp.norm(x.cost - z)), {"near": cp.norm(x.reward - w) <= 3})
    with pytest.raises(bd.ProblemError, match=r"name 'z >= 0' is needed .* rename the constraint"):
        bd.Problem(cp.Minimize(cp.norm(x.cost - z)), {"z >= 0": cp.norm(x.reward) <= 3})


@pytest.mark.parametrize("objective", [cp.sum, cp.sum_squares])
@pytest.mark.parametrize(
    ("constraints", "guilty"),
    [
        (lambda x: {"one": cp.sum(x.reward) == 1, "two": cp.sum(x.reward) == 2, "fine": x <= 9}, {"one", "two"}),
        (lambda x: {"never": 0 * cp.sum(x.reward) == 1, "fine": x <= 9}, {"never"}),
        (lambda x: {"never": cp.Constant(3) <= cp.Constant(2), "fine": x <= 9}, {"never"}),
    ],
)
def test_contradictions_are_infeasible_and_named(x, objective, constraints, guilty):
    solution = bd.solve(bd.Problem(cp.Minimize(objective(x)), constraints(x)), MDP)
    assert solution.status == "infeasible"
    assert set(solution.conflict.least) == guilty


def test_a_contradiction_is_named_beside_a_variable_of_the_objective_alone(x):
    target = cp.Variable(name="target")
    limits = {"one": cp.sum(x.reward) == 1, "two": cp.sum(x.reward) == 2}
    solution = bd.solve(bd.Problem(cp.Minimize(cp.norm(x.cost - target)), limits), MDP)
    assert solution.status == "infeasible"
    assert set(solution.conflict.least) == {"one", "two"}


def test_cvxpys_advice_about_geometric_means_stays_inside(x):
    """Exact for equal weights, but made of many cones, which CVXPY warns about; a warning is an error here."""
    visits = bd.TabularMDP(np.full((40, 1, 40), 1 / 40), 0, 3).embedding(visits=True, total=True).visits
    bd.Problem(cp.Maximize(cp.geo_mean(visits)))
