"""Forged files: whoever writes one knows the checker, and fits the checksum. None may pass with a false statement."""

import json
import zipfile
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import bidual as bd
from bidual._base.archive import digest
from bidual._base.status import Status
from bidual.world.policies import MarkovPolicy


def rewrite(path, change):
    """Change manifest and arrays, with a checksum that fits again."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = json.loads(archive.read("manifest.json")), load_arrays(archive.read("arrays.safetensors"))
    manifest.pop("sha256")
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(manifest, arrays)
    blob = save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    manifest["sha256"] = digest(manifest, blob)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", blob)


def free_choice(states=4, horizon=4):
    """A model in which every action leads to the state of its number, and episodes begin in state 0."""
    next_states = np.broadcast_to(np.arange(states)[None, :, None], (states, states, 1))
    return bd.TabularMDP((next_states, np.ones((states, states, 1))), np.eye(states)[0], horizon)


def going_to(places, states=4):
    """The policy of `free_choice` that visits these states after state 0."""
    table = np.full((len(places) + 1, states, states), 0.0)
    table[-1, :, 0] = 1.0
    for h, place in enumerate(places):
        table[h, :, place] = 1.0
    return MarkovPolicy(table)


@pytest.fixture
def forged(tmp_path):
    """A file that claims 4 as the optimum of a problem whose optimum is 3.5, with CVXPY's derivative as its proof.

    Where sum_largest(y, 2.5) is taken at (2, 1, 1, 0), a subgradient is (1, 1, 0.5, 0); CVXPY's is (1, 0.5, 0, 0).
    """
    mdp = free_choice()
    x = mdp.embedding(visits=True, total=True)
    problem = bd.Problem(cp.Minimize(cp.sum_largest(x.visits, 2.5)), {"first": x.visits[0] >= 3})
    solution = bd.solve(problem, mdp)
    assert solution.upper == pytest.approx(3.5, abs=1e-6)
    constraint = replace(solution.constraints[0], price=1.0, value=3.0, violation=0.0)
    evidence = replace(solution.evidence, policy=going_to([0, 0, 1]))
    numbers = dict.fromkeys(("value", "lower", "upper"), 4.0)
    replace(solution, status=Status.OPTIMAL, constraints=(constraint,), evidence=evidence, **numbers).save(
        tmp_path / "forged.bidual"
    )

    def forge(manifest, arrays):
        arrays["gamma"] = np.ones(1)
        arrays["point"] = np.array([2.0, 1.0, 1.0, 0.0, 2.0])[: evidence.program.image.size]

    rewrite(tmp_path / "forged.bidual", forge)
    return tmp_path / "forged.bidual"


def test_derivatives_of_another_library_prove_nothing(forged):
    with pytest.raises(bd.CertificateError, match="derivatives"):
        bd.check(forged)


# The requested gap.


def test_a_check_says_which_gap_counts_as_optimal(tmp_path):
    """A file may ask for any gap, and whoever reads "optimal" must see it."""
    task = bd.tasks.find("rover").build()
    bd.solve(task.problem, task.mdp, max_plans=4).save(tmp_path / "x")
    assert bd.check(tmp_path / "x").claims["status"] == "feasible"

    def forge(manifest, arrays):
        manifest["claims"]["status"], manifest["goal"] = "optimal", [1e9, False]
        manifest["claims"]["constraints"] = [one | {"price": price} for one, price in zip(results, prices, strict=True)]

    results = bd.check(tmp_path / "x").claims["constraints"]
    prices = [0.0] * len(results)
    rewrite(tmp_path / "x", forge)
    with pytest.raises(bd.CertificateError, match="claims constraints price"):
        bd.check(tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "x") as archive:
        gamma = load_arrays(archive.read("arrays.safetensors"))["gamma"]
    prices = gamma.tolist()
    rewrite(tmp_path / "x", forge)
    assert "check passed: optimal (a gap of at most 1e+09 was asked for)" in str(bd.check(tmp_path / "x"))


@pytest.mark.parametrize("goal", [[float("inf"), False], [float("nan"), False], [-1.0, False], ["1", False], [1e-6, 0]])
def test_a_goal_that_is_no_gap_is_refused(saved_river, goal):
    rewrite(saved_river, lambda manifest, arrays: manifest.update(goal=goal))
    with pytest.raises(bd.ArchiveError, match="not a complete solution"):
        bd.check(saved_river)


# Claims: weaker ones pass, stronger ones do not, however small the problem is.


@pytest.fixture
def saved_river(tmp_path):
    """A known problem with a constraint whose left side has a constant."""
    task = bd.tasks.find("riverswim").build(states=3, horizon=5)
    x = task.problem.embedding
    limits = {"budget": cp.sum(x.right) - 1 <= 1.5, "each": x.right[:2] + np.array([0.0, 2.0]) <= 3.0}
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward)), limits), task.mdp)
    solution.save(tmp_path / "river")
    return tmp_path / "river"


def claim(**numbers):
    """Claim other bounds, with the gap between them."""

    def change(manifest, arrays):
        claims = manifest["claims"]
        claims.update(numbers)
        claims["gap"] = claims["upper"] - claims["lower"]

    return change


def test_weaker_claims_pass(saved_river):
    claims = bd.check(saved_river).claims
    rewrite(saved_river, lambda manifest, arrays: manifest.update(goal=[1.0, False]))
    rewrite(saved_river, claim(lower=claims["lower"] - 0.1, upper=claims["upper"] + 0.1))
    weaker = bd.check(saved_river)
    assert weaker.claims["gap"] > 0.2
    assert f"{weaker.claims['gap']:.9g}" in str(weaker)


def test_an_optimal_answer_claims_no_gap_beyond_its_goal(saved_river):
    """The status would be true of the bounds that are derived, and is not of those that are claimed."""
    rewrite(saved_river, claim(lower=bd.check(saved_river).claims["lower"] - 0.5))
    with pytest.raises(bd.CertificateError, match=r"claims to be optimal with a gap of 0\.5"):
        bd.check(saved_river)


def test_a_gap_is_the_distance_of_the_bounds(saved_river):
    rewrite(saved_river, lambda manifest, arrays: manifest["claims"].update(gap=1.0))
    with pytest.raises(bd.CertificateError, match=r"gap = 1\.0, which is not"):
        bd.check(saved_river)


@pytest.mark.parametrize("key", ["lower", "upper"])
def test_stronger_claims_fail_beyond_the_rounding_slack(saved_river, key):
    check = bd.check(saved_river)
    resolution, sign = check.certificate.resolution, 1.0 if key == "lower" else -1.0
    slack = max(resolution.lower, resolution.value)
    assert 0 < slack < 1e-12
    rewrite(saved_river, claim(**{key: check.claims[key] + sign * 2 * slack}))
    with pytest.raises(bd.CertificateError, match=f"claims {key}"):
        bd.check(saved_river)


@pytest.mark.parametrize("scale", [1e-11, 1.0, 1e8])
@pytest.mark.parametrize("key", ["value", "lower", "upper"])
def test_claims_are_compared_in_the_scale_of_the_problem(tmp_path, scale, key):
    """A bound of 9e-11 passed for an optimum of 3e-11: everything was compared at 1e-10."""
    mdp, path = free_choice(3, 3), tmp_path / "x"
    x = mdp.embedding(reward=scale * np.array([0.0, 0.4, 1.0]))
    solution = bd.solve(bd.Problem(cp.Maximize(cp.sum(x.reward)), {}), mdp, gap=1e-6 * scale)
    solution.save(path)
    assert bd.check(path).claims["value"] == pytest.approx(2 * scale)
    lie = {"value": 2.000001, "lower": 2.000001, "upper": 1.999999}[key] * scale
    if key == "value":
        rewrite(path, lambda manifest, arrays: manifest["claims"].update(value=lie))
    else:
        rewrite(path, claim(**{key: lie}))
    with pytest.raises(bd.CertificateError, match=f"claims {key}"):
        bd.check(path)


# Constants of the left side.


def _shift(manifest, arrays):
    """Another limit and another value, both higher by 10: their difference is what it was."""
    manifest["lines"][0][3] = [manifest["lines"][0][3][0] + 10.0]
    constraint = manifest["claims"]["constraints"][0]
    constraint["value"] += 10.0
    constraint["limit"] += 10.0


def test_value_and_limit_cannot_be_shifted_together(saved_river):
    assert bd.check(saved_river).claims["constraints"][0]["limit"] == 1.5
    rewrite(saved_river, _shift)
    with pytest.raises(bd.CertificateError, match=r"'budget'.*constant"):
        bd.check(saved_river)


def test_constants_are_printed(saved_river):
    text = str(bd.check(saved_river))
    assert "the left side of 'budget' includes the constant -1, that of 'each' 0 to 2" in text


def test_an_older_file_says_that_its_constants_are_not_stored(saved_river):
    rewrite(saved_river, lambda manifest, arrays: arrays.pop("constants"))
    text = str(bd.check(saved_river))
    assert "of an earlier version" in text
    assert "'budget' -1" in text
    rewrite(saved_river, _shift)
    assert "'budget' 9" in str(bd.check(saved_river))


# Whose samples?


def test_the_samples_of_one_policy_are_no_evidence_for_another(tmp_path):
    task = bd.tasks.find("riverswim").build(budget=2.5, states=3, horizon=5)
    learned = bd.learn(task.problem, task.mdp, bd.models.Tabular(task.mdp), episodes=20, evaluation=30)
    learned.certify(30).save(tmp_path / "x")
    assert "earlier version" not in str(bd.check(tmp_path / "x"))
    older = tmp_path / "older"
    older.write_bytes((tmp_path / "x").read_bytes())

    def swap(manifest, arrays):
        arrays["policy"] = arrays["policy"][:, :, ::-1]

    rewrite(tmp_path / "x", swap)
    with pytest.raises(bd.CertificateError, match=r"round 1 .*another policy"):
        bd.check(tmp_path / "x")
    rewrite(older, lambda manifest, arrays: manifest.pop("policies"))
    assert "whose policy the samples are of is not stored" in str(bd.check(older))
