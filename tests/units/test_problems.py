"""Ready problems: what they build, and every kind of bad input. Their optima are judged in laws/."""

import json
import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.tasks import problems

S, A, H = 3, 2, 4
MDP = bd.TabularMDP(np.full((S, A, S), 1 / S), 0, H)
R = np.arange(6.0).reshape(S, A)
C = np.array([0.0, 1.0, 0.0])
DEMONSTRATIONS = [[(0, 1), (1, 0), (2, 1), (2, 1)], [(0, 0), (0, 1)]]


def _target(problem):
    """What the embedding is compared with: minus the constant of the compiled image."""
    return -problem.program().image.offset


def test_demonstrations_are_averaged_over_episodes():
    """By hand: totals of R are 1 + 2 + 5 + 5 and 0 + 1, of C 1 and 0; visits (1, 1, 2) and (2, 0, 0)."""
    np.testing.assert_allclose(_target(problems.apprenticeship(MDP, DEMONSTRATIONS, r=R, c=C)), [7.0, 0.5])
    np.testing.assert_allclose(_target(problems.apprenticeship(MDP, DEMONSTRATIONS)), [1.5, 0.5, 1.0])


def test_demonstrations_are_averaged_step_by_step():
    by_step = _target(problems.apprenticeship(MDP, DEMONSTRATIONS, by_step=True, r=R, c=C))
    np.testing.assert_allclose(by_step.reshape(H, 2), [[0.5, 0.0], [1.5, 0.5], [2.5, 0.0], [2.5, 0.0]])
    visits = _target(problems.apprenticeship(MDP, DEMONSTRATIONS, by_step=True)).reshape(H, S)
    np.testing.assert_allclose(visits, [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 0.5], [0, 0, 0.5]])


def test_signals_of_limits_are_not_compared():
    limits = {"c": (C, 2.0)}
    np.testing.assert_allclose(
        _target(problems.apprenticeship(MDP, DEMONSTRATIONS, limits=limits))[:S], [1.5, 0.5, 1.0]
    )
    np.testing.assert_allclose(_target(problems.apprenticeship(MDP, DEMONSTRATIONS, limits=limits, r=R))[:1], [7.0])


def test_demonstrations_may_be_an_array():
    episodes = np.array([[[0, 1], [1, 0]], [[0, 0], [2, 1]]])
    np.testing.assert_allclose(_target(problems.apprenticeship(MDP, episodes)), [1.0, 0.5, 0.5])


def test_signals_that_change_with_the_step_or_are_paid_on_arrival_are_demonstrated():
    by_step = np.arange(H)[:, None, None] * np.ones((1, S, A))
    arrival = np.broadcast_to(np.array([0.0, 3.0, 6.0]), (S, A, S))  # 3 on average
    target = _target(problems.apprenticeship(MDP, DEMONSTRATIONS, late=by_step, paid=arrival))
    np.testing.assert_allclose(target, [(0 + 1 + 2 + 3 + 0 + 1) / 2, 3 * 6 / 2])


def test_an_ended_demonstration_stays_in_gymnasiums_added_state():
    mdp = bd.TabularMDP.from_gymnasium("FrozenLake-v1", horizon=6, map_name="4x4", is_slippery=False)
    visits = _target(problems.apprenticeship(mdp, [[(0, 1), (4, 2)]]))
    assert visits[[0, 4, 16]].tolist() == [1, 1, 4]
    assert visits.sum() == 6
    # The same as what the model does with these actions.
    solution = bd.solve(problems.apprenticeship(mdp, [[(0, 1), (4, 2)]]), mdp)
    assert solution.value <= 1e-6


def test_an_expert_of_the_model_is_met():
    expert = bd.solve(problems.constrained(MDP, R, {"c": (C, 0.5)}), MDP)
    solution = bd.solve(problems.apprenticeship(MDP, expert.visits.sum(axis=0)), MDP)
    assert solution.value <= 1e-6
    assert bd.solve(problems.apprenticeship(MDP, expert.visits, by_step=True), MDP).value <= 1e-6


def test_parameters_are_limits_and_the_embedding_is_at_hand():
    budget = cp.Parameter(name="budget", value=0.5)
    problem = problems.constrained(MDP, R, {"c": (C, budget)})
    x = problem.embedding
    assert x.objective.shape == x.c.shape == (H,)
    assert [(line.name, line.sense, line.bounds.tolist()) for line in problem.lines()] == [("c", "<=", [0.5])]
    budget.value = 0.25
    assert problem.program().limits == [0.25]


def test_limits_are_read_as_they_were_written():
    limits = {"most": (C, 2), "least": (C, ">=", 0.1), "exact": (R, "==", 3.0), "own": lambda x: x.most[-1] <= 0.9}
    lines = problems.fair(MDP, {"r": R}, limits=limits).lines()
    assert [(line.name, line.sense) for line in lines] == [
        ("most", "<="),
        ("least", ">="),
        ("exact", "=="),
        ("own", "<="),
    ]


def test_functions_of_several_objectives_may_give_constraints():
    h2 = {"low": lambda y: y[0] >= 1, "both": lambda y: y - 5}
    problem = problems.multi_objective(MDP, lambda y: 0, h2, r=R, c=C)
    assert [(line.name, line.sense, line.bounds.size) for line in problem.lines()] == [
        ("low", ">=", 1),
        ("both", "<=", 2),
    ]
    (line,) = problems.multi_objective(MDP, cp.norm, lambda y: y[0] - 5, r=R).lines()
    assert line.name == "h2"


def test_entropy_is_over_the_states_that_can_be_reached():
    """State 2 cannot: the two others can be visited equally often."""
    P = np.zeros((3, 2, 3))
    P[:, 0, 0] = P[:, 1, 1] = 1.0
    mdp = bd.TabularMDP(P, 0, 4)
    solution = bd.solve(problems.max_entropy(mdp), mdp)
    assert solution.value == pytest.approx(np.log(2), abs=2e-6)
    np.testing.assert_allclose(solution.visits.mean(axis=0), [0.5, 0.5, 0], atol=2e-3)  # the entropy is flat there


def test_a_kernel_knows_which_states_are_near():
    """On a line 0, 1, 2 a policy that stays at 0 is nearer to a target at 1 than to one at 2."""
    mdp = bd.TabularMDP(np.eye(3)[:, None, :], 0, 4)
    kernel = problems.gaussian_kernel([0.0, 1.0, 2.0], width=1.0)
    here, near, far = (bd.solve(problems.mean_discrepancy(mdp, row, kernel), mdp).value for row in np.eye(3))
    assert here == pytest.approx(0.0, abs=1e-7)
    for value, distance in ((near, 1), (far, 2)):
        assert value == pytest.approx(np.sqrt(2 - 2 * np.exp(-(distance**2) / 2)), abs=1e-7)
    assert problems.gaussian_kernel([0.0, 0.0]).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert problems.gaussian_kernel([0.0, 3.0])[0, 1] == pytest.approx(np.exp(-0.5))  # the median distance


def test_no_function_of_the_unit_ball_tells_more_than_the_discrepancy():
    """w = K a has the norm sqrt(a' K a); 100 random ones tell less than the witness, which attains it."""
    rng = np.random.default_rng(0)
    target, kernel = rng.dirichlet(np.ones(S)), problems.gaussian_kernel(rng.normal(size=(S, 2)))
    solution = bd.solve(problems.mean_discrepancy(MDP, target, kernel), MDP)
    difference = solution.visits.sum(axis=0) / H - target
    coefficients = np.vstack([rng.normal(size=(100, S)), difference])
    norms = np.sqrt(np.einsum("ns,st,nt->n", coefficients, kernel, coefficients))
    told = (coefficients @ kernel @ difference) / norms
    assert told.max() == pytest.approx(solution.value, abs=1e-7)
    assert told.max() == told[-1]


def test_entropy_without_a_choice_is_zero():
    mdp = bd.TabularMDP(np.ones((1, 1, 1)), 0, 2)
    assert abs(bd.solve(problems.max_entropy(mdp), mdp).value) <= 1e-6


def test_an_empty_set_is_infeasible_and_named():
    problem = problems.feasibility(MDP, lambda v: [v >= 1, v <= 0], r=R)
    solution = bd.solve(problem, MDP)
    assert solution.status == "infeasible"
    assert "'set 0' and 'set 1'" in str(solution)


@pytest.mark.parametrize(
    ("convex_set", "names"),
    [
        (problems.polyhedron([[1, 1], [0, 1]], [2, 1]), ["faces"]),
        (problems.hull([[0, 0], [1, 1]]), ["hull", "shares", "share >= 0"]),
        (lambda v: v >= 0, ["set"]),
        (lambda v: [v >= 0, cp.sum(v) <= 1], ["set 0", "set 1"]),
        (lambda v: {"mine": v >= 0}, ["mine"]),
    ],
)
def test_sets_name_their_constraints(convex_set, names):
    problem = problems.feasibility(MDP, convex_set, r=R, c=C)
    assert [limit.name for limit in problem.limits] == names


@pytest.mark.parametrize(
    ("convex_set", "names"),
    [
        (problems.box(0, 1), ["lower", "upper"]),
        (problems.box(lower=[0, -np.inf]), ["lower"]),
        (problems.ball([0, 0], 1), ["ball"]),
        (problems.polyhedron([[1, 1]], [2]), ["faces"]),
    ],
)
def test_sets_are_constraints_on_a_point_too(convex_set, names):
    v = cp.Variable(2)
    assert list(convex_set(v)) == names
    assert not any(problems.feasibility(MDP, convex_set, r=R, c=C).constraints)


INSIDE = np.array([0.3, 0.4])


@pytest.mark.parametrize("distance", ["l2", "l1", "linf", "squared"])
@pytest.mark.parametrize(
    "convex_set",
    [
        problems.box([0.5, 1.0], [2.0, 1.5]),
        problems.box(lower=[0.5, -np.inf], upper=[np.inf, 0.1]),
        problems.box(upper=0.2),
        problems.box([0.0, 0.0], [1.0, 1.0]),
        problems.ball([2.0, 1.0], 0.5),
        problems.ball([2.0, 1.0], 0),
        problems.ball(INSIDE, 1),
        problems.polyhedron([[-3.0, 4.0]], [-2.0]),
        problems.polyhedron([[-3.0, 4.0]], [5.0]),
        problems.hull([[2.0, 3.0]]),
    ],
)
def test_distances_in_closed_form_are_those_of_the_nearest_point(convex_set, distance):
    """Clarabel's point of the set nearest to (.3, .4), to its own 1e-8."""
    y, v = cp.Variable(2, value=INSIDE), cp.Variable(2)
    known = convex_set.distance(y, distance)
    if known is None:
        assert isinstance(convex_set, type(problems.ball(0, 1))), "other balls have corners"
        return
    norms = {"l2": cp.norm2, "l1": cp.norm1, "linf": cp.norm_inf, "squared": cp.sum_squares}
    members = [c for c in convex_set(v).values() if not isinstance(c, bool)]
    least = cp.Problem(cp.Minimize(norms[distance](INSIDE - v)), members).solve(solver="CLARABEL")
    assert known.is_dcp()
    assert float(known.value) == pytest.approx(least, abs=1e-7)


# Wrong in value, not in type.
BAD = [
    (lambda: problems.constrained(MDP, R, {"c": (C, np.nan)}), "constraint 'c' has the limit nan"),
    (lambda: problems.constrained(MDP, R, {"c": (C, "<", 1.0)}), "sense '<'; it must be '<=', '>=' or '=='"),
    (lambda: problems.constrained(MDP, R, {"c": (C, cp.Parameter(2))}), "one number or a scalar cp.Parameter; got Par"),
    (lambda: problems.constrained(MDP, R, {"c": (C, cp.Variable())}), "one number or a scalar cp.Parameter"),
    (lambda: problems.constrained(MDP, R, {"objective": (C, 1.0)}), "a signal and a limit are both called 'objective'"),
    (lambda: problems.constrained(MDP, R, {"visits": (C, 1.0)}), "cannot be called 'visits'.*try visits_signal"),
    (lambda: problems.constrained(MDP, R, {"size": (C, 1.0)}), "cannot be called 'size'"),
    (lambda: problems.constrained(MDP, R, {"c": (np.ones(7), 1.0)}), "signal 'c' has shape"),
    (lambda: problems.constrained(MDP, R[0], {}), "signal 'objective' has shape"),
    (lambda: problems.constrained(MDP, R, {"own": lambda x: True}), "plain truth value True"),
    (lambda: problems.constrained(MDP, R, {"n": lambda x: cp.norm(x.objective) >= 1}), "'n' is not convex"),
    (lambda: problems.multi_objective(MDP, cp.norm), "needs at least one signal by name"),
    (lambda: problems.multi_objective(MDP, lambda y: y, r=R, c=C), "h1 must give one number; got shape"),
    (lambda: problems.multi_objective(MDP, cp.norm, maximise=True, r=R, c=C), "not convex"),
    (
        lambda: problems.multi_objective(MDP, cp.norm, lambda y: y[0], limits={"h2": (C, 1.0)}, r=R),
        "two constraints are called 'h2'",
    ),
    (lambda: problems.multi_objective(MDP, cp.norm, total=R), "cannot be called 'total'"),
    (lambda: problems.apprenticeship(MDP, [1.0, 2.0]), r"must have shape \(3,\); got \(2,\); for one .* by_step=True"),
    (lambda: problems.apprenticeship(MDP, np.ones((H, S))), r"must have shape \(3,\); got \(4, 3\)"),
    (lambda: problems.apprenticeship(MDP, np.ones(S), by_step=True), r"must have shape \(4, 3\); got \(3,\); demon"),
    (lambda: problems.apprenticeship(MDP, [0.0, np.inf, 0.0]), r"is inf at \[1\]"),
    (lambda: problems.apprenticeship(MDP, []), "there are no demonstrations"),
    (lambda: problems.apprenticeship(MDP, [[]]), "episode 0 is empty"),
    (lambda: problems.apprenticeship(MDP, [[(0, 1)], []]), "episode 1 is empty"),
    (lambda: problems.apprenticeship(MDP, [[(0, 1)] * 5]), "episode 0 has 5 steps, more than the horizon 4"),
    (lambda: problems.apprenticeship(MDP, [[(0, 1)], [(0, 0), (3, 1)]]), "episode 1, step 1: there is no state 3"),
    (lambda: problems.apprenticeship(MDP, [[(-1, 1)]]), "episode 0, step 0: there is no state -1"),
    (lambda: problems.apprenticeship(MDP, [[(0, 2)]]), "no action 2; the model has actions 0 to 1"),
    (lambda: problems.apprenticeship(MDP, [(0, 1), (1, 0)]), "each a sequence of .state, action. pairs"),
    (
        lambda: problems.apprenticeship(bd.TabularMDP(np.ones((1, 2, 1)), 0, 2, actions=[[True, False]]), [[(0, 1)]]),
        "state 0 does not allow action 1",
    ),
    (lambda: problems.feasibility(MDP, lambda v: [], r=R), "gave no constraints"),
    (lambda: problems.feasibility(MDP, lambda v: [True], r=R), "plain truth value True"),
    (
        lambda: problems.feasibility(MDP, problems.hull([[0], [1]]), limits={"hull": (C, 1.0)}, r=R),
        "two constraints are call",
    ),
    (lambda: problems.box(), "needs lower, upper or both"),
    (lambda: problems.mean_discrepancy(MDP, [0.5, 0.5], np.eye(S)), "one probability for each of 3 states"),
    (
        lambda: problems.mean_discrepancy(MDP, [0.5, 0.1, 0.1], np.eye(S)),
        "probabilities that sum to 1; got a sum of 0.7",
    ),
    (lambda: problems.mean_discrepancy(MDP, np.eye(S)[0], np.eye(2)), "symmetric matrix over the 3 states"),
    (lambda: problems.mean_discrepancy(MDP, np.eye(S)[0], -np.eye(S)), "positive semidefinite and not 0"),
    (lambda: problems.gaussian_kernel([[np.inf]]), "points must be finite numbers"),
    (lambda: problems.gaussian_kernel([1.0, 2.0], width=0.0), "width of a kernel must be a positive number; got 0.0"),
    (lambda: problems.box(np.nan), "box: lower contains NaN"),
    (lambda: problems.feasibility(MDP, problems.box(1, 0), r=R), "box is empty"),
    (lambda: problems.feasibility(MDP, problems.box(-np.inf), r=R), "gave no constraints"),
    (lambda: problems.feasibility(MDP, problems.box([1, 2, 3]), r=R, c=C), r"lower has shape \(3,\), but .* \(2,\)"),
    (lambda: problems.ball([0, 0], -1.0), "radius must be a number, at least 0; got -1.0"),
    (lambda: problems.ball([0, np.inf], 1.0), "centre contains infinity"),
    (lambda: problems.feasibility(MDP, problems.ball([0, 0, 0], 1), r=R, c=C), "ball: centre has shape"),
    (lambda: problems.polyhedron([[1, 2]], [1, 2]), "b have one entry per row"),
    (lambda: problems.feasibility(MDP, problems.polyhedron([[1, 2]], [1]), r=R), "A has 2 columns, but .* has 1"),
    (lambda: problems.hull([1.0, 2.0]), "points must be stacked"),
    (lambda: problems.feasibility(MDP, problems.hull([[1, 2]]), r=R), r"each point has shape \(2,\), but"),
    (lambda: problems.fair(MDP, {}), "needs at least one group"),
    (lambda: problems.fair(MDP, {"r": R}, weights={"c": 1}), "one number for each of r; look at 'c'"),
    (lambda: problems.fair(MDP, {"r": R}, weights={"r": 0}), "weight of 'r' must be a positive number; got 0"),
]


@pytest.mark.parametrize(("build", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused(build, message):
    with pytest.raises((bd.ProblemError, bd.ModelError), match=message):
        build()


# Wrong in type: the tests check types at every call, so these run as a user's script does, without that.
MISTYPED = [
    ("p.constrained(R, R)", "embedding; got ndarray"),
    ("p.constrained('FrozenLake-v1', R)", "bd.envs.gymnasium_environment(env, horizon)"),
    ("p.constrained(MDP, R, [(C, 1)])", "limits must be a dictionary from names; got list"),
    ("p.constrained(MDP, R, {1: (C, 1)})", "limits: the name 1 is not text"),
    ("p.constrained(MDP, R, {'c': C})", "limit 'c' must be (signal, bound), (signal, '>=', bound) or a function"),
    ("p.constrained(MDP, R, {'c': (C,)})", "got a tuple of 1"),
    ("p.constrained(MDP, R, {'c': (1.0, C)})", "one number or a scalar cp.Parameter; got ndarray of shape (3,)"),
    ("p.constrained(MDP, R, {'c': (C, True)})", "must be one number or a scalar cp.Parameter; got True"),
    ("p.constrained(MDP, R, {'c': (C, 1, '<=')})", "has the sense 1"),
    ("p.constrained(MDP, R, {'c': lambda x: None})", "constraint 'c' must be written with <=, >= or =="),
    ("p.constrained(MDP, R, maximise='yes')", "maximise is True or False; got 'yes'"),
    ("p.multi_objective(MDP, 3, r=R)", "h1 must be a function of the vector of totals"),
    ("p.multi_objective(MDP, lambda y: 'a', r=R)", "h1 must give a CVXPY expression of the totals; got str"),
    ("p.multi_objective(MDP, lambda y: 0, {'a': 1}, r=R)", "h2 'a' must be a function of the vector of totals"),
    ("p.multi_objective(MDP, lambda y: 0, lambda y: 1, r=R)", "must give a CVXPY expression of the totals; got 1"),
    ("p.apprenticeship(MDP, None)", "the expert's embedding must have shape (3,); got ()"),
    ("p.apprenticeship(MDP, 'expert')", "the expert must be an embedding of shape (3,) or demonstrations; got str"),
    ("p.apprenticeship(MDP, [[(0, 1), (1,)]])", "episode 0 has entries that are no pairs"),
    ("p.apprenticeship(MDP, [[(0.5, 1)]])", "must hold pairs of whole numbers; got shape (1, 2) of float64"),
    ("p.apprenticeship(MDP, [[(0, 1, 2)]])", "must hold pairs of whole numbers; got shape (1, 3)"),
    ("p.apprenticeship(MDP, [1, 1, 1], distance='l3')", "there is no distance 'l3'. Possible: l2, l1, linf, squared"),
    ("p.apprenticeship(MDP, [1, 1, 1], by_step=1)", "by_step is True or False; got 1"),
    ("p.feasibility(MDP, C)", "the convex set must be a function from a CVXPY variable"),
    ("p.feasibility(MDP, lambda v: 1)", "must give a list or dictionary of constraints; got 1"),
    ("p.box('a')", "box: lower must be an array of real numbers"),
    ("p.ball([0], 'a')", "the radius must be a number, at least 0; got 'a'"),
    ("p.fair(MDP, [R])", "groups must be a dictionary from names; got list"),
    ("p.fair(MDP, {'r': R}, weights=[1])", "weights must be a dictionary from names; got list"),
    ("p.max_entropy(None)", "embedding; got NoneType"),
]  # fmt: skip
SCRIPT = """
import json
import numpy as np
import bidual as bd
p, R, C = bd.problems, np.arange(6.0).reshape(3, 2), np.array([0.0, 1.0, 0.0])
MDP, messages = bd.TabularMDP(np.full((3, 2, 3), 1 / 3), 0, 4), []
for call in (
CALLS
):
    try:
        messages.append(f"no error: {call()}")
    except (bd.ProblemError, bd.ModelError) as error:
        messages.append(str(error))
    except Exception as error:
        messages.append(f"{type(error)}: {error}")
print(json.dumps(messages))
"""


def test_wrong_types_are_refused_in_words():
    calls = "\n".join(f"    lambda: {call}," for call, _ in MISTYPED)
    script = SCRIPT.replace("CALLS", calls)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    said = zip(MISTYPED, json.loads(process.stdout), strict=True)
    wrong = [(call, message, got) for (call, message), got in said if message not in got]
    assert not wrong, wrong


def test_totals_of_groups_are_printed():
    problem = problems.fair(MDP, {"north": R, "south": R[:, ::-1]}, limits={"c": (C, 2.0)})
    solution = bd.solve(problem, MDP)
    line = f"  totals       north {solution['north']:.6g}, south {solution['south']:.6g}"
    assert line in str(solution).splitlines()
    learned = bd.learn(problem, MDP, episodes=16, evaluation=4)
    text = f"  totals       north {learned['north']:.6g}, south {learned['south']:.6g} in the learned model"
    assert text in str(learned).splitlines()
    assert text in learned.describe().splitlines()
    assert len(str(learned).splitlines()) <= 8
    problem = problems.multi_objective(MDP, lambda y: cp.sum_squares(y), reward=R)
    assert "totals       reward " in str(bd.solve(problem, MDP))


def test_totals_must_be_signals():
    x = MDP.embedding(reward=R)
    objective = cp.Maximize(cp.sum(x.reward))
    assert "totals       reward " in str(bd.solve(bd.Problem(objective, totals=["reward"]), MDP))
    assert "totals" not in str(bd.solve(bd.Problem(objective), MDP))
    for names in (["cost"], "reward"):
        with pytest.raises(bd.ProblemError, match="totals must list names of signals, of"):
            bd.Problem(objective, totals=names)
