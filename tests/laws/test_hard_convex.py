"""Convex problems that once went wrong: each with its truth worked out by hand or by CVXPY."""

import contextlib

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual._base import archive
from bidual.problem.convex import Cones, ConicForm, bound_movement, find_interior, repair_multipliers
from tests.helpers import random_instance

P = np.zeros((3, 2, 3))
P[0, 0, 1] = P[0, 1, 2] = P[1, :, 1] = P[2, 0, 2] = P[2, 1, 0] = 1
A = np.array([[0, 1.0], [2, 1], [1, 0]])
B = np.array([[1, 0.0], [0, 1], [0.5, 2]])
MDP = bd.TabularMDP(P, initial=0, horizon=3)
ONE = bd.TabularMDP(np.ones((1, 2, 1)), 0, 5)  # one state: y.a is the number of times action 0 is taken


@pytest.fixture
def x():
    return MDP.embedding(visits=True, a=A, b=B)


@pytest.fixture
def y():
    return ONE.embedding(a=[[1.0, 0]], b=[[1.0, 1.0]], total=True)


def _solve(objective, constraints=(), mdp=MDP):
    return bd.solve(bd.Problem(objective, constraints), mdp, time_limit=60.0)


def test_a_quadratic_form_that_is_not_convex_is_refused(y):
    """CVXPY drops the eigenvalue -1e-11; times 1e10 it is worth 2.5."""
    form = cp.quad_form(cp.hstack([y.b, 1e5 * y.a]), np.diag([1.0, -1e-11]))
    with pytest.raises(bd.ProblemError, match="eigenvalue -1e-11"):
        bd.Problem(cp.Minimize(form + 0.3 * y.a))


def test_a_small_eigenvalue_counts(y):
    """25 + 1e-11 (1e5 a)^2 - .3 a = 25 + .1 a^2 - .3 a, least at a = 1.5."""
    form = cp.quad_form(cp.hstack([y.b, 1e5 * y.a]), np.diag([1.0, 1e-11]))
    solution = _solve(cp.Minimize(form - 0.3 * y.a), mdp=ONE)
    assert solution.status == "optimal"
    assert abs(solution.value - 24.775) <= 1e-6


@pytest.mark.parametrize("slope", [1e-9, 1e-12])
def test_a_problem_that_is_hardly_unbounded_gets_no_bound(x, slope):
    w = cp.Variable(2)
    problem = bd.Problem(cp.Minimize(cp.abs(cp.sum(x.a) - cp.sum(w)) + slope * (w[0] - w[1])))
    with contextlib.suppress(bd.ProblemError):  # which says that it is unbounded
        assert bd.solve(problem, MDP, time_limit=60.0).lower is None


Z, W = cp.Variable(name="z"), cp.Variable(2, name="w")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: (cp.Minimize(cp.sum(x.a) + Z), {}), "falls without end along falling 'z' "),
        (lambda x: (cp.Maximize(cp.sum(x.a) + Z), {"c": cp.norm(x.b) <= Z}), "grows without end along rising 'z' "),
        (
            lambda x: (cp.Minimize(cp.abs(cp.sum(x.a) - cp.sum(W)) + 0.1 * (W[0] - W[1])), {}),
            "falling 'w[0]' and rising 'w[1]'",
        ),
        (lambda x: (cp.Minimize(cp.sum(x.a) + W[0]), {"c": W[0] >= 3 * W[1]}), "along falling 'w[0]'"),
        (lambda x: (cp.Minimize(cp.sum(x.a) + W[0]), {"c": W[0] - W[1] == cp.sum(x.b)}), "falling 'w[0]' and falling"),
        (lambda x: (cp.Minimize(cp.sum(x.a) - cp.log(Z)), {"c": Z >= 1}), "along rising 'z' "),
    ],
)
def test_an_unbounded_problem_is_refused_with_the_variable(x, make, words):
    with pytest.raises(bd.ProblemError, match="the problem is unbounded: the objective") as refused:
        _solve(*make(x))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (cp.Minimize(cp.sum(x.a) + Z), {"c": Z >= -1e7}),
        lambda x: (cp.Minimize(cp.sum(x.a) + Z), {"c": 1e-6 * Z >= -1}),
        lambda x: (cp.Minimize(cp.sum(x.a) + cp.exp(Z)), {}),  # an infimum that no z attains
        lambda x: (cp.Minimize(cp.sum(x.a) + cp.inv_pos(Z)), {}),
        lambda x: (cp.Minimize(cp.sum(x.a) + cp.maximum(-cp.log(Z), -50)), {}),
        lambda x: (cp.Minimize(cp.norm(x.a - Z) + cp.abs(W[0] - W[1])), {}),  # free along a line, at no gain
        lambda x: (cp.Minimize(cp.huber(Z - cp.sum(x.a)) + 1.999999 * Z), {}),
    ],
)
def test_a_bounded_problem_is_never_called_unbounded(x, make):
    _solve(*make(x))


@pytest.mark.parametrize("k", [3, 3.5, 7])
def test_the_sum_of_all_largest_is_the_sum(x, k):
    """CVXPY's cone form leaves a whole line of optima for k = n, and is unbounded for k > n."""
    solution = _solve(cp.Minimize(cp.sum_largest(x.a, k) + cp.norm(x.b)))
    plain = _solve(cp.Minimize(cp.sum(x.a) + cp.norm(x.b)))
    assert solution.status == "optimal"
    assert abs(solution.value - plain.value) <= 1e-6


def test_the_sum_of_all_largest_alone_has_a_bound(tmp_path, x):
    """Its cone form has no rows at all."""
    solution = _solve(cp.Minimize(cp.sum_largest(x.a, 3)))
    assert solution.status == "optimal"
    assert abs(solution.value - _solve(cp.Minimize(cp.sum(x.a))).value) <= 1e-6
    solution.save(tmp_path / "s.bidual")
    bd.check(tmp_path / "s.bidual")


def test_the_sum_of_all_largest_of_every_step_is_their_sum(x):
    solution = _solve(cp.Minimize(cp.max(cp.sum_largest(x.visits, 3, axis=1)) - cp.sum(x.a)))
    assert solution.status == "optimal"
    assert abs(solution.value - (1 - _solve(cp.Maximize(cp.sum(x.a))).value)) <= 1e-6


def test_rounding_of_large_constants_is_covered(y):
    """The objective is (a - 2)^2 + 1e-7 a; as written it is evaluated with errors of some 1e-6."""
    solution = _solve(cp.Minimize(cp.square(y.a - 2) + 1e-7 * y.a + 1e10 - 1e10), mdp=ONE)
    assert solution.lower <= 2e-7
    assert solution.upper >= 1.9999e-7


@pytest.mark.parametrize(
    ("make", "optimum"),
    [
        # Three steps, the first in state 0: the visits of 1 and 2 sum to 2 at most.
        (lambda x, v, w: (cp.Maximize(cp.log(v) + cp.log(w)), {}), 0.0),
        (lambda x, v, w: (cp.Minimize(cp.inv_pos(v) + cp.inv_pos(w)), {}), 2.0),
        (lambda x, v, w: (cp.Minimize(cp.norm(cp.cumsum(x.a))), {}), np.sqrt(3)),
        (lambda x, v, w: (cp.Minimize(cp.square(1e5 * (cp.sum(x.a) - 2.5)) + cp.sum(x.b)), {}), 1.5),
        (lambda x, v, w: (cp.Minimize(cp.exp(20 * cp.sum(x.a) - 30)), {}), np.exp(-10)),
    ],
)
def test_edges_of_domains_and_large_numbers_are_passed(x, make, optimum):
    solution = _solve(*make(x, cp.sum(x.visits[:, 1]), cp.sum(x.visits[:, 2])))
    assert solution.status == "optimal", solution
    assert abs(solution.value - optimum) <= 1e-6


def test_a_cumulative_sum_in_a_linear_problem(x):
    solution = _solve(cp.Minimize(cp.sum(x.b)), {"c": cp.cumsum(x.a) <= 3})
    assert solution.status == "optimal"
    assert abs(solution.value - 1) <= 1e-6


def test_a_function_that_is_nowhere_defined_is_said_so(x):
    with pytest.raises(bd.ProblemError, match="not defined at any policy"):
        _solve(cp.Maximize(cp.log(-1 - cp.sum(x.a))))


def test_complex_numbers_are_refused(x):
    with pytest.raises(bd.ProblemError, match="complex"):
        bd.Problem(cp.Minimize(cp.abs(cp.sum(x.a) + 1j)))


def test_multipliers_that_must_be_zero_are(x):
    """z may grow without cost, so the constraint says nothing and its multiplier is 0 in every dual solution."""
    z = cp.Variable(3, nonneg=True)
    free = _solve(cp.Minimize(cp.norm(x.a)))
    solution = _solve(cp.Minimize(cp.norm(x.a)), {"c": cp.sum(x.visits, axis=0) / 3 - z <= 0.1})
    assert solution.status == "optimal"
    assert abs(solution.value - free.value) <= 1e-6


def test_only_the_guilty_are_named(x):
    limits = {
        "high": cp.norm(x.a) <= 0.9,
        "low": cp.sum(x.a) >= 3,
        "innocent": cp.norm(x.b) <= 1000,
        "needless": cp.sum_squares(x.a) <= 1.2,
    }
    solution = _solve(cp.Minimize(cp.norm(x.b)), limits)
    assert solution.status == "infeasible"
    assert "innocent" not in solution.conflict.least
    assert len(solution.conflict.least) == 2
    assert "low" in solution.conflict.least


def test_contradictory_equalities_are_named(x):
    solution = _solve(cp.Minimize(cp.norm(x.b)), {"one": cp.sum(x.a) == 1, "two": cp.sum(x.a) == 2})
    assert set(solution.conflict.least) == {"one", "two"}


@pytest.mark.parametrize("seed", [11, 32])
def test_a_vector_equality_survives_its_own_check(tmp_path, seed):
    instance = random_instance(seed, (3, 2, 2, 2))
    x = instance.mdp.embedding(visits=True, a=instance.signals[0])
    first = bd.solve(bd.Problem(cp.Minimize(cp.norm(x.a - 0.3))), instance.mdp)
    limits = {"e": x.visits[1] == first.visits[1]}
    solution = bd.solve(bd.Problem(cp.Minimize(cp.norm(x.a)), limits), instance.mdp)
    solution.save(tmp_path / "s.bidual")
    bd.check(tmp_path / "s.bidual")


def _forge(path, edit):
    manifest, arrays = archive.read(path, "solution")
    edit(manifest, arrays)
    archive.write(path, "solution", {k: v for k, v in manifest.items() if k not in ("format", "kind")}, arrays)


@pytest.mark.parametrize(
    "edit",
    [
        lambda manifest, arrays: arrays.update(gamma=arrays["gamma"] + 3.0),
        lambda manifest, arrays: arrays.update(gamma=-arrays["gamma"]),
        lambda manifest, arrays: arrays.update(problem_image_offset=arrays["problem_image_offset"] + 0.1),
        lambda manifest, arrays: arrays.update(problem_image_offset=arrays["problem_image_offset"][1:]),
        lambda manifest, arrays: manifest["lines"].__setitem__(0, ["c", ">=", 1.0, [0.8]]),
        lambda manifest, arrays: manifest["problem"]["functions"]["objective"].update(atom="os.system"),
        lambda manifest, arrays: manifest["problem"]["functions"]["equality"].__setitem__(0, True),
    ],
)
def test_a_forged_file_does_not_pass(tmp_path, x, edit):
    solution = _solve(cp.Minimize(cp.norm(x.a - 1) + cp.sum(x.b)), {"c": cp.norm(x.b) <= 0.8})
    path = tmp_path / "s.bidual"
    solution.save(path)
    bd.check(path)
    _forge(path, edit)
    with pytest.raises((bd.CertificateError, bd.ArchiveError)):
        bd.check(path)


@pytest.mark.parametrize(
    "constraint",
    [
        lambda x, p: cp.norm(x.b) <= p,
        lambda x, p: -cp.norm(x.b) >= -p,
        lambda x, p: cp.norm(x.b) - 0.5 * cp.sum(x.a) <= p - cp.sum(x.b),
        lambda x, p: cp.norm(x.b) - p <= 0,
        lambda x, p: x.b <= p,
        lambda x, p: p + 0.1 == cp.sum(x.a) / 10,
    ],
)
def test_a_limit_cannot_be_shifted_together_with_its_value(tmp_path, x, constraint):
    """Both are told relative to each other, so that only the expression itself gives the lie away."""
    limits = {"c": constraint(x, cp.Parameter(name="p", value=2.0)), "plain": cp.sum(x.a) <= 100}
    solution = _solve(cp.Minimize(cp.norm(x.a - 1) + cp.sum(x.b)), limits)
    path = tmp_path / "s.bidual"
    solution.save(path)
    bd.check(path)

    def edit(manifest, arrays):
        manifest["lines"][0][3] = [bound + 1.0 for bound in manifest["lines"][0][3]]
        for key in ("value", "limit"):
            manifest["claims"]["constraints"][0][key] += 1.0

    _forge(path, edit)
    with pytest.raises(bd.CertificateError, match="states constraint 'c'"):
        bd.check(path)


def test_parameters_inside_atoms_are_saved_as_numbers(tmp_path, x):
    M = cp.Parameter(name="M", nonneg=True, value=0.5)
    solution = _solve(cp.Minimize(cp.sum(cp.huber(x.a - 2, M))), {"c": cp.sum(cp.huber(x.b, 2 * M)) <= 9})
    plain = _solve(cp.Minimize(cp.sum(cp.huber(x.a - 2, 0.5))), {"c": cp.sum(cp.huber(x.b, 1.0)) <= 9})
    path = tmp_path / "s.bidual"
    solution.save(path)
    M.value = 7.0
    assert bd.check(path).certificate.upper == solution.upper
    assert abs(solution.value - plain.value) <= 2e-6


def test_an_approximating_atom_in_a_file_is_made_exact(tmp_path, x):
    """PowerApprox(1.7, max_denom=2) evaluates x^1.7 but reduces to x^2: multipliers would bound another function."""
    solution = _solve(cp.Minimize(cp.power(cp.sum(x.a) + 2, 1.7)))
    path = tmp_path / "p.bidual"
    solution.save(path)

    def edit(manifest, arrays):
        tree = manifest["problem"]["functions"]["objective"]
        tree["atom"] = "cvxpy.atoms.elementwise.power.PowerApprox"
        tree["data"] = {"list": [{"number": (1.7).hex()}, 2]}

    _forge(path, edit)
    assert bd.check(path).certificate.lower == pytest.approx(solution.lower, abs=1e-9)


def test_movement_is_infinite_where_the_equations_may_have_no_solution():
    """Two columns that say the same, with costs that differ: no multipliers are feasible, whatever the residual."""
    import scipy.sparse as sp

    columns = sp.csc_array(np.array([[1.0, 1.0], [0.0, 0.0]]))
    form = ConicForm(
        c_y=np.zeros(1),
        c_u=np.array([-1.0, -1.0 - 1e-13]),
        offset=0.0,
        G_y=sp.csr_array((2, 1)),
        G_u=columns,
        h=np.ones(2),
        cones=Cones(0, 2, (), 0, ()),
        owner=np.array([-1, -1]),
        sign=np.zeros(2),
    )
    lam = np.array([1.0, 1.0])
    assert np.isinf(bound_movement(form, lam)[0])
    inner = find_interior(form)
    assert inner is None or repair_multipliers(form, lam, inner) is None


@pytest.mark.parametrize(
    ("cones", "inside", "outside"),
    [
        (Cones(0, 1, (), 0, ()), [1e-9], [-1e-12]),
        (Cones(0, 0, (3,), 0, ()), [1.0, 0.6, 0.7999], [1.0, 0.6, 0.8001]),
        # -u exp(v / u) <= e w with u = -1, v = 0: w >= 1 / e.
        (Cones(0, 0, (), 1, ()), [-1.0, 0.0, np.exp(-1) + 1e-9], [-1.0, 0.0, np.exp(-1) - 1e-9]),
        # (u / a)^a (v / (1 - a))^(1 - a) >= |w| with a = 1/2 and u = v = 1: |w| <= 2.
        (Cones(0, 0, (), 0, (0.5,)), [1.0, 1.0, 2 - 1e-9], [1.0, 1.0, 2 + 1e-9]),
    ],
)
def test_dual_cones(cones, inside, outside):
    nothing = np.zeros(len(inside))
    assert cones.outside(np.array(inside), nothing) == []
    assert cones.outside(np.array(outside), nothing) == [0]
    assert cones.outside(np.array(inside), nothing + 1e-3) == [0]
