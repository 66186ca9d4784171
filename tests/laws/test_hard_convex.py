"""Convex problems that once went wrong: each with its truth worked out by hand or by CVXPY."""

import cvxpy as cp
import numpy as np
import pytest

import bidual as bd
from bidual import _archive
from bidual.convex import Cones, ConicForm, interior, movement, repaired
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


@pytest.mark.parametrize("slope", [0.1, 1e-9, 1e-12])
def test_an_unbounded_problem_gets_no_bound(x, slope):
    w = cp.Variable(2)
    solution = _solve(cp.Minimize(cp.abs(cp.sum(x.a) - cp.sum(w)) + slope * (w[0] - w[1])))
    assert solution.lower is None
    assert solution.status != "optimal"


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
    manifest, arrays = _archive.read(path, "solution")
    edit(manifest, arrays)
    _archive.write(path, "solution", {k: v for k, v in manifest.items() if k not in ("format", "kind")}, arrays)


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
    assert np.isinf(movement(form, lam)[0])
    inner = interior(form)
    assert inner is None or repaired(form, lam, inner) is None


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
