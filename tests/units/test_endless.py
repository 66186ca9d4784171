"""Models over an unbounded time: their declaration, certificates against wrong evidence, files, and refusals."""

import json
import zipfile
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import bidual as bd
from bidual._base.errors import CertificateError, EnvError, ModelError, ProblemError
from bidual._base.resolvent import Resolvent
from bidual.certificate import certify
from bidual.certificate.verify import main
from bidual.world.policies import MarkovPolicy
from tests.endless import absorbed_instance, average_instance, dense_kernel, discounted_instance
from tests.units.test_forged import rewrite

STAY = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])  # action 0 stays, 1 goes to the other state


@pytest.fixture
def instance():
    return discounted_instance(5, (8, 3, 3), 0.95)


@pytest.fixture
def solution(instance):
    x = instance.embedding()
    least = bd.solve(bd.Problem(cp.Minimize(x.s1)), instance.mdp).value
    return bd.solve(bd.Problem(cp.Maximize(x.s0), {"limit": x.s1 <= least + 3}), instance.mdp)


def _truth(evidence):
    """The discounted value of the objective at the policy, by a dense system."""
    mdp, table = evidence.mdp, evidence.policy.table[0]
    P = np.einsum("sa,sat->st", table, dense_kernel(mdp))
    pay = (table * evidence.psi.pay(evidence.program.objective[0], 0)).sum(axis=1)
    return float(mdp.initial @ np.linalg.solve(np.eye(len(P)) - mdp.criterion.discount * P, pay))


@pytest.mark.unchecked_shapes(reason="passes wrong types")
@pytest.mark.parametrize(
    ("time", "message"),
    [
        ({}, "got none"),
        ({"horizon": 3, "average": True}, "horizon and average"),
        ({"average": 1}, "average is True"),
        ({"until": "done"}, "boolean mask"),
        ({"until": np.zeros(3, dtype=bool)}, "boolean mask"),
        ({"horizon": 3, "discount": 0.9}, "horizon and discount"),
        ({"discount": 1.0}, "strictly between 0 and 1"),
        ({"discount": 0}, "strictly between 0 and 1"),
        ({"discount": float("nan")}, "strictly between 0 and 1"),
        ({"discount": "0.9"}, "must be a number"),
        ({"discount": True}, "must be a number"),
    ],
)
def test_the_time_of_a_model_is_declared_once(time, message):
    with pytest.raises(ModelError, match=message):
        bd.TabularMDP(STAY, 0, **time)


def test_a_small_model_by_hand():
    """Staying in state 1 pays 1 for ever after one step there: 0.9 / (1 - 0.9) = 9."""
    mdp = bd.TabularMDP(STAY, 0, discount=0.9)
    x = mdp.embedding(visits=True, reward=np.array([0.0, 1.0]))
    solution = bd.solve(bd.Problem(cp.Maximize(x.reward)), mdp)
    assert abs(solution.value - 9) <= 1e-12
    np.testing.assert_allclose(solution.visits, [[1.0, 9.0]], atol=1e-12)
    assert x.shape == (3,)
    assert "discount 0.9" in repr(mdp)


def test_the_policy_acts_for_as_long_as_it_is_asked_to(solution):
    assert solution.policy.stationary
    assert solution.policy.most_likely().stationary
    actor = solution.policy.reset(0)
    assert {actor.act(0) for _ in range(1000)} <= {0, 1, 2}


def test_the_value_is_that_of_the_policy(solution):
    """A dense system of condition 40, and values of at most 30."""
    assert abs(_truth(solution.evidence) + solution.value) <= 1e-11


def test_a_wrong_potential_is_a_poor_bound_and_never_a_false_one(solution):
    rng = np.random.default_rng(0)
    potential = solution.evidence.record.potential
    best = certify(solution.evidence).lower
    for scale in (1e-9, 1e-3, 1.0, 1e3):
        moved = potential + scale * rng.normal(size=potential.shape)
        record = replace(solution.evidence.record, potential=moved)
        assert certify(replace(solution.evidence, record=record)).lower <= best + 1e-9


@pytest.mark.parametrize("shift", [1.0, 1e6])
def test_a_potential_that_is_too_high_everywhere_is_lowered(solution, shift):
    record = replace(solution.evidence.record, potential=solution.evidence.record.potential + shift)
    assert certify(replace(solution.evidence, record=record)).lower <= -solution.lower + 1e-12 * shift


@pytest.mark.parametrize("wrong", [np.zeros(3), np.full(8, np.nan)])
def test_a_potential_that_is_none_is_refused(solution, wrong):
    record = replace(solution.evidence.record, potential=wrong)
    with pytest.raises(CertificateError, match="potential"):
        certify(replace(solution.evidence, record=record))


def test_another_policy_is_certified_as_what_it_is(solution):
    table = np.random.default_rng(1).dirichlet(np.ones(3), (1, 8))
    evidence = replace(solution.evidence, policy=MarkovPolicy(table, stationary=True))
    certificate = certify(evidence)
    truth = _truth(evidence)
    assert truth <= certificate.upper <= truth + 1e-9


def test_a_file_is_checked_and_its_policy_acts(solution, tmp_path, capsys):
    path = tmp_path / "solution.bidual"
    solution.save(path)
    check = bd.check(path)
    assert check.claims["value"] == solution.value
    policy = bd.load(path)
    assert policy.stationary
    np.testing.assert_array_equal(policy.table, solution.policy.table)
    assert main([str(path)]) == 4  # not decided
    assert "stationary solution" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest, arrays: arrays.update(potential=arrays["potential"] - 1.0),
        lambda manifest, arrays: manifest["criterion"].update(discount=0.94),
        lambda manifest, arrays: manifest["claims"].update(upper=manifest["claims"]["upper"] - 1e-3),
        lambda manifest, arrays: manifest["claims"].update(value=manifest["claims"]["value"] + 1e-3),
        lambda manifest, arrays: arrays.update(psi=arrays["psi"] * 1.01),
    ],
)
def test_a_file_that_claims_more_than_it_proves_is_refused(solution, tmp_path, change):
    path = tmp_path / "solution.bidual"
    solution.save(path)
    rewrite(path, change)
    with pytest.raises(CertificateError):
        bd.check(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest, arrays: manifest.pop("criterion"),
        lambda manifest, arrays: manifest.update(criterion={"discount": 2.0}),
        lambda manifest, arrays: manifest.update(criterion={"discount": 0.9, "horizon": 3}),
        lambda manifest, arrays: arrays.update(policy=np.concatenate([arrays["policy"]] * 2)),
        lambda manifest, arrays: arrays.update(potential=np.zeros(3)),
    ],
)
def test_a_malformed_file_is_refused(solution, tmp_path, change):
    path = tmp_path / "solution.bidual"
    solution.save(path)
    rewrite(path, change)
    with pytest.raises(bd.ArchiveError):
        bd.check(path)


def test_a_file_passed_off_as_one_over_a_horizon_is_refused(solution, tmp_path):
    """One step of a model is another problem."""
    path = tmp_path / "solution.bidual"
    solution.save(path)
    rewrite(path, lambda manifest, arrays: manifest.update(kind="solution"))
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("manifest.json"))["kind"] == "solution"
    with pytest.raises(CertificateError):
        bd.check(path)


def test_embeddings_of_another_time_are_refused(instance):
    lists = instance.mdp.successors
    same = (lists.states[0], lists.probabilities[0]), instance.mdp.initial
    x = instance.embedding()
    for other in (bd.TabularMDP(*same, 1), bd.TabularMDP(*same, discount=0.9)):
        with pytest.raises(ProblemError, match="another embedding"):
            bd.solve(bd.Problem(cp.Maximize(x.s0)), other)


def test_learning_is_refused_with_a_remedy(instance):
    problem = bd.Problem(cp.Maximize(instance.embedding().s0))
    with pytest.raises(ProblemError, match="horizon=100"):
        bd.learn(problem, instance.mdp, episodes=1)
    with pytest.raises(EnvError, match="horizon=100"):
        bd.envs.Simulator(instance.mdp)


def test_players_for_a_horizon_are_refused(instance):
    problem = bd.Problem(cp.Maximize(instance.embedding().s0))
    with pytest.raises(ProblemError, match="PolicyIteration"):
        bd.solve(problem, instance.mdp, planner=bd.planners.BackwardInduction())
    with pytest.raises(ProblemError, match="leave dual out"):
        bd.solve(problem, instance.mdp, dual=bd.dual.GradientAscent())


def test_prices_and_resolves(instance):
    x, limit = instance.embedding(), cp.Parameter(name="limit")
    least = bd.solve(bd.Problem(cp.Minimize(x.s1)), instance.mdp).value
    problem = bd.Problem(cp.Maximize(x.s0), {"limit": x.s1 <= limit})
    limit.value = least + 3
    solution = bd.solve(problem, instance.mdp)
    curve = bd.price(problem, instance.mdp, limits=[least + 1, least + 3, least + 50])
    again = solution.resolve(limit=least + 1)
    assert curve.lower[1] - 1e-4 <= solution.value <= curve.upper[1] + 1e-4
    assert curve.lower[0] - 1e-4 <= again.value <= curve.upper[0] + 1e-4


def test_a_chain_that_mixes_slowly_is_solved_all_the_same():
    """A walk over 3000 states: a Krylov method of some tens of steps does not get there, factors do."""
    n, discount = 3000, 0.999999
    here, there = np.arange(n), np.clip(np.array([-1, 1])[:, None] + np.arange(n), 0, n - 1)
    matrix = discount * sum(0.5 * sp.csr_array((np.ones(n), (here, to)), shape=(n, n)) for to in there)
    right = (here == n - 1).astype(float)
    x = Resolvent(sp.csr_array(matrix))(right)
    residual = right + matrix @ x - x
    assert np.abs(residual).max() <= 1e-14 * np.abs(x).max() * 100


def _shop(**time):
    """States: working, broken, sold. Actions: go on, wait, sell. Waiting in `broken` goes on for ever."""
    P = np.zeros((3, 3, 3))
    P[0, 0], P[0, 1], P[0, 2] = [0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.0, 0.0, 1.0]
    P[1, 0], P[1, 1], P[1, 2] = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    P[2] = [0.0, 0.0, 1.0]
    return bd.TabularMDP(P, 0, **time)


COST = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 9.0], [0.0, 0.0, 0.0]])


def test_totals_until_absorption_by_hand():
    """Selling at once costs 4; going on first costs 1 + 0.5 V + 0.5 min(9, 3 + V) > 4."""
    mdp = _shop(until="absorbed")
    x = mdp.embedding(cost=COST, visits=True)
    solution = bd.solve(bd.Problem(cp.Minimize(x.cost)), mdp)
    assert abs(solution.value - 4) <= 1e-12
    assert solution.gap <= 1e-9
    np.testing.assert_allclose(solution.visits, [[1.0, 0.0, 0.0]], atol=1e-12)
    assert mdp.mass[1] == np.inf  # a policy may wait for ever


def test_a_policy_that_is_not_absorbed_has_no_certificate():
    mdp = _shop(until="absorbed")
    solution = bd.solve(bd.Problem(cp.Minimize(mdp.embedding(cost=COST).cost)), mdp)
    waiting = np.eye(3)[[0, 1, 2]][None]  # goes on until it is broken, then waits
    with pytest.raises(CertificateError, match="not shown to end"):
        certify(replace(solution.evidence, policy=MarkovPolicy(waiting, stationary=True)))


def test_an_objective_without_end_is_named():
    mdp = _shop(until="absorbed")
    problem = bd.Problem(cp.Maximize(mdp.embedding(pay=COST).pay))
    with pytest.raises(ProblemError, match="no end: a policy that stays among the states"):
        bd.solve(problem, mdp)


def test_signals_that_go_on_for_ever_are_named():
    mdp = _shop(until="absorbed")
    with pytest.raises(ModelError, match=r"'late' goes on for ever in state 2.*on_arrival"):
        mdp.embedding(cost=COST, late=np.array([0.0, 0.0, 1.0]))
    ended = _shop(until=np.array([False, False, True]))
    x = ended.embedding(late=np.array([0.0, 0.0, 1.0]))
    assert bd.solve(bd.Problem(cp.Maximize(x.late)), ended).value == 0


def test_models_that_cannot_end_are_refused():
    with pytest.raises(ModelError, match=r"no policy is absorbed with probability 1.*until=mask"):
        bd.TabularMDP(STAY, 0, until="absorbed")


def test_averages_by_hand():
    """Half of the steps in each of two states that are left at every step, by either action."""
    P = np.array([[[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    mdp = bd.TabularMDP(P, 0, average=True)
    x = mdp.embedding(cost=np.array([[1.0, 2.0], [5.0, 3.0]]), visits=True)
    solution = bd.solve(bd.Problem(cp.Minimize(x.cost)), mdp)
    assert abs(solution.value - 2) <= 1e-12
    assert solution.gap <= 1e-12
    np.testing.assert_allclose(solution.visits, [[0.5, 0.5]], atol=1e-12)


def test_averages_of_multichain_models_are_refused():
    with pytest.raises(ModelError, match=r"not shown to be unichain.*discount=0.999"):
        bd.TabularMDP(STAY, 0, average=True)


@pytest.mark.parametrize("kind", ["absorbed", "average"])
def test_files_of_other_criteria_are_checked(kind, tmp_path):
    instance = absorbed_instance(4, (6, 3, 3)) if kind == "absorbed" else average_instance(4, (6, 3, 3))
    x = instance.mdp.embedding(visits=True, s0=instance.signals[0], s1=instance.signals[1])
    least = bd.solve(bd.Problem(cp.Minimize(x.s1)), instance.mdp).value
    limits = {"limit": x.s1 <= least + 0.1}
    for name, goal in {"linear": cp.Maximize(x.s0), "convex": cp.Minimize(cp.sum_squares(x.visits - 1))}.items():
        solution = bd.solve(bd.Problem(goal, limits), instance.mdp)
        assert solution.status == "optimal"
        path = tmp_path / f"{name}.bidual"
        solution.save(path)
        assert bd.check(path).claims["status"] == "optimal"
        rewrite(path, lambda manifest, arrays: arrays.update(potential=arrays["potential"] + 5.0 * np.arange(6)))
        with pytest.raises(CertificateError):
            bd.check(path)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_chain_that_mixes_fast_is_never_factored(transposed, monkeypatch):
    """Factors of a random graph fill in: with 10 000 states they take a minute where products take a second."""
    monkeypatch.setattr("bidual._base.resolvent.spla.splu", lambda *_: pytest.fail("factored"))
    n, rng = 2000, np.random.default_rng(0)
    entries = (0.98 / 4 * np.ones(4 * n), (np.repeat(np.arange(n), 4), rng.integers(0, n, 4 * n)))
    matrix, right = sp.csr_array(sp.coo_array(entries, shape=(n, n))), np.eye(1, n)[0]
    x = Resolvent(matrix)(right, transposed=transposed)
    system = matrix.T if transposed else matrix
    assert np.abs(right + system @ x - x).max() <= 1e-11 * np.abs(x).max()
