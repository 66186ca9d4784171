"""Auxiliary variables minimised over at every image: values, slopes, conjugates, bounds over boxes, and results."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual.certificate._estimates import bound_over_box
from bidual.problem.modelling import make_variational
from bidual.world.policies import embedding

RNG = np.random.default_rng(4)
S, A, H = 4, 2, 6
MDP = bd.TabularMDP(RNG.dirichlet(np.ones(S), (S, A)), 0, H)
R, C = RNG.random((2, S, A))
DIGITS = 2e-7  # of the cone solvers on both sides
ROUNDING = 1e-8  # constraints count as kept within 1e-9, and no price here is above 10


def _feasibility(convex_set, **settings):
    return lambda: bd.problems.feasibility(MDP, convex_set, r=R, c=C, **settings)


def _epigraph():
    x, t = MDP.embedding(r=R, c=C, total=True), cp.Variable(name="t")
    return bd.Problem(cp.Minimize(t), {"a": x.r - 4 <= t, "b": 3 - x.c <= t})


def _slack():
    x, s = MDP.embedding(r=R, c=C, total=True), cp.Variable(name="s", nonneg=True)
    return bd.Problem(cp.Maximize(x.r - 2 * s), {"b": x.c <= 2.5 + s})


def _conditional_value_at_risk():
    x, t = MDP.embedding(r=R, c=C, d=R * C, total=True), cp.Variable(name="t")
    losses = cp.hstack([x.r, x.c, x.d])
    return bd.Problem(cp.Minimize(t + cp.sum(cp.pos(losses - t)) / (3 * 0.5)))


PROBLEMS = {
    "hull": _feasibility(bd.problems.hull([[5, 2], [5, 3], [4, 1]])),
    "hull, reached": _feasibility(bd.problems.hull([[5, 2], [5, 3], [1, 3], [1, 1]])),
    "polyhedron": _feasibility(bd.problems.polyhedron([[1, 1], [-1, 2]], [4, 3])),
    "own": _feasibility(lambda v: [v >= 0, cp.sum(v) <= 4], distance="squared"),
    "ball, l1": _feasibility(bd.problems.ball([5, 2], 0.5), distance="l1"),
    "epigraph": _epigraph,
    "slack": _slack,
    "CVaR": _conditional_value_at_risk,
}


@pytest.fixture(params=PROBLEMS, scope="module")
def problem(request):
    return PROBLEMS[request.param]()


def _least(problem, y):
    """The least f at an image, by CVXPY from the expressions themselves; constraints have the minimising form."""
    functions, sizes = problem.program().functions, []
    for variable in functions.images:
        sizes.append(variable.size)
    for variable, part in zip(functions.images, np.split(y, np.cumsum(sizes)[:-1]), strict=True):
        variable.value = part.reshape(variable.shape, order="F")
    fixed = [v == v.value for v in functions.images]
    limits = [g == 0 if equal else g <= 0 for g, equal in zip(functions.constraints, functions.equality, strict=True)]
    return cp.Problem(cp.Minimize(functions.objective), limits + fixed).solve(solver="CLARABEL")


def _variational(problem):
    return make_variational(problem.program(), problem.embedding.features.stage(MDP.successors))


def _images(problem, count=4):
    lower, upper = _variational(problem).bounds()
    return lower + RNG.random((count, lower.size)) * (upper - lower)


def test_values_are_the_least_ones_and_slopes_are_subgradients(problem):
    f = _variational(problem).f
    images = _images(problem)
    values = [_least(problem, y) for y in images]
    for y, value in zip(images, values, strict=True):
        assert f.value(y) == pytest.approx(value, abs=DIGITS)
        slope = f.function.gradient(f.part(y))
        assert np.linalg.norm(slope) <= f.function.lipschitz
        for other, there in zip(images, values, strict=True):
            assert there >= value + slope @ (f.part(other) - f.part(y)) - 10 * DIGITS


def test_conjugates_are_above_every_point_and_reached(problem):
    f = _variational(problem).f
    slope = RNG.normal(size=f.rows.size)
    bound, best = f.function.conjugate(slope), f.function.conjugate_argmax(slope)
    assert bound == pytest.approx(slope @ best - f.function.value(best), abs=10 * DIGITS)
    assert all(bound >= slope @ f.part(y) - f.value(y) for y in _images(problem))


def test_the_best_auxiliary_variables_keep_every_constraint(problem):
    program = problem.program()
    for y in _images(problem):
        f, g = program.functions.values(y, program.complete(y))
        assert np.all(program.violations(g) <= program.tolerances)
        assert f == pytest.approx(_least(problem, y), abs=DIGITS)


def test_no_point_of_a_box_is_above_its_corners(problem):
    program = problem.program()
    images = _images(problem, 8)
    ends = list(zip(images.min(axis=0), images.max(axis=0), strict=True))
    least, upper = bound_over_box(program, ends)
    assert np.all(upper[1:] <= 0)
    assert np.all(least[1:][program.equality] == 0)
    assert all(_least(problem, y) <= upper[0] + DIGITS for y in images)


@pytest.mark.parametrize("make", [bd.dual.GradientAscent, bd.dual.FollowTheLeader])
@pytest.mark.parametrize("name", ["own", "slack"])
def test_the_paper_players_end_certified(name, make):
    """After 60 plans the gap is of the size of its rate, 1 / sqrt(60); the corrective player's is a millionth."""
    problem = PROBLEMS[name]()
    best = bd.solve(problem, MDP)
    assert best.status == "optimal"
    found = bd.solve(problem, MDP, dual=make(), max_plans=60)
    assert found.status in ("feasible", "optimal")
    assert found.lower <= best.upper + ROUNDING
    assert best.lower <= found.upper + ROUNDING
    assert found.gap <= (3.0 if name == "own" else 1.5)  # squares are ten times as steep


@pytest.mark.parametrize(("name", "explorer"), [("hull", None), ("slack", bd.explorers.PrimalDual())])
def test_what_is_learned_is_bounded_from_both_sides(name, explorer, tmp_path):
    """The true optimum, and what the policy truly pays, lie within bounds of probability 0.95; the seed is fixed."""
    problem = PROBLEMS[name]()
    best = bd.solve(problem, MDP)
    result = bd.learn(problem, MDP, episodes=100, explorer=explorer, seed=1)
    assert result.status == "feasible"
    psi = problem.embedding.features.stage(MDP.successors)
    pays, _ = problem.program().at(embedding(MDP, psi, result.policy))
    pays = -pays if best.sense == "maximize" else pays
    assert result.lower <= best.value <= result.upper
    assert result.lower <= pays <= result.upper
    assert result.gap <= 2.0  # 33 fresh episodes of totals of up to 6
    result.save(tmp_path / "one.bidual")
    assert bd.check(tmp_path / "one.bidual").claims["status"] == "feasible"


def test_membership_in_a_set_is_one_constraint_of_least_violation():
    """Two disjoint groups: the objective has none, the limit is plain, and the point v is in the other."""
    x, v = MDP.embedding(r=R, c=C, total=True), cp.Variable(2, name="v")
    near = {"near": cp.norm(cp.hstack([x.r, x.c]) - v) <= 0.5, "in": cp.norm(v - np.array([3.0, 2.5])) <= 0.3}
    problem = bd.Problem(cp.Maximize(x.r), {"plain": x.c <= 3, **near})
    rows = _variational(problem)
    assert len(rows.g) == 2
    best = bd.solve(problem, MDP)
    found = bd.solve(problem, MDP, dual=bd.dual.GradientAscent(), max_plans=200)
    assert found.lower <= best.upper + ROUNDING
    assert best.lower <= found.upper + ROUNDING
    assert found.status in ("feasible", "optimal")
    assert found.gap <= 0.4


def test_distances_to_sets_have_conjugates_in_closed_form():
    names = {"DistanceToBox", "DistanceToBall", "MaxAffine"}
    problems = bd.problems
    found = set()
    for convex_set in (problems.box([4, 3], [5, 5]), problems.box(upper=[1, 2]), problems.ball([5, 2], 0.5)):
        problem = problems.feasibility(MDP, convex_set, r=R, c=C)
        term = _variational(problem).f
        found.add(type(term.function).__name__)
        for y in _images(problem):
            assert term.value(y) == pytest.approx(problem.program().functions.values(y, np.zeros(0))[0], abs=1e-12)
    half = problems.feasibility(MDP, problems.polyhedron([[1, 1]], [4]), r=R, c=C)
    assert found | {type(_variational(half).f.function).__name__} == names
